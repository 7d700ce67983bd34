//! The compressed protocol with real clients and real servers, on either side of the proxy or on both.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "compression/numbers.rs"]
mod numbers;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use delphinus_e2e::{
    Address, Answer, Client, ConfigFile, CountingRelay, Driver, Login, Outcome, ServerError, Stage, run,
};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_mins(2);
/// What is asked for: much, and easy to make small.
const SIZE: usize = 2 * 1024 * 1024;

fn config(backend: &str) -> ConfigFile {
    let backend = vec![backend.to_owned()];
    ConfigFile { backend, pool: vec!["max_connections = 4".to_owned()], ..ConfigFile::default() }
}

/// Both sides compressed, and the backends with all that their family can.
fn stage(flavor: Flavor) -> &'static Stage {
    static MARIADB: OnceLock<Stage> = OnceLock::new();
    static MYSQL: OnceLock<Stage> = OnceLock::new();
    let (stage, backend) = match flavor {
        Flavor::MariaDb => (&MARIADB, "compression = \"zlib\""),
        _ => (&MYSQL, "compression = \"zstd\""),
    };
    stage.get_or_init(|| Stage::with(flavor, &config(backend)).unwrap())
}

/// The two command-line clients and their ways to ask for compression: name, options, whether it is to be had.
fn clients() -> Vec<(PathBuf, &'static [&'static str], bool)> {
    let mysql = stage(Flavor::MySql).cluster.client_program().to_owned();
    let mariadb = PathBuf::from("mariadb");
    vec![
        (mysql.clone(), &["--compression-algorithms=zlib"], true),
        (mysql.clone(), &["--compression-algorithms=zstd", "--zstd-compression-level=22"], true),
        (mysql.clone(), &["--compression-algorithms=zstd,zlib"], true),
        (mysql, &["--compression-algorithms=uncompressed"], false),
        (mariadb.clone(), &["--compress"], true),
        (mariadb, &["--skip-compress"], false),
    ]
}

fn tls_options(program: &Path) -> [&'static [&'static str]; 2] {
    if program.ends_with("mariadb") {
        [&["--skip-ssl"], &["--ssl"]]
    } else {
        [&["--ssl-mode=DISABLED", "--get-server-public-key"], &["--ssl-mode=REQUIRED"]]
    }
}

fn client(program: &Path, address: &Address, port: u16, options: &[&str]) -> Outcome {
    let port = port.to_string();
    let mut command = Command::new(program);
    command.args(["--no-defaults", "--protocol=tcp", "-h", &address.host, "-P", &port, "-u", &address.user]);
    command.env("MYSQL_PWD", &address.password).args(["-N", "--max-allowed-packet=64M"]).args(options);
    run(&mut command, LIMIT).unwrap()
}

#[test]
fn what_clients_ask_for_they_get() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let address = &stage(flavor).address;
        for (program, options, compresses) in clients() {
            for tls in tls_options(&program) {
                let relay = CountingRelay::to(address).unwrap();
                let sql = format!("SELECT REPEAT('y', {SIZE}); SELECT 'end'");
                let options = [tls, options, &["-e", &sql]].concat();
                let said = client(&program, address, relay.port, &options).success().unwrap();
                assert_eq!(said.bytes().filter(|byte| *byte == b'y').count(), SIZE, "{flavor} {options:?}");
                assert!(said.contains("end"), "{flavor} {options:?}");
                let passed = usize::try_from(relay.bytes()).unwrap();
                let is_small = passed < SIZE / 8;
                assert_eq!(is_small, compresses, "{flavor} {program:?} {options:?}: {passed} bytes");
            }
        }
    }
}

/// What the connection to the backend is like, as the server says.
fn backend_compression(client: &mut Client) -> Vec<String> {
    let rows = client.rows("SHOW SESSION STATUS LIKE 'Compression%'").unwrap();
    rows.into_iter().map(|row| row[1].clone().unwrap_or_default()).collect()
}

#[test]
fn backend_connections_are_compressed() {
    let mut client = stage(Flavor::MariaDb).address.connect().unwrap();
    assert_eq!(backend_compression(&mut client), ["ON"]);
    let mut client = stage(Flavor::MySql).address.connect().unwrap();
    assert_eq!(backend_compression(&mut client), ["ON", "zstd", "3"]);
}

/// Our own client does not compress, and looks at every number: servers that compress number packets otherwise.
#[test]
fn a_client_without_compression_sees_nothing_of_it() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let mut login = Login::new(&stage(flavor).address);
        login.allows_multi_statements = true;
        let mut client = Client::connect(&login).unwrap();
        let long = "x".repeat(300_000);
        let text = format!("SELECT '{long}'; SELECT 2; DO 3; SELECT '{long}'; SELECT 5");
        for _ in 0..3 {
            let answers = client.query_all(&text).unwrap();
            assert_eq!(answers.len(), 5, "{flavor}");
            assert_eq!(answers[3], Answer::Rows(vec![vec![Some(long.clone())]]));
            assert_eq!(answers[4], Answer::Rows(vec![vec![Some("5".to_owned())]]));
        }
        let error = client.error("SELECT nonsense FROM nowhere").unwrap();
        assert_eq!(error.code, 1146, "{flavor}");
        let statement = client.prepare(&format!("SELECT '{}'", &long[..200_000])).unwrap();
        for _ in 0..3 {
            assert_eq!(client.execute(statement).unwrap(), Answer::Rows(vec![vec![]]));
        }
        client.close_statement(statement).unwrap();
        client.quit().unwrap();
    }
}

#[test]
fn packets_have_the_numbers_that_servers_give_them() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let stage = stage(flavor);
        let (_proxy, plain, _port) = stage.another_proxy(&ConfigFile::default()).unwrap();
        let direct = numbers::of_small_results(&stage.primary_address());
        let [of_select, .., of_call] = &direct[..] else { panic!("{direct:?}") };
        assert!(of_select.len() == 1 && of_call.len() == 3, "{flavor}: {direct:?}");
        for address in [&stage.address, &plain] {
            assert_eq!(numbers::of_small_results(address), direct, "{flavor}");
        }
        for address in [&stage.primary_address(), &stage.address, &plain] {
            numbers::check_large_results(address);
        }
    }
}

/// Commands and rows whose packets are just not, exactly, and just continued by another one.
#[test]
fn packets_of_sixteen_mib_pass() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let stage = stage(flavor);
        let most = 0xff_ffff;
        let mut text = String::new();
        // COM_QUERY has a byte before the text, and for a client with query attributes two more.
        for size in [most - 4, most - 3, most - 1, most] {
            let statement = format!("SELECT LENGTH('{}')", "x".repeat(size - 18));
            writeln!(text, "{statement};").unwrap();
        }
        // A row has four bytes of length, or nine.
        for size in [most - 5, most - 4, most] {
            write!(text,
                "SELECT LENGTH(a), 'row' FROM (SELECT REPEAT('y', {size}) a) t;\nSELECT REPEAT('y', {size});\n"
            ).unwrap();
        }
        let path = stage.cluster.dir().join("boundaries.sql");
        fs::write(&path, &text).unwrap();
        let source = format!("source {}", path.display());
        let mysql = stage_client();
        let options = ["--ssl-mode=DISABLED", "--get-server-public-key", "--commands"];
        let asked = ["--compression-algorithms=zlib", "-e", &source];
        let said = client(&mysql, &stage.address, stage.address.port, &[&options[..], &asked].concat())
            .success()
            .unwrap();
        for size in [most - 4, most - 3, most - 1, most] {
            assert!(said.lines().any(|line| line == (size - 18).to_string()), "{flavor}: {size}");
        }
        for size in [most - 5, most - 4, most] {
            assert!(said.contains(&format!("{size}\trow")), "{flavor}: {size}");
            let is_row = |line: &str| line.len() == size && line.bytes().all(|byte| byte == b'y');
            assert!(said.lines().any(is_row), "{flavor}: a row of {size}");
        }
    }
}

fn stage_client() -> PathBuf {
    stage(Flavor::MySql).cluster.client_program().to_owned()
}

/// The other drivers' programs know `DELPHINUS_COMPRESS`, too; one of them is enough for an ordinary run.
#[test]
fn a_driver_does_all_that_it_does_with_compression() {
    if let Err(error) = Driver::ConnectorC.check_compressed(&stage(Flavor::MySql).address, false) {
        panic!("{error:#}");
    }
}

#[test]
fn a_listener_can_insist_and_refuse() {
    let only = |algorithms: &str| ConfigFile {
        listener: vec![format!("compression_algorithms = [{algorithms}]")],
        ..ConfigFile::default()
    };
    let stage = stage(Flavor::MySql);
    let mysql = stage_client();
    let ask = |address: &Address, algorithms: &str| {
        let algorithms = format!("--compression-algorithms={algorithms}");
        client(&mysql, address, address.port, &["--ssl-mode=REQUIRED", &algorithms, "-e", "SELECT 'in'"])
    };
    let (_proxy, address, _port) = stage.another_proxy(&only("\"zstd\"")).unwrap();
    assert!(ask(&address, "zstd").success().unwrap().contains("in"));
    for refused in ["uncompressed", "zlib"] {
        let said = ask(&address, refused);
        assert!(!said.status.success() && !said.output.contains("in\n"), "{refused}: {}", said.output);
    }
    let login = Login::new(&address).over_tcp(&address);
    let error = Client::connect(&login).unwrap_err().to_string();
    assert!(error.contains("3922"), "{error}");
    let (_proxy, address, _port) = stage.another_proxy(&only("\"uncompressed\"")).unwrap();
    assert!(ask(&address, "uncompressed").success().unwrap().contains("in"));
    assert!(!ask(&address, "zlib").status.success());
    assert!(ask(&address, "zlib,uncompressed").success().unwrap().contains("in"));
}

#[test]
fn a_backend_that_cannot_is_named_and_used() {
    let stage = stage(Flavor::MariaDb);
    let (proxy, address, _port) = stage.another_proxy(&config("compression = \"zstd\"")).unwrap();
    let mut client = address.connect().unwrap();
    assert_eq!(backend_compression(&mut client), ["OFF"]);
    let wanted = "does not offer compression = \"zstd\"";
    delphinus_e2e::until(LIMIT, "the warning", || Ok(proxy.log().contains(wanted))).unwrap();
}

/// A server may refuse whoever does not compress, the monitor included; what it says is what our listeners say.
#[test]
fn servers_that_insist_get_what_they_want() {
    let stage = Stage::start(Flavor::MySql).unwrap();
    for server in &stage.cluster.servers {
        server.query("SET GLOBAL protocol_compression_algorithms = 'zlib'").unwrap();
    }
    let (_proxy, address, _port) = stage.another_proxy(&config("compression = \"zlib\"")).unwrap();
    assert_eq!(backend_compression(&mut address.connect().unwrap()), ["ON", "zlib", "6"]);
    let refused = stage.primary_address();
    let error = Client::connect(&Login::new(&refused)).unwrap_err().downcast::<ServerError>().unwrap();
    let insisting = ConfigFile {
        listener: vec!["compression_algorithms = [\"zlib\"]".to_owned()],
        ..config("compression = \"zlib\"")
    };
    let (_proxy, address, _port) = stage.another_proxy(&insisting).unwrap();
    let own = Client::connect(&Login::new(&address).over_tcp(&address)).unwrap_err();
    let own = own.downcast::<ServerError>().unwrap();
    assert_eq!((own.code, own.sqlstate), (error.code, error.sqlstate), "{}", error.message);
}
