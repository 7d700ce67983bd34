//! The variables that no value is found for: clients can set them, and the test leaves them out. The lists are exact, so that a variable
//! that the test would no longer set, or that a new server brings along, is seen.

use std::fmt::Write;

use delphinus_sandbox::Flavor;

use super::Shown;

/// A variable, and why it is left out. Servers that do not have it are not meant.
type LeftOut = (&'static str, &'static str);

const MARIADB: &[LeftOut] = &[
    ("innodb_ft_user_stopword_table", "a value has to be a table of the server's that has a certain form"),
    ("max_relay_log_size", "it is about replication, and set for all"),
    ("query_cache_type", "the server has been started without a query cache"),
    ("sql_slave_skip_counter", "it is about replication, and set for all"),
    ("wsrep_gtid_seq_no", "the server has no provider for Galera"),
    ("wsrep_on", "the server has no provider for Galera"),
    ("wsrep_trx_fragment_size", "the server has no provider for Galera"),
    ("wsrep_trx_fragment_unit", "the server has no provider for Galera"),
];

const MYSQL: &[LeftOut] = &[
    ("external_table_storage_engine", "the server has no engine for external tables"),
    ("innodb_ft_user_stopword_table", "a value has to be a table of the server's that has a certain form"),
    ("rand_seed1", "the server shows 0 whatever was set"),
    ("rand_seed2", "the server shows 0 whatever was set"),
    ("gtid_next", "any other value is the GTID of the transaction that follows"),
    ("resultset_metadata", "the client has not agreed to results without column definitions"),
];

/// What is wrong with the list, with lines for it; empty if it is right. `shown`: the variables that the server has. `skipped`: those that
/// were left out, and what the server says of them.
pub(crate) fn complaint(flavor: Flavor, shown: &Shown, skipped: &Shown) -> String {
    let listed = if flavor == Flavor::MariaDb { MARIADB } else { MYSQL };
    let mut said = String::new();
    for (name, why) in skipped {
        if !listed.iter().any(|(one, _)| *one == name.as_str()) {
            let _ = writeln!(said, "    ({name:?}, {why:?}),");
        }
    }
    if !said.is_empty() {
        said.insert_str(0, "left out, and not in the list of left_out.rs; find a value, or say why:\n");
    }
    for (name, _) in listed {
        if shown.contains_key(*name) && !skipped.contains_key(*name) {
            let _ = writeln!(said, "in the list of left_out.rs, and not left out: {name:?}");
        }
    }
    said
}
