//! What operators are told of a server that has transactions of its own: nothing of it is lost or spread without a word.

use super::story::Line;

/// The reason why it does not come back, and what to do.
pub(super) fn advice(lines: &[Line]) -> String {
    let why = lines.iter().rev().find(|line| line.step == "not waited for");
    let (backend, why) = why.map_or(("it", ""), |line| (line.backend.as_str(), line.result.as_str()));
    let own = why.strip_prefix("it has transactions of its own: ");
    let Some(own) = own else { return format!("{backend} does not follow the primary: {why}") };
    let is_mysql = own.contains(':');
    let export = if is_mysql {
        format!(
            "mysqlbinlog --read-from-remote-server --host={backend} --include-gtids='{own}' <binary logs> > {backend}-own.sql"
        )
    } else {
        format!(
            "mariadb-binlog --read-from-remote-server --host={backend} <binary logs> > {backend}-own.sql ({own})"
        )
    };
    let rebuild = if is_mysql {
        "CLONE INSTANCE FROM user@primary:3306 IDENTIFIED BY '...', then REJOIN it"
    } else {
        "mariadb-backup of the primary, SET GLOBAL gtid_slave_pos, then REJOIN it"
    };
    format!(
        "{backend} stays read-only and follows no server, because it has transactions of its own: {own}. 1. Save \
         them: {export}. 2. Decide which of them the primary needs. 3. Build {backend} anew: {rebuild}"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_its_own_is_named_with_the_tool_that_exports_it() {
        let line = |result: &str| Line {
            after: Duration::ZERO,
            took: Duration::ZERO,
            backend: "db1".to_owned(),
            step: "not waited for".to_owned(),
            result: result.to_owned(),
        };
        let told = advice(&[line("it has transactions of its own: 3e11fa47-71ca-11e1-9e33-c80aa9429562:7")]);
        assert!(told.contains("--include-gtids='3e11fa47-71ca-11e1-9e33-c80aa9429562:7'"), "{told}");
        let told = advice(&[line("it has transactions of its own: 0-1-7")]);
        assert!(told.contains("mariadb-binlog") && told.contains("(0-1-7)"), "{told}");
        assert_eq!(advice(&[line("follow: error 1")]), "db1 does not follow the primary: follow: error 1");
    }
}
