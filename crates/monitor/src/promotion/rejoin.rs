//! What operators are told of a server that has transactions of its own: nothing of it is lost or spread without a word.

use delphinus_topology::Flavor;
use delphinus_topology::promotion::Server;

/// The reason why it does not come back, and what to do. `primary`: whom it would follow; `user`: the account of `[cluster.failover]`, which
/// may read logs.
pub(super) fn advice(server: Option<&Server>, primary: Option<&Server>, (why, user): (&str, &str)) -> String {
    let name = server.map_or("it", |server| &*server.name);
    let Some((server, standing)) = server.and_then(|server| Some((server, server.standing()?))) else {
        return format!("{name} does not follow the primary: {why}");
    };
    let is_mysql = standing.flavor != Flavor::MariaDb;
    let rebuild = if is_mysql { by_clone(primary) } else { by_backup(primary) };
    let Some(own) = why.strip_prefix("it has transactions of its own: ") else {
        let how = why.contains("build it anew").then(|| format!(". How: {rebuild}"));
        return format!("{name} does not follow the primary: {why}{}", how.unwrap_or_default());
    };
    let export = export(server, user, is_mysql.then_some(own));
    format!(
        "{name} stays read-only and follows no server, because it has transactions of its own: {own}. 1. Save \
         them: {export} . 2. Decide which of them the primary needs. 3. Build {name} anew: {rebuild}, then REJOIN it"
    )
}

/// `MySQL`: on the server that is built anew. It refuses INSTALL and CLONE as long as `super_read_only` is on.
fn by_clone(primary: Option<&Server>) -> String {
    let (name, host, port) = primary
        .map_or(("the primary", "primary", 3306), |primary| (&*primary.name, &*primary.host, primary.port));
    format!(
        "INSTALL PLUGIN clone SONAME 'mysql_clone.so' on {name}; here SET GLOBAL super_read_only = 0, the same INSTALL PLUGIN, SET GLOBAL \
         clone_valid_donor_list = '{host}:{port}', CLONE INSTANCE FROM 'user'@'{host}':{port} IDENTIFIED BY '...'"
    )
}

fn by_backup(primary: Option<&Server>) -> String {
    let name = primary.map_or("the primary", |primary| &*primary.name);
    format!(
        "SELECT @@gtid_binlog_state on {name}, then mariadb-backup of it; on the copy RESET MASTER, SET GLOBAL gtid_binlog_state \
         to the former and gtid_slave_pos to the backup's"
    )
}

/// A command for a shell. It reads all logs, and asks for the password twice: for the name of the first log, and for the logs. MySQL's tool
/// writes what is `only` its own; MariaDB's has no such filter, and names each transaction in a comment.
fn export(server: &Server, user: &str, only: Option<&str>) -> String {
    let (client, tool) =
        if only.is_some() { ("mysql", "mysqlbinlog") } else { ("mariadb", "mariadb-binlog") };
    let place =
        format!("--host={} --port={} --user={} --password", quoted(&server.host), server.port, quoted(user));
    let only = only
        .map(|own| format!(" --include-gtids={}", quoted(&own.replace(['\n', ' '], ""))))
        .unwrap_or_default();
    format!(
        "{tool} --read-from-remote-server {place}{only} --to-last-log \
         \"$({client} {place} --batch --skip-column-names --execute='SHOW BINARY LOGS' | head -n 1 | cut -f 1)\" > {}",
        quoted(&format!("{}-own.sql", server.name))
    )
}

/// One word for a shell, whatever is in it.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::look::tests::standing;
    use super::*;

    fn server(flavor: Flavor) -> Server {
        let (name, host, id) = ("db1".into(), "10.0.0.7".into(), delphinus_topology::BackendId(0));
        Server { id, name, host, port: 3307, seen: Ok(standing(flavor)) }
    }

    #[test]
    fn what_is_its_own_is_exported_by_a_command_that_can_be_pasted() {
        let own = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7";
        let said = |flavor, why: &str| advice(Some(&server(flavor)), None, (why, "fail over"));
        let told = said(Flavor::MySql, &format!("it has transactions of its own: {own}"));
        let place = "--host=10.0.0.7 --port=3307 --user='fail over' --password";
        let mysql = format!(
            "mysqlbinlog --read-from-remote-server {place} --include-gtids={own} --to-last-log \"$(mysql {place} --batch \
             --skip-column-names --execute='SHOW BINARY LOGS' | head -n 1 | cut -f 1)\" > db1-own.sql ."
        );
        assert!(told.contains(&mysql), "{told}");
        let told = said(Flavor::MariaDb, "it has transactions of its own: 0-1-7");
        let mariadb =
            format!("mariadb-binlog --read-from-remote-server {place} --to-last-log \"$(mariadb {place}");
        assert!(told.contains(&mariadb) && told.contains("own: 0-1-7."), "{told}");
        assert_eq!(
            said(Flavor::MySql, "follow: error 1"),
            "db1 does not follow the primary: follow: error 1"
        );
    }

    #[test]
    fn whoever_has_to_be_built_anew_is_told_how() {
        let (old, new) = (server(Flavor::MySql), server(Flavor::MySql));
        let why = "it has started again without transactions that it wrote before: x: build it anew, then REJOIN it";
        let told = advice(Some(&old), Some(&new), (why, "failover"));
        assert!(told.ends_with("CLONE INSTANCE FROM 'user'@'10.0.0.7':3307 IDENTIFIED BY '...'"), "{told}");
        let told = advice(Some(&server(Flavor::MariaDb)), Some(&new), (why, "failover"));
        assert!(told.contains("SELECT @@gtid_binlog_state on db1, then mariadb-backup"), "{told}");
    }

    /// Of many transactions each has to be in the command: it would leave the others out.
    #[test]
    fn a_long_list_is_not_cut() {
        let own: Vec<_> = (0..100).map(|number| format!("3e11fa47-71ca-11e1-9e33-{number:012}:7")).collect();
        let why = format!("it has transactions of its own: {}", own.join(",\n"));
        let told = advice(Some(&server(Flavor::MySql)), None, (&why, "failover"));
        assert!(told.contains(&format!("--include-gtids='{}'", own.join(","))), "{told}");
    }

    #[test]
    fn a_shell_reads_one_word() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("$(rm)"), "'$(rm)'");
        assert_eq!(quoted(""), "''");
    }
}
