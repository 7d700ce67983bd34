//! Whole files against the configuration or the mistakes that they have to give.

mod files;
mod http;
mod pages;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use expect_test::{Expect, ExpectFile, expect, expect_file};

use super::parse;
use crate::{Config, Consistency, Environment, Mistake, OptionDoc, example, options, reference};

struct World {
    variables: BTreeMap<&'static str, &'static str>,
    files: BTreeMap<&'static str, &'static str>,
}

impl Environment for World {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(ToString::to_string)
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        let text = self.files.get(path.to_str().unwrap());
        text.map(ToString::to_string).ok_or_else(|| io::Error::other("no such file"))
    }
}

fn world() -> World {
    World {
        variables: [
            ("APP_PASSWORD", "app-secret"),
            ("MONITOR_PASSWORD", "m"),
            ("ADMIN_PASSWORD", "a"),
            ("EMPTY", ""),
            ("HTTP_TOKEN", "token-of-the-variable"),
        ]
        .into(),
        files: [
            ("/etc/ca.pem", "-----BEGIN CERTIFICATE-----"),
            ("/etc/delphinus/tls/cert.pem", "-----BEGIN CERTIFICATE-----"),
            ("/etc/delphinus/tls/key.pem", "-----BEGIN PRIVATE KEY-----"),
            ("/etc/delphinus/tls/not-pem", "hello"),
            ("/etc/delphinus/secrets/app.password", " file secret \r\n"),
            ("/etc/delphinus/secrets/empty", "\n"),
            ("/etc/delphinus/secrets/two-lines", "one\ntwo\n"),
        ]
        .into(),
    }
}

fn parse_text(text: &str) -> Result<Config, Vec<Mistake>> {
    parse(text, "/etc/delphinus/d.toml", &world())
}

fn check_mistakes(text: &str, expected: &Expect) {
    let mistakes = parse_text(text).unwrap_err();
    let lines: Vec<String> = mistakes.iter().map(|m| m.to_string().replace("/etc/delphinus/", "")).collect();
    let shown = lines.join("\n") + "\n";
    assert!(!shown.contains("TOPSECRET"), "a secret is shown: {shown}");
    expected.assert_eq(&shown);
}

#[test]
fn good_file() {
    let config = parse_text(include_str!("../../tests/data/good.toml")).unwrap();
    let shown = format!("{config:#?}\n");
    assert!(!shown.contains("secret\"") && !shown.contains("2470"), "a secret is shown: {shown}");
    let expected: ExpectFile = expect_file!["../../tests/data/good.expected"];
    expected.assert_eq(&shown);
}

#[test]
fn secrets_are_read_from_where_they_are() {
    let config = parse_text(include_str!("../../tests/data/good.toml")).unwrap();
    let secrets: Vec<String> = config
        .users
        .iter()
        .map(|user| match &user.credential {
            crate::Credential::Password(secret) => format!("password {:?}", secret.expose()),
            crate::Credential::NativeHash(bytes) => format!("native {:02x}{:02x}", bytes[0], bytes[19]),
            crate::Credential::Backend => "asked".to_owned(),
            crate::Credential::CachingSha2Hash(text) => format!("sha2 {:?}", &text.expose()[..27]),
        })
        .collect();
    expect![[r#"
        [
            "password \"\"",
            "password \"app-secret\"",
            "password \" file secret \"",
            "native 2419",
            "sha2 \"$A$005$abcdefghijklmnopqrst\"",
            "sha2 \"$A$005$abcdefghijklmnopqrst\"",
        ]
    "#]]
    .assert_debug_eq(&secrets);
    assert_eq!(config.clusters[0].monitor.password.expose(), "monitor-secret");
}

#[test]
fn several_clusters() {
    let config = parse_text(include_str!("../../tests/data/clusters.toml")).unwrap();
    let clusters: Vec<_> = config
        .clusters
        .iter()
        .map(|one| (one.name.as_str(), &one.schemas[..], one.routing.consistency, one.routing.strict_hints))
        .collect();
    let (eventual, session) = (Some(Consistency::Eventual), Some(Consistency::Session));
    let claimed = ["orders".to_owned(), "invoices".to_owned()];
    // What is said for one cluster holds there, all else is as for all.
    let expected = [
        ("shop", &[][..], session, true),
        ("orders", &claimed[..], eventual, true),
        ("stats", &[], session, true),
    ];
    assert_eq!(clusters, expected);
    let pools: Vec<_> =
        config.clusters.iter().map(|one| (one.pool.max_connections, one.pool.hold_ms)).collect();
    assert_eq!(pools, [(50, 0), (7, 0), (50, 0)]);
    let monitors: Vec<_> =
        config.clusters.iter().map(|one| (one.monitor.password.expose(), one.monitor.interval_ms)).collect();
    assert_eq!(monitors, [("p", 500), ("p", 500), ("m", 500)]);
    assert_eq!(config.listeners.iter().map(|one| one.cluster).collect::<Vec<_>>(), [None, Some(2)]);
    assert_eq!(config.users.iter().map(|one| config.home_of(one)).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(config.rules[0].clusters, [0]);
    let shown = |path: &str| {
        config.effective.0.iter().find(|(option, _)| option == path).map(|(_, value)| value.as_str())
    };
    assert_eq!(shown("cluster[2].name"), Some("\"orders\""));
    assert_eq!(shown("cluster[2].backend[1].address"), Some("\"orders1:3306\""));
    assert_eq!(
        (shown("cluster[2].pool.max_connections"), shown("cluster[3].pool.max_connections")),
        (Some("7"), Some("50"))
    );
    assert_eq!(shown("pool.max_connections"), None);
}

#[test]
fn wrong_clusters() {
    check_mistakes(
        include_str!("../../tests/data/bad-clusters.toml"),
        &expect![[r#"
        d.toml:3:1: there is no cluster "shpo"; write one of ["shop", "orders", "shop", "main", "lonely"]
        d.toml:9:1: default_schema = "CART" is in cluster "shop", and the user in "orders"; write a schema of the user's cluster, or remove cluster
        d.toml:14:1: there is no cluster "x"; write one of ["shop", "orders", "shop", "main", "lonely"]
        d.toml:19:1: the schema "Stock" is there twice; remove one of the two
        d.toml:19:1: schemas has an item "" that cannot be the name of a schema; write 1 to 64 characters
        d.toml:22:1: hold_ms = 60001 is out of range; write a whole number from 0 to 60000
        d.toml:23:1: unknown key "max_connection" in [cluster.pool]; write "max_connections"
        d.toml:33:1: the schema "Cart" is in cluster "shop" already; remove it here or there; clusters that have a schema of the same name are chosen by listener or user
        d.toml:35:10: user is missing in [cluster.monitor]; write user = and text in quotes
        d.toml:36:1: unknown key "fal" in [cluster.monitor]; write "fall"
        d.toml:39:1: name "db1" is there twice; write another name, or remove one of the two
        d.toml:40:1: address "shop1:3306" is there twice; write another address, or remove one of the two
        d.toml:43:1: the cluster has no primary; write role = "primary" in one [[cluster.backend]]
        d.toml:44:1: name "shop" is there twice; write another name, or remove one of the two
        d.toml:49:1: one of several clusters has no name; write name = "..." below its [[cluster]]
        d.toml:55:1: no client gets to cluster "lonely"; write cluster = "lonely" in a [[listener]] or [[user]], or schemas = [..] here; the first cluster is the default
        d.toml:61:1: idle_timeout_s = 0 is out of range; write a whole number from 1 to 31536000
        d.toml:63:2: user is missing in [monitor]; write user = and text in quotes
    "#]],
    );
    let both = "[cluster]\n[[cluster.backend]]\naddress = 'a:1'\n[[cluster]]\nname = 'b'\n";
    check_mistakes(
        both,
        &expect![[r#"
        d.toml:2:1: role is missing; write role = "primary" or "replica"
        d.toml:4:3: not valid TOML: duplicate key; write it with two brackets each time, or remove one of the two
    "#]],
    );
    let rules = include_str!("../../tests/data/clusters.toml").replace("cluster = [\"shop\"]\n", "")
        + "[[rule]]\nlog = true\ncluster = ['stats', 'shopp']\n";
    check_mistakes(
        &rules,
        &expect![[r#"
        d.toml:69:1: no backend of cluster "orders" is in the group "slow"; write cluster = [..] in the rule, or groups = [..] in a backend of that cluster
        d.toml:69:1: no backend of cluster "stats" is in the group "slow"; write cluster = [..] in the rule, or groups = [..] in a backend of that cluster
        d.toml:72:1: there is no cluster "shopp"; write one of ["shop", "orders", "stats"]
    "#]],
    );
    let in_a_list = include_str!("../../tests/data/clusters.toml").replace("[monitor]", "[monitr]");
    check_mistakes(
        &in_a_list,
        &expect![[r#"
        d.toml:62:2: unknown key "monitr"; write "monitor"
    "#]],
    );
}

#[test]
fn wrong_filters_and_limits() {
    check_mistakes(
        include_str!("../../tests/data/bad-filters.toml"),
        &expect![[r#"
            d.toml:4:1: allow has an item: "10.0.0.0/33" is not usable; write networks like "10.0.0.0/8" or "fd00::/8", prefixes like "10.1.*", IP addresses, "unix" or "*"
            d.toml:5:1: deny has an item: "localhost" is not usable; write networks like "10.0.0.0/8" or "fd00::/8", prefixes like "10.1.*", IP addresses, "unix" or "*"
            d.toml:9:1: deny has an item: "10" is not usable; write networks like "10.0.0.0/8" or "fd00::/8", prefixes like "10.1.*", IP addresses, "unix" or "*"
            d.toml:16:1: the filter matches no statement; write statement = ["write_without_where"], or others of the reference
            d.toml:19:1: statement has an item: "delete" is not known; write a list in brackets, each item "write_without_where", "sleep", "multi_statements", "load_data", "into_outfile", "ddl", "set_global" or "account"
            d.toml:20:1: action = "refuse" is not known; write "off", "log" or "reject"
            d.toml:23:1: unseen = "off" is not known; write "allow", "log" or "reject"
            d.toml:24:1: there is no cluster "other"; write one of ["main"]
            d.toml:26:1: the limit limits nothing; write one of statements_per_second, concurrency, max_rows, max_bytes, timeout_ms, idle_in_transaction_timeout_s
            d.toml:29:1: burst without statements_per_second; write statements_per_second, or remove burst
            d.toml:30:1: concurrency = 0 is out of range; write a whole number from 1 to 1000000
            d.toml:32:1: per = "digests" is not known; write "digest" (known: "all", "user", "schema", "client" or "digest")
            d.toml:33:1: digest has an item "xyz" that is not a digest; write 16 hexadecimal digits
            d.toml:37:1: idle_in_transaction_timeout_s beside schema or digest; write it in a limit by user or client: no statement runs while a session is idle
        "#]],
    );
}

#[test]
fn one_cluster_may_be_written_as_a_list() {
    let good = include_str!("../../tests/data/good.toml");
    let (one, list) =
        (parse_text(good).unwrap(), parse_text(&good.replace("[cluster]", "[[cluster]]")).unwrap());
    assert_eq!(one.clusters, list.clusters);
}

#[test]
fn a_row_without_a_name_has_its_number_alone() {
    let with = |rows: &str| parse_text(&format!("{}\n{rows}", example()));
    for (kind, rest) in
        [("rule", "log = true"), ("limit", "concurrency = 1"), ("filter", "statement = [\"sleep\"]")]
    {
        let rows = |name: &str| format!("[[{kind}]]\nname = '{name}'\n{rest}\n[[{kind}]]\n{rest}\n");
        with(&rows(&format!("{kind} 1"))).unwrap();
        let told = with(&rows(&format!("{kind} 2"))).unwrap_err();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].to_string().contains(&format!("name \"{kind} 2\" is that of")), "{told:?}");
    }
}

#[test]
fn wrong_rules() {
    check_mistakes(
        include_str!("../../tests/data/bad-rules.toml"),
        &expect![[r#"
            d.toml:4:1: mode = "ro" is not known; write "read_only" (known: "split", "read_write" or "read_only")
            d.toml:17:1: read_primary_percentage = 101 is out of range; write a whole number from 0 to 100
            d.toml:18:1: read_balance = "least_conections" is not known; write "least_connections" (known: "round_robin", "weighted", "least_connections", "least_latency" or "hash")
            d.toml:19:1: unknown key "strict" in [routing]; remove it; known here: primary_preferred, master_preferred, read_primary_percentage, read_master_percentage, read_balance, slow_start_ms, replica_read_only_transactions, consistency, consistency_timeout_ms, causal_reads_timeout, failover_wait_ms, failover_wait_queue, pause_timeout_ms, lost_transaction_error, strict_hints, explain_route
            d.toml:22:1: there is no listener "other"; write one of ["main"]
            d.toml:25:1: name "a" is there twice; write another name, or remove one of the two
            d.toml:26:1: no backend is in the group "report"; write groups = [..] in a [[cluster.backend]]
            d.toml:29:1: group beside target; remove one of them
            d.toml:31:1: match_digest is not a regular expression: unclosed group; write one in the syntax of Rust's regex crate
            d.toml:32:1: match_pattern is not a regular expression: Compiled regex exceeds size limit of 1048576 bytes.; write one in the syntax of Rust's regex crate
            d.toml:33:1: digest has an item "12" that is not a digest; write 16 hexadecimal digits
            d.toml:35:1: the rule does nothing; write target, group, reject, delay_ms, timeout_ms, consistency, cache_ttl_ms, replace_pattern, multiplex = false, mirror_group, log or log_only
            d.toml:38:1: class has an item: "selects" is not known; write "select" (known: "read", "write", "select", "insert", "replace", "update", "delete", "load_data", "call", "set", "show", "explain", "create_table", "drop_table", "alter_table", "other_ddl", "lock_tables", "flush", "kill", "account", "multi" or "unknown")
            d.toml:39:1: client has an item: "10.0.0.0/33" is not usable; write a number from 0 to 32 after the slash
            d.toml:42:1: cache_ttl_ms = 0 is out of range; write a whole number from 1 to 86400000
            d.toml:43:1: no mirror is in the group "x"; write a [[mirror]] with this group
            d.toml:43:1: mirror_group beside replace_pattern; remove one of them
            d.toml:44:1: replace_pattern without match_pattern; write the match_pattern that it is to replace
        "#]],
    );
}

#[test]
fn a_stream_needs_a_relay_of_each_cluster() {
    let file = |relay: &str| {
        format!(
            "listener = [{{ address = '127.0.0.1:0', cluster = 'a' }}]\nuser = [{{ name = 'u', password = 'p' }}, {{ name = 'v', password = 'p', cluster = 'b' }}]\n\
             [[cluster]]\nname = 'a'\n[[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n\
             [[cluster]]\nname = 'b'\n[[cluster.backend]]\naddress = 'db2:3306'\nrole = 'primary'\n\
             [monitor]\nuser = 'm'\npassword = 'p'\n[cache]\ninvalidation = 'stream'\n{relay}",
        )
    };
    let relay = |name: &str, server_id: u32, source: &str| {
        format!(
            "[[relay]]\nname = '{name}'\nfolder = '{name}'\nserver_id = {server_id}\nsource_user = 'u'\nsource_password = 'p'\n{source}\n"
        )
    };
    let (of_a, of_b) = (relay("r", 8, "cluster = 'a'"), relay("s", 9, "cluster = 'b'"));
    check_mistakes(
        &file(&(of_a.clone() + &relay("s", 9, "source = 'db2:3306'"))),
        &expect![[r#"
            d.toml:17:1: invalidation = "stream", but no [[relay]] follows cluster "b": what others write there is not known; write a [[relay]] with cluster = "b", or invalidation = "own_writes"
        "#]],
    );
    assert!(parse_text(&file(&(of_a + &of_b))).is_ok());
}

#[test]
fn relays_of_a_failover_can_acknowledge() {
    let file = |relay: &str| {
        format!(
            "listener = [{{ address = '127.0.0.1:0' }}]\nuser = [{{ name = 'u', password = 'p' }}]\n\
             [monitor]\nuser = 'm'\npassword = 'p'\n[cluster]\ntopology = 'read_only'\n\
             [[cluster.backend]]\nname = 'db1'\naddress = 'db1:3306'\n\
             [cluster.failover]\nuser = 'f'\npassword = 'p'\nreplication_user = 'repl'\nreplication_password = 'p'\n\
             relays = ['r']\n{relay}",
        )
    };
    let relay = |lines: &str, user: &str| {
        format!(
            "[[relay]]\nname = 'r'\nfolder = 'r'\nserver_id = 9\nsource_user = 'u'\nsource_password = 'p'\n{lines}\n\
             [[relay.user]]\nname = '{user}'\npassword = 'p'\n"
        )
    };
    let at = "addresses = ['10.0.0.7:3306']";
    let all = [
        String::new(),
        relay(&format!("{at}\nsource = 'db1:3306'"), "repl"),
        relay(&format!("{at}\nsemi_sync = false"), "repl"),
        relay("addresses = ['0.0.0.0:3306']", "repl"),
        relay(at, "other"),
        relay(&format!("{at}\nmay_follow = ['db1:3306']\nsource_tls = 'required'"), "repl"),
    ];
    let told = all.map(|relay| {
        let mistakes = parse_text(&file(&relay)).unwrap_err();
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    });
    expect![[r#"
        /etc/delphinus/d.toml:16:1: relays names 'r', and there is no such relay; write names of [[relay]] of this file, or of [[cluster.failover.remote_relay]]
        /etc/delphinus/d.toml:16:1: relay 'r' cannot acknowledge for this cluster: it follows another source; write cluster = the name of this cluster there
        /etc/delphinus/d.toml:16:1: relay 'r' cannot acknowledge for this cluster: semi_sync = false; remove that from the relay
        /etc/delphinus/d.toml:16:1: relay 'r' cannot acknowledge for this cluster: servers do not know where they reach it; write addresses with an IP address, or report_address, there
        /etc/delphinus/d.toml:16:1: relay 'r' cannot acknowledge for this cluster: it has no [[relay.user]] 'repl', with which servers log in to fetch what they lack; write that user there, with the password of replication_user
        /etc/delphinus/d.toml:24:1: relay "r" follows a cluster, and has may_follow; remove it: the relay goes to the cluster's backends; /etc/delphinus/d.toml:25:1: relay "r" follows a cluster, and has source_tls; remove it: the relay reaches each backend as its [[cluster.backend]] says; write it there, without source_
    "#]].assert_eq(&(told.join("\n") + "\n"));
    assert!(parse_text(&file(&relay(at, "repl"))).is_ok());
    let elsewhere = "addresses = ['0.0.0.0:3306']\nreport_address = 'relay.example:3306'";
    assert!(parse_text(&file(&relay(elsewhere, "repl"))).is_ok());
    // Of another process.
    let remote =
        |lines: &str| format!("[[cluster.failover.remote_relay]]\naddress = '127.0.0.1:6447'\n{lines}\n");
    let whole = "name = 'r'\nuser = 'o'\npassword = 'planted'";
    let config = parse_text(&file(&remote(whole))).unwrap();
    assert_eq!(config.clusters[0].failover.as_ref().unwrap().remote_relays[0].name, "r");
    let all = [
        remote(whole) + &remote(whole),
        remote(whole) + &relay(at, "repl"),
        remote("name = 'r'\npassword = 'planted'"),
        remote("name = 'r'\nuser = 'o'"),
        remote(whole).replace("127.0.0.1", "relay1.example"),
    ];
    let told = all.map(|relay| {
        let mistakes = parse_text(&file(&relay)).unwrap_err();
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    });
    expect![[r#"
        /etc/delphinus/d.toml:24:1: name "r" is there twice; write another name, or remove one of the two
        /etc/delphinus/d.toml:16:1: 'r' is a [[relay]] of this file and a remote_relay; give one of the two another name, or remove it
        /etc/delphinus/d.toml:17:1: user is missing in [[cluster.failover.remote_relay]]; write user = and text in quotes
        /etc/delphinus/d.toml:17:1: the user "o" of remote_relay 'r' has no password; write password_file, password_env or password ("" for a user without a password)
        /etc/delphinus/d.toml:18:1: remote_relay 'r' is on another machine, and whom to trust there is not said; write tls_ca = "/path/to/ca.pem", too
    "#]]
    .assert_eq(&(told.join("\n") + "\n"));
}

#[test]
fn wrong_cache() {
    check_mistakes(
        include_str!("../../tests/data/bad-cache.toml"),
        &expect![[r#"
            d.toml:3:1: max_entry_bytes = 4096 is more than a quarter of max_bytes = 8192; write a larger max_bytes or a smaller max_entry_bytes
            d.toml:4:1: unknown key "size" in [cache]; remove it; known here: max_bytes, max_entry_bytes, invalidation, stream_max_lag_ms, soft_ttl_pct, query_cache_soft_ttl_pct, empty_results, query_cache_stores_empty_result, warnings, query_cache_handle_warnings, wait_ms, rights_max_age_ms
            d.toml:27:1: cache_ttl_ms beside consistency = "global": nothing could be kept; remove one of them
            d.toml:30:1: cache_ttl_ms beside multiplex = false: nothing could be kept; remove one of them
        "#]],
    );
    let off = include_str!("../../tests/data/bad-cache.toml").replace("8192", "0");
    check_mistakes(
        &off,
        &expect![[r#"
            d.toml:4:1: unknown key "size" in [cache]; remove it; known here: max_bytes, max_entry_bytes, invalidation, stream_max_lag_ms, soft_ttl_pct, query_cache_soft_ttl_pct, empty_results, query_cache_stores_empty_result, warnings, query_cache_handle_warnings, wait_ms, rights_max_age_ms
            d.toml:25:1: cache_ttl_ms, but there is no room: [cache] max_bytes = 0; write another max_bytes, or remove it
            d.toml:27:1: cache_ttl_ms, but there is no room: [cache] max_bytes = 0; write another max_bytes, or remove it
            d.toml:27:1: cache_ttl_ms beside consistency = "global": nothing could be kept; remove one of them
            d.toml:30:1: cache_ttl_ms, but there is no room: [cache] max_bytes = 0; write another max_bytes, or remove it
            d.toml:30:1: cache_ttl_ms beside multiplex = false: nothing could be kept; remove one of them
        "#]],
    );
}

#[test]
fn wrong_values() {
    check_mistakes(
        include_str!("../../tests/data/bad-values.toml"),
        &expect![[r#"
            d.toml:2:1: unknown key "wrokers" in [proxy]; write "workers"
            d.toml:3:1: max_connections = 0 is out of range; write a whole number from 1 to 1000000
            d.toml:4:1: connect_timeout_ms is text; write a whole number from 1 to 3600000
            d.toml:5:1: unknown key "hold_ms" in [proxy]; "hold_ms" belongs to [pool]
            d.toml:6:1: server_version = "eight" is not a version; write three numbers first, for example "8.4.5" or "10.11.14-MariaDB"
            d.toml:7:1: max_allowed_packet = 99999999999999999999 is out of range; write a whole number from 1024 to 1073741824
            d.toml:8:1: default_authentication_plugin = "caching_sha2" is not known; write "mysql_native_password" or "caching_sha2_password"
            d.toml:9:1: data_dir is empty; write a path in quotes
            d.toml:11:1: "threads" is another name of "workers", which is written, too; remove one of them
            d.toml:14:1: unknown key "adress" in [[listener]]; write "address"
            d.toml:17:1: address = "localhost:6446" is not usable; a listener needs an IP address, not a name: write "127.0.0.1:6446", or "0.0.0.0:6446" for all interfaces
            d.toml:18:1: tls is true or false; write "disabled", "optional" or "required"
            d.toml:22:1: socket_mode has no effect for 127.0.0.1:6447; remove it, or write address = "unix:/path"
            d.toml:23:1: tls_cert without tls_key; write tls_key, too
            d.toml:27:1: socket_mode = "rwx" is not usable; write octal permission bits in quotes, "0770"
            d.toml:28:1: tls_cert is set, but tls is "disabled", as it is for a Unix socket; remove tls_cert, or write tls = "optional"
            d.toml:29:1: tls_key is set, but tls is "disabled", as it is for a Unix socket; remove tls_key, or write tls = "optional"
            d.toml:32:1: address = "unix:run/x.sock" is not usable; write the whole path of the socket, "unix:/run/delphinus.sock"
            d.toml:35:1: "" cannot be the name of a user; write 1 to 80 characters
            d.toml:36:1: password is a whole number; write text in quotes
            d.toml:39:1: topology = "galera" is not known; write "static", "read_only" or "group_replication"
            d.toml:42:1: address = "db1" is not usable; write a port from 1 to 65535 after the host, "db1:3306"
            d.toml:43:1: role = "primry" is not known; write "primary" (known: "primary" or "replica")
            d.toml:46:1: address = "::1:3306" is not usable; write an IPv6 address in brackets, "[::1]:3306"
            d.toml:47:1: role = "master" is not known; write "primary" (known: "primary" or "replica")
            d.toml:48:1: weight is a number with a fraction; write a whole number from 0 to 1000
            d.toml:50:2: unknown key "monitr"; write "monitor"
            d.toml:54:1: max_connections is a list; write a whole number from 1 to 100000
            d.toml:56:2: unknown key "zzz"; remove it; known here: proxy, listener, user, authentication, cluster, routing, rule, filter, limit, mirror, monitor, pool, cache, digests, slow_log, activity, sql_log, lease, vip, relay, log, admin, http
        "#]],
    );
}

#[test]
fn wrong_relations() {
    check_mistakes(
        include_str!("../../tests/data/bad-relations.toml"),
        &expect![[r#"
            d.toml:6:1: name "a" is there twice; write another name, or remove one of the two
            d.toml:7:1: address "127.0.0.1:6446" is there twice; write another address, or remove one of the two
            d.toml:8:1: tls_cert missing.pem cannot be read: no such file; write the path of a file that the proxy may read
            d.toml:9:1: tls_key tls/not-pem holds no PEM block; write the path of a file with "-----BEGIN ..." in it
            d.toml:13:1: tls_ca is set, but tls is "disabled", as it is for a Unix socket; remove tls_ca, or write tls = "optional"
            d.toml:17:1: tls_key without tls_cert; write tls_cert, too
            d.toml:19:1: user "none" has no password; write password_file, password_env or password ("" for a user without a password)
            d.toml:25:1: user "two" has both password and password_env; keep one of them
            d.toml:28:1: name "two" is there twice; write another name, or remove one of the two
            d.toml:29:1: environment variable NOT_SET is not set; set it for the process, or write the name of one that is set
            d.toml:33:1: password_file missing.password cannot be read: no such file; write the path of a file that holds the password and nothing else
            d.toml:37:1: password_file secrets/empty is empty; write the path of a file that holds the password and nothing else
            d.toml:41:1: password_file secrets/two-lines holds more than one line; write the path of a file that holds the password and nothing else
            d.toml:45:1: environment variable EMPTY is empty; set it to the password, or write password = "" for a user without one
            d.toml:49:1: password_hash has 9 characters after the *, not 40 hex digits; write "*" and 40 hex digits, as mysql.user has it
            d.toml:53:1: password_hash is not a hash of mysql_native_password or caching_sha2_password; write "*" and 40 hex digits, or "$A$005$..." (70 characters), or the latter in hex after "0x"
            d.toml:61:1: tls = "verify_ca" needs the certificates of the authorities; write tls_ca = "/path/to/ca.pem", too
            d.toml:64:1: name "db1" is there twice; write another name, or remove one of the two
            d.toml:66:1: a second primary beside db1; write role = "replica" in all but one [[cluster.backend]]
            d.toml:67:1: tls_ca is set, but tls = "preferred" does not check certificates; write tls = "verify_ca" or "verify_identity"
            d.toml:71:1: address "db2:3306" is there twice; write another address, or remove one of the two
            d.toml:78:1: tls = "verify_identity" needs a host name, and a Unix socket has none; write "verify_ca"
            d.toml:81:2: [monitor] has no password; write password_file, password_env or password ("" for a user without a password)
            d.toml:88:1: tls_fingerprints is set, but tls = "disabled" does not look at it; write tls = "required", or remove it
            d.toml:89:1: trust_server_certificate is set, but tls = "disabled"; remove it
            d.toml:94:1: server_public_key_fingerprints is set, but RSA keys are used only without TLS; write tls = "disabled", or tls_fingerprints instead
            d.toml:95:1: get_server_public_key is set, but the keys are listed; remove one of the two
            d.toml:101:1: get_server_public_key is set, but there is always TLS, which needs no key; remove it
        "#]],
    );
}

#[test]
fn wrong_syntax() {
    check_mistakes(
        include_str!("../../tests/data/bad-syntax.toml"),
        &expect![[r#"
        d.toml:2:18: not valid TOML: string values must be quoted, expected literal string; write name = value in each line, with text in quotes
        d.toml:4:1: not valid TOML: duplicate key; remove one of the two
        d.toml:8:22: not valid TOML: invalid basic string, expected `"`; write name = value in each line, with text in quotes
        d.toml:11:1: hold_ms = -1 is out of range; write a whole number from 0 to 60000
    "#]],
    );
}

#[test]
fn wrong_shapes() {
    check_mistakes(
        include_str!("../../tests/data/bad-shapes.toml"),
        &expect![[r#"
            d.toml:1:1: "proxy" is a whole number; write [proxy], once
            d.toml:2:9: an item of "user" is a whole number; write [[user]] and its keys below
            d.toml:4:2: "listener" is a table, but there can be several; write [[listener]] with two brackets
            d.toml:7:3: "monitor" is a list; write [monitor], once
            d.toml:11:1: "backend" is text, but there can be several; write [[cluster.backend]] with two brackets
            d.toml:14:1: level = "warning" is not known; write "warn" (known: "error", "warn", "info", "debug" or "trace")
        "#]],
    );
}

#[test]
fn empty_file() {
    check_mistakes(
        include_str!("../../tests/data/empty.toml"),
        &expect![[r#"
        d.toml:1:1: [cluster] is missing; write [cluster] and below it a [[cluster.backend]] for each server
        d.toml:1:1: [monitor] is missing; write [monitor] and below it user and password of the probes
        d.toml:1:1: no [[listener]] is set, so no client could connect; write [[listener]] and below it address = "127.0.0.1:6446"
        d.toml:1:1: no [[user]] is set, so no client could log in; write [[user]] and below it name = "..." and password = "..."
    "#]],
    );
}

#[test]
fn no_primary() {
    check_mistakes(
        include_str!("../../tests/data/no-primary.toml"),
        &expect![[r#"
        d.toml:6:2: the cluster has no primary; write role = "primary" in one [[cluster.backend]]
    "#]],
    );
}

#[test]
fn bad_health() {
    check_mistakes(
        include_str!("../../tests/data/bad-health.toml"),
        &expect![[r#"
            d.toml:10:1: a role, but with topology = "read_only" roles are found out; remove it
            d.toml:17:1: lag_recover_ms = 501 is more than lag_down_ms = 500; write one that is not more than lag_down_ms
            d.toml:18:1: heartbeat_table = "delphinus.`heartbeat`" is not a schema and a table; write "schema.table", each of letters, digits, _, $ and - and at most 64 of them
            d.toml:20:1: heartbeat_interval_ms = 1000 is more than lag_down_ms = 500; write one that is not more than lag_down_ms
            d.toml:21:1: discovery = "group", but topology = "read_only" has no group; write "auto", or topology = "group_replication"
        "#]],
    );
    check_mistakes(
        include_str!("../../tests/data/bad-discovery.toml"),
        &expect![[r#"
            d.toml:13:1: discovery = "replicas", but with topology = "group_replication" the group says who is in it; write "auto" or "group"
        "#]],
    );
    check_mistakes(
        include_str!("../../tests/data/bad-roles.toml"),
        &expect![[r#"
        d.toml:10:1: role is missing; write role = "primary" or "replica"
    "#]],
    );
}

#[test]
fn bad_failover() {
    check_mistakes(
        include_str!("../../tests/data/bad-failover.toml"),
        &expect![[r#"
        d.toml:16:1: a user, but with topology = "static" roles do not move; write topology = "read_only" or "group_replication", or remove it
        d.toml:18:1: prefer names 'db9', and there is no such backend; write names of [[cluster.backend]]
        d.toml:21:1: no client gets to cluster "two"; write cluster = "two" in a [[listener]] or [[user]], or schemas = [..] here; the first cluster is the default
        d.toml:28:1: auto_failover = true, but the proxy has no account to act with; write user and its password, too
        d.toml:31:1: no client gets to cluster "three"; write cluster = "three" in a [[listener]] or [[user]], or schemas = [..] here; the first cluster is the default
        d.toml:37:10: the user "failover" of [cluster.failover] has no password; write password_file, password_env or password ("" for a user without a password)
        d.toml:40:1: on_loss = "perhaps" is not known; write "refuse" or "proceed"
    "#]],
    );
}

/// Two processes that both replace a primary would make two.
#[test]
fn failover_without_a_word_needs_a_lease() {
    let file = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[user]]\nname = \"u\"\npassword = \"p\"\n\
                [cluster]\ntopology = \"read_only\"\n[[cluster.backend]]\naddress = \"db1:3306\"\n\
                [cluster.failover]\nuser = \"failover\"\npassword = \"p\"\nauto_failover = true\n\
                [monitor]\nuser = \"m\"\npassword = \"p\"\n";
    check_mistakes(
        file,
        &expect![[r#"
            d.toml:13:1: auto_failover = true, but no [lease] says which process acts; write [lease] with its store; store = "local" if no other process moves the roles of this cluster
        "#]],
    );
    parse_text(&format!("{file}[lease]\nstore = \"local\"\n")).unwrap();
}

#[test]
fn bad_lease() {
    check_mistakes(
        include_str!("../../tests/data/bad-lease.toml"),
        &expect![[r#"
            d.toml:16:1: store = "group", and the first cluster is no group; write topology = "group_replication" there, or store = "etcd"
            d.toml:16:1: store = "group" without a user of the servers; write user and password_file; docs/ha.md says which rights it needs
            d.toml:17:1: endpoints is etcd's, and store = "group"; remove it: the servers are those of [[cluster.backend]], and so is their TLS
            d.toml:18:1: tls_ca is etcd's, and store = "group"; remove it: the servers are those of [[cluster.backend]], and so is their TLS
            d.toml:18:1: tls_ca missing.pem cannot be read: no such file; write the path of a file that the proxy may read
        "#]],
    );
}

#[test]
fn bad_authentication() {
    check_mistakes(
        include_str!("../../tests/data/bad-authentication.toml"),
        &expect![[r#"
        d.toml:6:1: user "both" has both password and auth = "backend"; keep one of them
        d.toml:11:1: auth = "server" is not known; write "backend" (known: "backend")
        d.toml:13:1: the two passwords of user "kinds" are not of the same kind; write both as passwords, or both as hashes of the same plugin
        d.toml:22:1: user "two" has both secondary_password and secondary_password_env; keep one of them
        d.toml:27:1: authentication_plugin = "client_ed25519" does not work with the password option of user "signer"; remove it, or write the password itself (password_file, password_env or password)
        d.toml:32:1: secondary_password_hash has 2 characters after the *, not 40 hex digits; write "*" and 40 hex digits, as mysql.user has it
        d.toml:36:1: max_verifiers = 0 is out of range; write a whole number from 1 to 1000000
        d.toml:37:1: caching_sha2_password_private_key_path missing.pem cannot be read: no such file; write the path of a file that the proxy may read
        d.toml:41:1: auth = "backend" cannot check passwords over a backend's Unix socket: servers let the proxy's own system user in without one; write "127.0.0.1:3306", or list the users with their passwords
    "#]],
    );
}

#[test]
fn wrong_lists() {
    check_mistakes(
        include_str!("../../tests/data/bad-lists.toml"),
        &expect![[r#"
            d.toml:3:1: compression_algorithms is empty, so no client could connect; write ["uncompressed"] for no compression
            d.toml:4:1: proxy_protocol_networks has an item: "10.0.0.0/33" is not usable; write a number from 0 to 32 after the slash
            d.toml:7:1: compression_algorithms is text; write a list in brackets, each item "uncompressed", "zlib" or "zstd"
            d.toml:8:1: proxy_protocol_networks has no effect for unix:/run/x.sock; remove it: clients of a Unix socket have no IP address
            d.toml:11:1: protocol_compression_algorithms has an item: "lz4" is not known; write a list in brackets, each item "uncompressed", "zlib" or "zstd"
            d.toml:12:1: proxy_protocol_networks has an item: "lb1" is not usable; write networks like "10.0.0.0/8" or "fd00::/8", or single IP addresses
            d.toml:21:1: compression = "zstd", but MariaDB servers cannot do that; write "zlib" or "uncompressed"
            d.toml:22:1: zstd_compression_level = 23 is out of range; write a whole number from 1 to 22
            d.toml:23:1: send_proxy_protocol = "v3" is not known; write "v1" (known: "v1" or "v2")
            d.toml:28:1: pass_connection_attributes has an item that is a whole number; write a list in brackets, each item text in quotes
        "#]],
    );
}

#[test]
fn wrong_limits() {
    check_mistakes(
        include_str!("../../tests/data/bad-limits.toml"),
        &expect![[r#"
        d.toml:3:1: reserved_connections = 20 leaves nothing of max_connections = 20 to others; write less than 20, or a larger max_connections
        d.toml:3:1: reserved_connections is set, but no user has connection_admin; write connection_admin = true in a [[user]], or remove it
        d.toml:4:1: max_user_connections = 21 is above max_connections = 20, and so never reached; write at most 20, or remove it
        d.toml:5:1: max_connections_per_address = 0 is out of range; write a whole number from 1 to 1000000
        d.toml:13:1: the users' min_backend_connections are 13, and a backend has 2; write smaller ones, or a larger max_connections
        d.toml:13:1: min_backend_connections = 5 is above max_backend_connections = 4; write at most 4
        d.toml:19:1: min_backend_connections without the password of user "hashed"; write the password itself (password_file, password_env or password), or remove it
        d.toml:20:1: multiplex is text; write true or false
        d.toml:27:1: max_connections = 2 is all reserved: [pool] reserved_connections = 2; write more than 2
        d.toml:39:1: reserved_connections is set, but no user has connection_admin; write connection_admin = true in a [[user]], or remove it
    "#]],
    );
}

#[test]
fn what_is_reserved_follows_the_users() {
    let with = |proxy: &str, user: &str| {
        let text = include_str!("../../tests/data/good.toml")
            .replace("[[user]]\nname = \"plain\"", &format!("[[user]]\n{user}\nname = \"plain\""))
            .replace("[proxy]", &format!("[proxy]\n{proxy}"));
        let config = parse_text(&text).unwrap();
        (config.reserved_clients(), config.reserved_backend_connections(&config.clusters[0]))
    };
    assert_eq!(with("", ""), (0, 0));
    assert_eq!(with("", "connection_admin = true"), (5, 2));
    assert_eq!(with("reserved_connections = 9", "connection_admin = true"), (9, 2));
    assert_eq!(with("reserved_connections = 0", "connection_admin = true"), (0, 2));
}

#[test]
fn bad_admin() {
    let text = include_str!("../../tests/data/bad-admin.toml");
    check_mistakes(
        text,
        &expect![[r#"
        d.toml:19:1: addresses: 0.0.0.0:6448 can be reached from other machines; write 127.0.0.1, or tls = "required"
        d.toml:19:1: addresses has 127.0.0.1:6447 twice; remove one of the two
        d.toml:20:1: socket_mode has no effect without a Unix socket among the addresses; remove it, or add "unix:/path" to addresses
        d.toml:21:1: tls_key without tls_cert; write tls_cert, too
        d.toml:22:1: max_connections = 0 is out of range; write a whole number from 1 to 1000
        d.toml:24:1: operator "none" has no password; write password_file, password_env or password ("" for a user without a password)
        d.toml:29:1: operator "empty" has an empty password; write a password
        d.toml:30:1: role = "write" is not known; write "viewer", "operator" or "admin"
        d.toml:33:1: name "empty" is there twice; write another name, or remove one of the two
        d.toml:34:1: password_hash is not a hash of mysql_native_password or caching_sha2_password; write "*" and 40 hex digits, or "$A$005$..." (70 characters), or the latter in hex after "0x"
    "#]],
    );
    let text =
        include_str!("../../tests/data/good.toml").to_owned() + "[admin]\naddresses = ['127.0.0.1:1']\n";
    check_mistakes(
        &text,
        &expect![[r#"
            d.toml:147:2: no [[admin.user]] is set, so no operator could log in; write [[admin.user]] and below it name = "...", password_file = "..." and role = "admin"
        "#]],
    );
}

#[test]
fn every_option_is_shown_and_no_secret_is() {
    let text = include_str!("../../tests/data/good.toml").to_owned()
        + "[admin]\naddresses = ['[::1]:1', 'unix:/a']\n[[admin.user]]\nname = 'ops'\npassword = 'admin-secret'\n\
           [http]\naddresses = ['unix:/b']\n[[http.token]]\nname = 't'\ntoken = 'http-secret-012345'\n\
           [[relay]]\nname = 'r'\nfolder = 'r'\nserver_id = 9\nsource_user = 'u'\nsource_password = 'source-secret'\n\
           [[relay.user]]\nname = 'u'\npassword = 'replica-secret'\n\
           [[cluster.failover.remote_relay]]\nname = 'far'\naddress = '127.0.0.1:6447'\nuser = 'o'\npassword = 'remote-secret'\n";
    let shown = parse_text(&text).unwrap().effective.0;
    let value = |path: &str| shown.iter().find(|(name, _)| name == path).map(|(_, value)| value.as_str());
    assert_eq!(value("proxy.workers"), Some("4"));
    assert_eq!(value("pool.checkout_timeout_ms"), Some("10000"), "a default");
    assert_eq!(value("listener[3].socket_mode"), Some("\"0770\""));
    assert_eq!(value("cluster.backend[2].weight"), Some("0"));
    assert_eq!(value("user[1].password"), Some("(hidden)"));
    assert_eq!(value("user[4].password_hash"), Some("(hidden)"));
    assert_eq!(value("admin.user[1].password"), Some("(hidden)"));
    assert_eq!(value("admin.addresses"), Some("[\"[::1]:1\", \"unix:/a\"]"));
    let all: String = shown.iter().map(|(_, value)| value.as_str()).collect();
    for secret in [
        "secret\"",
        "app-secret",
        "monitor-secret",
        "admin-secret",
        "lease-secret",
        "http-secret",
        "source-secret",
        "replica-secret",
        "remote-secret",
        "2470C0C0",
        "$A$005",
    ] {
        assert!(!all.contains(secret), "{secret}");
    }
    // Each option of the reference is there, for each section that is written.
    for option in options() {
        let (section, name) = option.path.rsplit_once('.').unwrap();
        let is_it = |path: &str| {
            path.rsplit_once('.')
                .is_some_and(|(shown, last)| last == name && without_numbers(shown) == section)
        };
        assert!(shown.iter().any(|(path, _)| is_it(path)), "{}", option.path);
    }
}

/// `relay[1].user[2]` as `relay.user`.
fn without_numbers(path: &str) -> String {
    path.split('.').filter_map(|part| part.split('[').next()).collect::<Vec<_>>().join(".")
}

#[test]
fn nobody_need_be_listed_where_the_primary_is_asked() {
    let text = "[[listener]]\naddress = '127.0.0.1:0'\n[authentication]\nauth = 'backend'\n[cluster]\n\
                [[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n[monitor]\nuser = 'm'\npassword = 'p'";
    let config = parse_text(text).unwrap();
    assert!(config.asks_backend() && config.users.is_empty());
}

#[test]
fn the_example_is_valid() {
    parse_text(example()).unwrap();
}

#[test]
fn the_reference_page_is_up_to_date() {
    expect_file!["../../../../docs/reference/options.md"].assert_eq(&reference());
}

const MINIMAL: &str = "listener = [{ address = '127.0.0.1:0'LISTENER }]\n\
    user = [{ name = 'u', password = 'p'USER }]\n\
    [proxy]\nPROXY[cluster]\nCLUSTER[[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\nBACKEND[cluster.failover]\nFAILOVER[[cluster.failover.remote_relay]]\nname = 'far'\naddress = 'far:6447'\nuser = 'o'\nREMOTE\
    [monitor]\nuser = 'm'\npassword = 'p'\nMONITOR[authentication]\nAUTHENTICATION[pool]\nPOOL[cache]\nCACHE[digests]\nDIGESTS[slow_log]\nSLOWLOG[activity]\nACTIVITY[sql_log]\nSQLLOG[lease]\nstore = 'local'\nLEASE[log]\nLOG\
    [routing]\nROUTING[[rule]]\nreject = 'x'\nRULE[[filter]]\nstatement = ['ddl']\nFILTER[[limit]]\nLIMIT[[mirror]]\ngroup = 'm'\naddress = 'db9:3306'\nMIRROR[[relay]]\nname = 'r'\nfolder = 'r'\nsource_user = 'u'\nsource_password = 'p'\nSTREAM[[relay.user]]\nname = 'u'\npassword = 'p'\nFOLLOWER[[vip]]\nname = 'v'\naddresses = ['10.0.0.100']\nVIRTUAL\
    [admin]\naddresses = ['127.0.0.1:0']\nCONSOLE[[admin.user]]\nname = 'o'\npassword = 'p'\nOPERATOR\
    [http]\naddresses = ['127.0.0.1:0']\nDOOR[[http.token]]\nname = 't'\ntoken = '0123456789abcdef'\nBEARER";

/// The minimal file with further options in their sections.
fn minimal(options: &[(&OptionDoc, String)]) -> String {
    let mut text = MINIMAL.to_owned();
    let sections = [
        ("proxy", "PROXY"),
        ("listener", "LISTENER"),
        ("user", "USER"),
        ("cluster", "CLUSTER"),
        ("cluster.backend", "BACKEND"),
        ("cluster.failover", "FAILOVER"),
        ("cluster.failover.remote_relay", "REMOTE"),
        ("monitor", "MONITOR"),
        ("authentication", "AUTHENTICATION"),
        ("pool", "POOL"),
        ("cache", "CACHE"),
        ("digests", "DIGESTS"),
        ("slow_log", "SLOWLOG"),
        ("lease", "LEASE"),
        ("vip", "VIRTUAL"),
        ("relay", "STREAM"),
        ("relay.user", "FOLLOWER"),
        ("sql_log", "SQLLOG"),
        ("activity", "ACTIVITY"),
        ("log", "LOG"),
        ("routing", "ROUTING"),
        ("rule", "RULE"),
        ("filter", "FILTER"),
        ("limit", "LIMIT"),
        ("mirror", "MIRROR"),
        ("admin", "CONSOLE"),
        ("admin.user", "OPERATOR"),
        ("http", "DOOR"),
        ("http.token", "BEARER"),
    ];
    for (section, mark) in sections {
        let in_one_line = matches!(section, "listener" | "user");
        let lines = options.iter().filter_map(|(option, value)| {
            let (path, name) = option.path.rsplit_once('.').unwrap();
            let line =
                if in_one_line { format!(", {name} = {value}") } else { format!("{name} = {value}\n") };
            (path == section).then_some(line)
        });
        let mut lines = lines.collect::<String>();
        if section == "relay" && !lines.contains("server_id") {
            lines += "server_id = 9\n";
        }
        if section == "limit" && !lines.contains("idle_in_transaction") {
            // One has to limit something.
            lines += "idle_in_transaction_timeout_s = 5\n";
        }
        text = text.replacen(mark, &lines, 1);
    }
    text
}

#[test]
fn printed_defaults_are_the_real_ones() {
    let all = options();
    let written: Vec<_> =
        all.iter().filter(|o| o.has_literal_default).map(|o| (o, o.default.clone())).collect();
    assert!(written.len() > 20, "{}", written.len());
    let without = parse_text(&minimal(&[])).unwrap();
    let with = parse_text(&minimal(&written)).unwrap();
    assert_eq!(with, without);
}

#[test]
fn ends_of_ranges_are_accepted_and_no_more() {
    let everything = options();
    // What some limits have to be below of, or for.
    let roomy = [
        ("proxy.max_connections", "1000000"),
        ("pool.max_connections", "100000"),
        ("user.connection_admin", "true"),
        ("cache.max_bytes", "1099511627776"),
        ("limit.statements_per_second", "5"),
        ("lease.ttl_s", "3600"),
        ("rule.cache_ttl_ms", "1000"),
    ];
    let needs = |option: &str, other: &str| match option {
        "proxy.reserved_connections" | "pool.reserved_connections" => true,
        "proxy.max_user_connections" | "proxy.max_connections_per_address" => other.starts_with("proxy"),
        "rule.cache_soft_ttl_pct" => other.starts_with("rule"),
        "rule.cache_share_pct" => other.starts_with("rule") || other.starts_with("cache"),
        "lease.margin_ms" => other.starts_with("lease"),
        "limit.burst" => other.starts_with("limit"),
        "cache.max_entry_bytes" => other.starts_with("cache"),
        "user.min_backend_connections" => other.starts_with("pool"),
        _ => false,
    };
    for option in options() {
        let Some((_, range)) = option.kind.split_once("number from ") else { continue };
        let (low, high) = range.split_once(" to ").unwrap();
        let (low, high): (u64, u64) = (low.parse().unwrap(), high.parse().unwrap());
        for number in [low, high] {
            let mut all = vec![(&option, number.to_string())];
            all.extend(roomy.iter().filter(|(path, _)| needs(&option.path, path)).map(|(path, value)| {
                (everything.iter().find(|one| one.path == *path).unwrap(), (*value).to_owned())
            }));
            let text = minimal(&all);
            assert!(parse_text(&text).is_ok(), "{} = {number}", option.path);
        }
        let below = low.checked_sub(1).map_or("-1".to_owned(), |n| n.to_string());
        for number in [below, (high + 1).to_string()] {
            let text = minimal(&[(&option, number.clone())]);
            let mistakes = parse_text(&text).unwrap_err();
            assert_eq!(mistakes.len(), 1, "{} = {number}: {mistakes:?}", option.path);
        }
    }
}

#[test]
fn every_option_refuses_a_value_of_another_type() {
    for option in options() {
        let text = minimal(&[(&option, "{ odd = 1 }".to_owned())]);
        // Fields that the minimal file has already become a duplicate key: refused as well.
        let mistakes = parse_text(&text).unwrap_err();
        assert!(!mistakes.is_empty(), "{}", option.path);
    }
}

#[test]
fn a_file_cut_anywhere_gives_a_configuration_or_mistakes() {
    let files = [
        include_str!("../../tests/data/good.toml"),
        include_str!("../../tests/data/clusters.toml"),
        include_str!("../../tests/data/bad-clusters.toml"),
        include_str!("../../tests/data/bad-values.toml"),
        include_str!("../../tests/data/bad-relations.toml"),
        include_str!("../../tests/data/bad-lists.toml"),
    ];
    for file in files {
        for cut in 0..file.len() {
            for text in [file[..cut].to_owned(), format!("{}\u{e9}{}", &file[..cut], &file[cut + 1..])] {
                let mistakes = parse_text(&text).err();
                assert!(mistakes.is_none_or(|m| !m.is_empty()), "cut at {cut}");
            }
        }
    }
}
