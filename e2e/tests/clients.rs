//! The command-line clients: `mariadb`, `mysql` and the dump programs, over TCP, TLS and the Unix socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use delphinus_e2e::{Address, Outcome, Stage, run, until};
use delphinus_sandbox::{Flavor, ensure_packages};

const LIMIT: Duration = Duration::from_mins(2);

fn mariadb_stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| Stage::start(Flavor::MariaDb).unwrap())
}

fn mysql_stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| Stage::start(Flavor::MySql).unwrap())
}

/// One client program, and how it is told to use TLS or not to.
struct Program {
    path: PathBuf,
    tls: &'static [&'static str],
    plain: &'static [&'static str],
    /// For every run: MySQL's client has lost `source` and `status` unless asked for.
    always: &'static [&'static str],
}

fn mariadb_program(name: &str) -> Program {
    ensure_packages(&["mariadb-client"]).unwrap();
    Program { path: name.into(), tls: &["--ssl"], plain: &["--skip-ssl"], always: &[] }
}

fn mysql_program(name: &str) -> Program {
    let path = mysql_stage().cluster.client_program().with_file_name(name);
    // Without the second, mysqldump wants to flush all tables, which the application's user may not.
    let always: &[&str] = if name == "mysql" { &["--commands"] } else { &["--set-gtid-purged=OFF"] };
    let plain = &["--ssl-mode=DISABLED", "--get-server-public-key"];
    Program { path, tls: &["--ssl-mode=REQUIRED"], plain, always }
}

impl Program {
    fn over_tcp(&self, address: &Address, options: &[&str], more: &[&str]) -> Outcome {
        let port = address.port.to_string();
        let mut command = Command::new(&self.path);
        command.args([
            "--no-defaults",
            "--protocol=tcp",
            "-h",
            &address.host,
            "-P",
            &port,
            "-u",
            &address.user,
        ]);
        command.env("MYSQL_PWD", &address.password).args(self.always).args(options).args(more);
        run(&mut command, LIMIT).unwrap()
    }

    fn over_socket(&self, address: &Address, more: &[&str]) -> Outcome {
        let mut command = Command::new(&self.path);
        command.arg("--no-defaults").arg("-S").arg(&address.socket).args(["-u", &address.user]);
        command.env("MYSQL_PWD", &address.password).args(self.always).args(more);
        run(&mut command, LIMIT).unwrap()
    }
}

fn check_client(program: &Program, stage: &Stage, name: &str) {
    let address = &stage.address;
    for (options, is_encrypted) in [(program.plain, false), (program.tls, true)] {
        let source =
            source(stage, &format!("{name}-status.sql"), b"SELECT 'from', CURRENT_USER();\nstatus\n");
        let said = program.over_tcp(address, options, &["app", "-e", &source]).success().unwrap();
        assert!(said.contains("from\tapp@"), "{said}");
        let line = said.lines().find(|line| line.starts_with("SSL:")).unwrap_or_default();
        assert_eq!(line.contains("Cipher in use"), is_encrypted, "{line}");
        let shown = said.lines().find(|line| line.starts_with("Current database:")).unwrap_or_default();
        assert!(shown.ends_with("app"), "{shown}");
    }
    let said = program.over_socket(
        address,
        &["-N", "app", "-e", "SELECT DATABASE(), 'naïve 😀'", "--default-character-set=utf8mb4"],
    );
    assert!(said.success().unwrap().contains("app\tnaïve 😀"));
    errors_are_shown(program, address);
    a_script_runs(program, stage, name);
    big_statements_pass(program, stage, name);
}

fn errors_are_shown(program: &Program, address: &Address) {
    let wrong = Address { password: "certainly wrong".to_owned(), ..address.clone() };
    let said = program.over_tcp(&wrong, program.tls, &["-e", "SELECT 1"]);
    assert!(!said.status.success());
    assert!(said.output.contains("ERROR 1045 (28000): Access denied for user 'app'@"), "{}", said.output);
    assert!(said.output.contains("(using password: YES)"), "{}", said.output);
    let said = program.over_tcp(address, program.tls, &["no_such_database", "-e", "SELECT 1"]);
    assert!(
        said.output.contains("ERROR 1049 (42000)") || said.output.contains("ERROR 1044 (42000)"),
        "{}",
        said.output
    );
    for (sql, wanted) in [("SELEC 1", "ERROR 1064 (42000)"), ("SELECT * FROM nowhere", "ERROR 1146 (42S02)")]
    {
        let said = program.over_tcp(address, program.tls, &["app", "-e", sql]);
        assert!(!said.status.success() && said.output.contains(wanted), "{wanted} is not in {}", said.output);
    }
}

/// Writes a script and gives the client's own command that reads it.
fn source(stage: &Stage, name: &str, text: &[u8]) -> String {
    let path = stage.cluster.dir().join(name);
    fs::write(&path, text).unwrap();
    format!("source {}", path.display())
}

/// USE, DELIMITER, procedures, warnings and transactions, from a file.
fn a_script_runs(program: &Program, stage: &Stage, name: &str) {
    let text = format!(
        "USE app;\nDROP TABLE IF EXISTS {name};\nCREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20));\n\
         INSERT INTO {name} VALUES (1, 'one'), (2, 'two');\nINSERT IGNORE INTO {name} VALUES (1, 'again');\nSHOW WARNINGS;\n\
         DELIMITER //\nCREATE PROCEDURE {name}_proc() BEGIN SELECT 'in the procedure'; SELECT COUNT(*) FROM {name}; END //\nDELIMITER ;\n\
         CALL {name}_proc();\nBEGIN;\nDELETE FROM {name};\nROLLBACK;\nBEGIN;\nSELECT CONCAT('rows: ', COUNT(*)) FROM {name};\nCOMMIT;\n\
         DROP PROCEDURE {name}_proc;\nDROP TABLE {name};\nSELECT 'the end';\n"
    );
    let source = source(stage, &format!("{name}.sql"), text.as_bytes());
    let said = program.over_tcp(&stage.address, program.tls, &["-N", "-e", &source]).success().unwrap();
    for part in ["Duplicate entry '1'", "in the procedure", "rows: 2", "the end"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

/// A statement of 20 MiB, and a result of 20 MiB.
fn big_statements_pass(program: &Program, stage: &Stage, name: &str) {
    let size = 20 * 1024 * 1024;
    let text =
        [b"SELECT CONCAT('length ', LENGTH('".as_slice(), &vec![b'x'; size], b"'));\nSELECT 'next';\n"]
            .concat();
    let source = source(stage, &format!("{name}-big.sql"), &text);
    let options = ["-N", "--max-allowed-packet=64M", "-e"];
    let said = program
        .over_tcp(&stage.address, program.tls, &[&options[..], &[&source]].concat())
        .success()
        .unwrap();
    assert!(said.contains(&format!("length {size}")) && said.contains("next"), "{} bytes", said.len());
    let select = format!("SELECT REPEAT('y', {size}); SELECT 'next'");
    let said = program
        .over_tcp(&stage.address, program.plain, &[&options[..], &[&select]].concat())
        .success()
        .unwrap();
    assert_eq!(said.bytes().filter(|byte| *byte == b'y').count(), size);
    assert!(said.contains("next"));
}

/// A dump through the proxy is the dump of the primary.
fn check_dump(program: &Program, client: &Program, stage: &Stage) {
    let options =
        ["--single-transaction", "--no-tablespaces", "--skip-dump-date", "--skip-comments", "--routines"];
    let more = [&options[..], &["app", "--ignore-table=app.answered_by"]].concat();
    let dump = |address: &Address, name: &str| {
        let path = stage.cluster.dir().join(name);
        let file = format!("--result-file={}", path.display());
        program.over_tcp(address, program.plain, &[&[&*file], &more[..]].concat()).success().unwrap();
        fs::read_to_string(path).unwrap()
    };
    let (through, direct) =
        (dump(&stage.address, "through.sql"), dump(&stage.primary_address(), "direct.sql"));
    assert!(through.contains("CREATE TABLE") && through.contains("INSERT INTO"), "an empty dump");
    assert_eq!(through, direct, "the dumps differ");
    restore(client, stage, &through);
}

/// The dump can be read back through the proxy, into the other schema.
fn restore(client: &Program, stage: &Stage, dump: &str) {
    let source = source(stage, "dump.sql", dump.as_bytes());
    client.over_tcp(&stage.address, client.tls, &["sbtest", "-e", &source]).success().unwrap();
    let server = &stage.cluster.servers[1];
    let count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ";
    let wanted = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'app' AND table_type = 'BASE TABLE'";
    let wanted = server.query(wanted).unwrap();
    until(LIMIT, "the restored tables on a replica", || {
        Ok(server.query(&format!("{count}'sbtest'"))? == wanted)
    })
    .unwrap();
}

#[test]
fn mariadb_client_before_mariadb() {
    check_client(&mariadb_program("mariadb"), mariadb_stage(), "mariadb_client");
}

#[test]
fn mariadb_client_before_mysql() {
    check_client(&mariadb_program("mariadb"), mysql_stage(), "mariadb_client");
}

#[test]
fn mysql_client_before_mysql() {
    check_client(&mysql_program("mysql"), mysql_stage(), "mysql_client");
}

#[test]
fn mysql_client_before_mariadb() {
    // MySQL 9 clients log in to MariaDB by mysql_native_password, which they have as a plugin.
    check_client(&mysql_program("mysql"), mariadb_stage(), "mysql_client");
}

#[test]
fn mariadb_dump() {
    let stage = Stage::start(Flavor::MariaDb).unwrap();
    check_dump(&mariadb_program("mariadb-dump"), &mariadb_program("mariadb"), &stage);
}

#[test]
fn mysqldump() {
    let stage = Stage::start(Flavor::MySql).unwrap();
    check_dump(&mysql_program("mysqldump"), &mysql_program("mysql"), &stage);
}
