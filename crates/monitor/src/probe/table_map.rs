//! Tables, views, triggers and foreign keys, as far as the monitor's user may see them.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/information-schema-referential-constraints-table.html> and
//! <https://mariadb.com/kb/en/information-schema-referential_constraints-table/>.

use delphinus_sql::{LexOptions, Reach, ReachBuilder, TableKind};
use delphinus_topology::ServerFacts;

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{query, query_each};
use super::stored_code::{connect, has_mode, in_mode, lex, prepare};
use crate::settings::{BackendSpec, Settings};

/// More rows of a kind than anybody can look after.
const MOST: usize = 400_000;

/// Those of the servers change with no statement about them.
const TABLES: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES \
     WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

const VIEWS: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, \
     IF(LENGTH(VIEW_DEFINITION) > 262144, NULL, VIEW_DEFINITION) FROM information_schema.VIEWS \
     WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

const TRIGGERS: &str = "SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, SQL_MODE, \
     IF(LENGTH(ACTION_STATEMENT) > 262144, NULL, ACTION_STATEMENT) FROM information_schema.TRIGGERS \
     WHERE TRIGGER_SCHEMA NOT IN ('mysql', 'sys')";

/// The other rules change nothing.
const CASCADES: &str = "SELECT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, CONSTRAINT_SCHEMA, TABLE_NAME \
     FROM information_schema.REFERENTIAL_CONSTRAINTS \
     WHERE UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION')";

/// Without these rights on everything, servers leave out rows and say nothing of that.
const RIGHTS: &str = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES \
     WHERE PRIVILEGE_TYPE IN ('TRIGGER', 'SHOW VIEW') \
     AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')";

/// A row where a right on everything may have been taken back for a schema: servers list it in `USER_PRIVILEGES` all the same. Only
/// MySQL has this variable, from 8.0.16 on. It cannot be set to OFF while an account has lost a right so.
/// Source: <https://dev.mysql.com/doc/refman/9.0/en/partial-revokes.html>
const PARTIAL_REVOKES: &str =
    "SHOW GLOBAL VARIABLES WHERE Variable_name = 'partial_revokes' AND Value = 'ON'";

/// Engines whose tables have rows of their own, which others see when they are committed.
const TRANSACTIONAL: [&[u8]; 4] = [b"InnoDB", b"ROCKSDB", b"TokuDB", b"ndbcluster"];

/// The same; others see them at once.
const WITHOUT_TRANSACTIONS: [&[u8]; 6] = [b"MyISAM", b"Aria", b"MEMORY", b"CSV", b"ARCHIVE", b"ColumnStore"];

/// What a reading has come to.
pub(crate) enum Told {
    /// All there is.
    All(Box<Reach>),
    /// The monitor's user may not see all.
    Denied,
    /// More than anybody can look after.
    TooMuch,
}

/// Reads all that there is, on a connection of its own.
pub(crate) async fn read(
    spec: &BackendSpec,
    settings: &Settings,
    facts: &ServerFacts,
) -> Result<Told, ProbeError> {
    let mut connection = connect(spec, settings).await?;
    let told = read_all(&mut connection, facts).await;
    if matches!(told, Ok(_) | Err(ProbeError::Answer(_))) {
        connection.quit().await;
    }
    told
}

async fn read_all(connection: &mut Connection, facts: &ServerFacts) -> Result<Told, ProbeError> {
    prepare(connection, facts).await?;
    if query(connection, RIGHTS, 2).await?.len() < 2 || has_lost_rights(connection).await? {
        return Ok(Told::Denied);
    }
    let (mut builder, lex) = (ReachBuilder::default(), lex(facts));
    query_each(connection, TABLES, MOST, |row| see_table(&mut builder, row)).await?;
    query_each(connection, VIEWS, MOST, |row| {
        if are_views_missed() {
            return;
        }
        if let [Some(schema), Some(name), text] = *row {
            builder.view((&name_of(schema), &name_of(name)), text.unwrap_or_default(), lex);
        }
    })
    .await?;
    query_each(connection, TRIGGERS, MOST, |row| see_trigger(&mut builder, row, lex)).await?;
    query_each(connection, CASCADES, MOST, |row| {
        if let [Some(parent_schema), Some(parent), Some(schema), Some(child)] = *row {
            let parent = (&*name_of(parent_schema), &*name_of(parent));
            builder.cascade(parent, (&name_of(schema), &name_of(child)));
        }
    })
    .await?;
    Ok(builder.build().map_or(Told::TooMuch, |reach| Told::All(Box::new(reach))))
}

/// True if one of the rights was taken back for a schema.
async fn has_lost_rights(connection: &mut Connection) -> Result<bool, ProbeError> {
    if query(connection, PARTIAL_REVOKES, 1).await?.is_empty() {
        return Ok(false);
    }
    let grants = query(connection, "SHOW GRANTS", MOST).await?;
    Ok(grants.iter().flatten().flatten().any(|line| takes_rights_back(&String::from_utf8_lossy(line))))
}

/// True for a line of `SHOW GRANTS` such as "REVOKE SELECT, TRIGGER ON `hr`.* FROM `monitor`@`%`".
fn takes_rights_back(line: &str) -> bool {
    let rights =
        line.strip_prefix("REVOKE ").and_then(|rest| rest.split_once(" ON ")).map(|(rights, _)| rights);
    rights.is_some_and(|rights| ["TRIGGER", "SHOW VIEW", "ALL"].iter().any(|right| rights.contains(right)))
}

/// A fault that tests plant, to see that it would be found. No release build reads that.
fn are_views_missed() -> bool {
    cfg!(debug_assertions) && std::env::var_os("DELPHINUS_PLANT").is_some_and(|word| word == "view_missed")
}

fn name_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn see_table(builder: &mut ReachBuilder, row: &[Option<&[u8]>]) {
    let [Some(schema), Some(name), kind, engine] = *row else { return };
    let (kind, engine) = (kind.unwrap_or_default(), engine.unwrap_or_default());
    let is_one_of = |engines: &[&[u8]]| engines.iter().any(|one| engine.eq_ignore_ascii_case(one));
    let kind = match kind {
        b"VIEW" => TableKind::Plain,
        b"BASE TABLE" | b"SYSTEM VERSIONED" if is_one_of(&TRANSACTIONAL) => TableKind::Plain,
        b"BASE TABLE" | b"SYSTEM VERSIONED" if is_one_of(&WITHOUT_TRANSACTIONS) => {
            TableKind::WithoutTransactions
        }
        // MERGE, FEDERATED, CONNECT, sequences, and what is broken.
        _ => TableKind::Strange,
    };
    builder.table(&name_of(schema), &name_of(name), kind);
}

fn see_trigger(builder: &mut ReachBuilder, row: &[Option<&[u8]>], lex: LexOptions) {
    let [Some(schema), Some(table), mode, text] = *row else { return };
    let mode = mode.unwrap_or_default();
    // MariaDB calls a procedure there by its name alone, as in `p;`: it may do anything.
    let text = if has_mode(mode, b"ORACLE") { None } else { text };
    let lex = in_mode(lex, mode);
    builder.trigger((&name_of(schema), &name_of(table)), text.unwrap_or_default(), lex);
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    #[test]
    fn a_right_that_was_taken_back_for_a_schema_is_found() {
        for (line, is_lost) in [
            ("GRANT SELECT, TRIGGER, SHOW VIEW ON *.* TO `monitor`@`%`", false),
            ("REVOKE SELECT, TRIGGER ON `hr`.* FROM `monitor`@`%`", true),
            ("REVOKE SHOW VIEW ON `hr`.* FROM `monitor`@`%`", true),
            ("REVOKE ALL PRIVILEGES ON `hr`.* FROM `monitor`@`%`", true),
            ("REVOKE SELECT, INSERT ON `TRIGGER`.* FROM `monitor`@`%`", false),
        ] {
            assert_eq!(takes_rights_back(line), is_lost, "{line}");
        }
    }

    #[test]
    fn a_trigger_of_oracles_mode_may_do_anything() {
        for (mode, is_everything) in [(&b"STRICT_TRANS_TABLES"[..], false), (b"PIPES_AS_CONCAT,ORACLE", true)]
        {
            let (mut builder, lex) = (ReachBuilder::default(), LexOptions::default());
            see_table(&mut builder, &[Some(b"app"), Some(b"t"), Some(b"BASE TABLE"), Some(b"InnoDB")]);
            see_trigger(&mut builder, &[Some(b"app"), Some(b"t"), Some(mode), Some(b"BEGIN p; END")], lex);
            let (reach, sql) = (builder.build().unwrap(), b"UPDATE t SET a = 1");
            let written = reach.written_by(&classify(sql, lex), (sql, lex), Some("app"), false);
            assert_eq!(written.tables.is_everything, is_everything, "{written:?}");
        }
    }
}
