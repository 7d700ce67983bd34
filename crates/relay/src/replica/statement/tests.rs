//! Conversations of real replicas, statement by statement, and what is no business of a relay.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

struct Fake {
    is_mysql: bool,
}

impl Facts for Fake {
    fn variable(&self, name: &str) -> Option<Value> {
        Some(match name {
            "server_id" => Value::Number(1001),
            "server_uuid" if self.is_mysql => Value::Text("327eb417-e7d4-11f1-aece-02fc00000001".to_owned()),
            "gtid_mode" if self.is_mysql => Value::Text("ON".to_owned()),
            "gtid_domain_id" if !self.is_mysql => Value::Number(0),
            "binlog_checksum" => Value::Text("CRC32".to_owned()),
            "version" => Value::Text("9.7.4".to_owned()),
            _ => return None,
        })
    }

    fn files(&self) -> Vec<(String, u64)> {
        vec![("binlog.000001".to_owned(), 158), ("binlog.000002".to_owned(), 4096)]
    }

    fn end(&self) -> (String, u64, String) {
        ("binlog.000002".to_owned(), 4096, "327eb417-e7d4-11f1-aece-02fc00000001:1-5".to_owned())
    }

    fn now_s(&self) -> u64 {
        1_795_503_539
    }

    fn caller(&self) -> (u32, String) {
        (7, "repl@127.0.0.1".to_owned())
    }
}

/// The first row, as text; the statement's error as `number: text`.
fn ask(text: &str, variables: &mut Variables, is_mysql: bool) -> String {
    match answer(text, variables, &Fake { is_mysql }) {
        Ok(Answer::Done) => "OK".to_owned(),
        Ok(Answer::Rows(result)) => {
            let cell = |cell: &Option<Vec<u8>>| {
                cell.as_ref().map_or("NULL".into(), |b| String::from_utf8_lossy(b).into_owned())
            };
            let row = |row: &Vec<Option<Vec<u8>>>| row.iter().map(cell).collect::<Vec<_>>().join(" ");
            result.rows.iter().map(row).collect::<Vec<_>>().join("|")
        }
        Err(refused) => format!("{}: {}", refused.code, refused.text),
    }
}

#[test]
fn what_mysql_replicas_say_is_answered() {
    let mut variables = Variables::default();
    let mut ask = |text: &str| ask(text, &mut variables, true);
    assert_eq!(ask(" SELECT UNIX_TIMESTAMP()"), "1795503539");
    assert_eq!(ask(" SELECT @@GLOBAL.SERVER_ID"), "1001");
    let set = " SET @master_heartbeat_period = 30000001024, @source_heartbeat_period = 30000001024";
    assert_eq!(ask(set), "OK");
    let set = " SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum";
    assert_eq!(ask(set), "OK");
    assert_eq!(ask(" SELECT @source_binlog_checksum"), "CRC32");
    assert_eq!(ask(" SELECT @@GLOBAL.GTID_MODE"), "ON");
    assert_eq!(ask(" SELECT @@GLOBAL.SERVER_UUID"), "327eb417-e7d4-11f1-aece-02fc00000001");
    assert_eq!(ask(" SET @slave_uuid = 'a-b', @replica_uuid = 'a-b'"), "OK");
    assert_eq!(
        ask(" SELECT @@global.rpl_semi_sync_source_enabled"),
        "1193: Unknown system variable 'rpl_semi_sync_source_enabled'"
    );
    // Plugins of 8.0 ask like this when the new name is unknown.
    assert_eq!(
        ask(" SELECT @@global.rpl_semi_sync_master_enabled"),
        "1193: Unknown system variable 'rpl_semi_sync_master_enabled'"
    );
    assert_eq!(variables.first(&["source_heartbeat_period", "master_heartbeat_period"]), Some("30000001024"));
    assert_eq!(variables.get("replica_uuid"), Some("a-b"));
}

#[test]
fn what_mariadb_replicas_say_is_answered() {
    let mut variables = Variables::default();
    let mut ask = |text: &str| ask(text, &mut variables, false);
    for set in [
        "SET NAMES utf8mb4",
        "SET @master_heartbeat_period= 2500000000",
        "SET @master_binlog_checksum= @@global.binlog_checksum",
        "SET @mariadb_slave_capability=4",
        "SET @slave_connect_state='5-3001-2,0-3001-2'",
        "SET @slave_gtid_strict_mode=1",
        "SET @slave_gtid_ignore_duplicates=0",
        "SET skip_replication=1",
        "SET @rpl_semi_sync_slave= 1",
    ] {
        assert_eq!(ask(set), "OK", "{set}");
    }
    assert_eq!(ask("SHOW VARIABLES LIKE 'SERVER_ID'"), "server_id 1001");
    assert_eq!(ask("SHOW VARIABLES LIKE 'rpl_semi_sync_master_enabled'"), "");
    assert_eq!(ask("SELECT @master_binlog_checksum"), "CRC32");
    assert_eq!(ask("SELECT @@GLOBAL.gtid_domain_id"), "0");
    assert_eq!(ask("SELECT binlog_gtid_pos('binlog.000001',4)"), "NULL");
    assert_eq!(variables.get("slave_connect_state"), Some("5-3001-2,0-3001-2"));
    assert_eq!(variables.get(SKIP_REPLICATION), Some("1"));
}

#[test]
fn columns_are_called_as_servers_call_them() {
    let mut variables = Variables::default();
    let facts = Fake { is_mysql: true };
    let mut name = |text: &str| match answer(text, &mut variables, &facts) {
        Ok(Answer::Rows(result)) => String::from_utf8(result.columns[0].name.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name(" SELECT UNIX_TIMESTAMP()"), "UNIX_TIMESTAMP()");
    assert_eq!(name("SELECT @@GLOBAL.SERVER_ID"), "@@GLOBAL.SERVER_ID");
    assert_eq!(name("select @@version as `v` limit 1").as_str(), "v");
}

#[test]
fn operators_and_tools_see_files_and_the_end() {
    let mut variables = Variables::default();
    let mut ask = |text: &str, is_mysql| ask(text, &mut variables, is_mysql);
    assert_eq!(ask("SHOW BINARY LOGS", true), "binlog.000001 158 No|binlog.000002 4096 No");
    assert_eq!(ask("SHOW MASTER LOGS;", false), "binlog.000001 158|binlog.000002 4096");
    let end = "binlog.000002 4096   327eb417-e7d4-11f1-aece-02fc00000001:1-5";
    assert_eq!(ask("SHOW BINARY LOG STATUS", true), end);
    assert_eq!(ask("SELECT VERSION()", true), "9.7.4");
    assert_eq!(ask("", true), "OK");
}

#[test]
fn everything_else_is_refused_and_says_what_this_is() {
    let mut variables = Variables::default();
    let mut ask = |text: &str| ask(text, &mut variables, true);
    for text in [
        "INSERT INTO t VALUES (1)",
        "SELECT * FROM t",
        "SELECT 1 + 1",
        "SELECT sleep(1)",
        "SET GLOBAL server_id = 1",
        "SET @a",
        "SET @a = 1; DROP TABLE t",
        "SELECT 'unterminated",
        "SHOW TABLES",
        "@",
    ] {
        assert!(ask(text).starts_with("1064: This is a relay of a binary log"), "{text}: {}", ask(text));
    }
    assert_eq!(ask("SET @@session.unheard_of = 1"), "1193: Unknown system variable 'unheard_of'");
    assert!(ask(&"x".repeat(1 << 20)).len() < 400);
}

#[test]
fn a_conversation_keeps_a_bounded_number_of_variables() {
    let mut variables = Variables::default();
    for number in 0..MOST_VARIABLES {
        assert_eq!(ask(&format!("SET @v{number} = {number}"), &mut variables, true), "OK");
    }
    assert!(ask("SET @one_more = 1", &mut variables, true).starts_with("1235:"));
    assert_eq!(ask("SET @v1 = 'other'", &mut variables, true), "OK");
    assert_eq!(ask("SET @v1 = NULL, @one_more = 1", &mut variables, true), "OK");
}

/// A user that may replicate may not have the relay keep, or say, as much as it likes.
#[test]
fn a_conversation_has_bounds() {
    let mut variables = Variables::default();
    let facts = Fake { is_mysql: true };
    let mut ask = |text: &str| answer(text, &mut variables, &facts);
    let refused = |answer: Result<Answer, Refused>| answer.unwrap_err().text;
    let long = "x".repeat(900 << 10);
    ask(&format!("SET @a = '{long}'")).unwrap();
    // The same again is no more.
    ask(&format!("SET @a = '{long}'")).unwrap();
    assert!(refused(ask(&format!("SET @b = '{long}'"))).contains("bytes"));
    ask("SET @b = 'short'").unwrap();
    assert!(refused(ask(&format!("SELECT {}", ["@a"; 30].join(",")))).contains("row"));
    assert!(refused(ask(&format!("SELECT {}", ["1"; 65].join(",")))).contains("64"));
    assert!(refused(ask(&format!("SET {}", ["@a=1"; 65].join(",")))).contains("64"));
    ask(&format!("SELECT {}", ["1"; 64].join(","))).unwrap();
    assert!(refused(ask(&format!("SELECT '{}'", "x".repeat(3 << 20)))).contains("bytes"));
    assert!(refused(ask(&format!("SELECT @@{long}"))).len() < 2048);
    assert!(refused(ask(&format!("SELECT {long}()"))).len() < 2048);
}
