//! Filters on real servers: statements that try to get past them, in each form that reaches a server; and where clients may come from.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Login, Operators, ServerError, Stage, until};
use delphinus_sandbox::{APP2, Flavor};
use delphinus_testkit::Param;
use delphinus_wire::proxy_header::{ProxyVersion, encode};

const LIMIT: Duration = Duration::from_secs(30);

/// All that is refused to everybody but one user.
const FILTERS: &str = r#"
[[filter]]
name = "dangerous"
statement = ["write_without_where", "sleep", "multi_statements", "load_data", "into_outfile", "ddl", "set_global", "account"]

[[filter]]
name = "trusted"
statement = ["write_without_where", "sleep", "multi_statements", "load_data", "into_outfile", "ddl", "set_global", "account"]
action = "off"
user = ["app2"]
"#;

/// One of each kind, and where they are not trusted to be what they look like.
const DANGEROUS: [&str; 22] = [
    "DELETE FROM filtered",
    "DELETE f FROM filtered f",
    "DELETE LOW_PRIORITY FROM filtered WHERE 1 = 1",
    "DELETE FROM filtered WHERE 'id'",
    "DELETE FROM filtered LIMIT 2",
    "UPDATE filtered SET v = 0",
    "UPDATE filtered SET v = (SELECT 0 WHERE 1 = 1)",
    "UPDATE filtered AS a JOIN filtered AS b ON a.id = b.id SET a.v = 0",
    "UPDATE filtered SET v = 0 WHERE EXISTS (SELECT 1)",
    "UPDATE filtered SET v = 0 WHERE NOW() > 0 ORDER BY id",
    "SELECT SLEEP(0.01)",
    "SELECT BENCHMARK(1, MD5(1))",
    "DO SLEEP(0.01)",
    "UPDATE filtered SET v = SLEEP(0.01) WHERE id = 1",
    "SELECT 1 INTO OUTFILE 'delphinus-filter'",
    "LOAD DATA LOCAL INFILE '/dev/null' INTO TABLE filtered",
    "CREATE TABLE filtered_too (a INT)",
    "ALTER TABLE filtered ADD COLUMN w INT",
    "TRUNCATE TABLE filtered",
    "SET GLOBAL max_connect_errors = 7",
    "SET @@GLOBAL.max_connect_errors = 7",
    "CREATE USER filtered_user",
];

/// What applications do, and what only looks dangerous.
const HARMLESS: [&str; 16] = [
    "SELECT * FROM filtered",
    "SELECT 'DELETE FROM filtered', 'SLEEP(1)' FROM filtered -- DELETE FROM filtered",
    "UPDATE filtered SET v = v WHERE id = 1",
    "UPDATE filtered AS a JOIN filtered AS b ON a.id = b.id SET a.v = a.v WHERE b.id = 1",
    "DELETE FROM filtered WHERE id = -1",
    "DELETE f FROM filtered f WHERE f.id = -1",
    "DELETE FROM filtered WHERE id IN (SELECT -1)",
    "INSERT INTO filtered VALUES (-5, 1) ON DUPLICATE KEY UPDATE v = 1",
    "DELETE FROM filtered WHERE id = -5 LIMIT 1",
    "EXPLAIN DELETE FROM filtered",
    "SET @a = 1",
    "SET NAMES utf8mb4",
    "/*!40101 SET NAMES utf8mb4 */",
    "BEGIN",
    "SELECT * FROM filtered FOR UPDATE",
    "COMMIT",
];

/// A way in which a statement reaches a server. The last text is the one that has to be refused.
struct Form {
    name: &'static str,
    texts: fn(&str) -> Vec<String>,
    is_prepared: bool,
}

fn quoted(sql: &str) -> String {
    sql.replace('\'', "''")
}

fn padding() -> String {
    format!("/* {} */", "x".repeat(300 * 1024))
}

const FORMS: [Form; 13] = [
    Form { name: "text", texts: |sql| vec![sql.to_owned()], is_prepared: false },
    Form {
        name: "spread",
        texts: |sql| vec![format!(" \n/* a */ {} # b", sql.replace(' ', "\n"))],
        is_prepared: false,
    },
    Form { name: "version comment", texts: |sql| vec![format!("/*!40000 {sql} */")], is_prepared: false },
    Form { name: "second", texts: |sql| vec![format!("SELECT 1; {sql}")], is_prepared: false },
    Form { name: "first", texts: |sql| vec![format!("{sql}; SELECT 1")], is_prepared: false },
    Form { name: "long, behind", texts: |sql| vec![format!("{} {sql}", padding())], is_prepared: false },
    Form { name: "long, before", texts: |sql| vec![format!("{sql} {}", padding())], is_prepared: false },
    Form { name: "prepared", texts: |sql| vec![sql.to_owned()], is_prepared: true },
    Form { name: "long, prepared", texts: |sql| vec![format!("{} {sql}", padding())], is_prepared: true },
    Form {
        name: "PREPARE from a literal",
        texts: |sql| vec![format!("PREPARE s FROM '{}'", quoted(sql)), "EXECUTE s".to_owned()],
        is_prepared: false,
    },
    Form {
        name: "PREPARE from a variable",
        texts: |sql| {
            let (head, tail) = sql.split_at(3);
            let set = format!("SET @t = CONCAT('{}', '{}')", quoted(head), quoted(tail));
            vec![set, "PREPARE s FROM @t".to_owned(), "/* c */ EXECUTE s".to_owned()]
        },
        is_prepared: false,
    },
    Form {
        name: "EXECUTE IMMEDIATE",
        texts: |sql| vec![format!("EXECUTE IMMEDIATE '{}'", quoted(sql))],
        is_prepared: false,
    },
    Form { name: "compound", texts: |sql| vec![format!("BEGIN NOT ATOMIC {sql}; END")], is_prepared: false },
];

/// What a statement could have changed.
fn trace(client: &mut Client) -> Vec<Vec<Option<String>>> {
    client
        .rows(
            "SELECT COUNT(*), SUM(v), @@GLOBAL.max_connect_errors, \
             (SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE 'filtered%'), \
             (SELECT COUNT(*) FROM information_schema.columns WHERE table_name = 'filtered') FROM app.filtered",
        )
        .unwrap()
}

fn set_up(stage: &Stage) -> Client {
    let mut setup = stage.primary_address().connect().unwrap();
    setup.query("CREATE TABLE app.filtered (id INT PRIMARY KEY, v INT)").unwrap();
    setup.query("INSERT INTO app.filtered VALUES (1, 10), (2, 20), (3, 30)").unwrap();
    for (at, sql) in DANGEROUS.iter().enumerate().filter(|(_, sql)| !sql.starts_with("LOAD")) {
        setup.query(&format!("CREATE PROCEDURE app.danger_{at}() {sql}")).unwrap();
    }
    setup
}

fn login(address: &Address) -> Client {
    let mut login = Login::new(address);
    login.allows_multi_statements = true;
    Client::connect(&login).unwrap()
}

/// The error of the last of these texts, if that is one of a filter; else what has come of them.
fn refused(client: &mut Client, form: &Form, sql: &str) -> Result<String, String> {
    let texts = (form.texts)(sql);
    let (last, before) = texts.split_last().unwrap();
    for text in before {
        if let Err(error) = client.query(text) {
            // What a server does not prepare cannot be run so, either.
            let error = error.downcast::<ServerError>().unwrap();
            return Ok(error.to_string());
        }
    }
    let result = if form.is_prepared {
        client.prepare(last).map(|id| format!("prepared as {id}"))
    } else {
        client.query_all(last).map(|answers| format!("{answers:?}"))
    };
    match result {
        Ok(answer) => Err(answer),
        Err(error) => match error.downcast::<ServerError>() {
            Ok(error) if error.code == 1105 && error.message.contains("the filter \"dangerous\" refuses") => {
                Ok(error.message)
            }
            Ok(error) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn nothing_gets_past(flavor: Flavor) {
    let operators = Operators::default();
    let config = ConfigFile::with_sections(&[FILTERS, &operators.section()].concat());
    let stage = Stage::with(flavor, &config).unwrap();
    let mut setup = set_up(&stage);
    let before = trace(&mut setup);
    let mut client = login(&stage.address);
    let mut tried = 0;
    for sql in DANGEROUS {
        for form in &FORMS {
            let is_of_mariadb = matches!(form.name, "EXECUTE IMMEDIATE" | "compound");
            if is_of_mariadb && flavor != Flavor::MariaDb {
                continue;
            }
            if let Err(answer) = refused(&mut client, form, sql) {
                panic!("{flavor:?}, {}: {sql}: {answer}", form.name);
            }
            tried += 1;
        }
    }
    for at in 0..DANGEROUS.len() {
        for call in [format!("CALL danger_{at}()"), format!("CALL app.danger_{at}")] {
            let error = client.error(&call).unwrap();
            assert!(error.message.contains("cannot see all that it does"), "{call}: {error}");
            tried += 1;
        }
    }
    assert!(tried >= 200, "{tried} were tried");
    assert_eq!(trace(&mut setup), before, "something has got past");
    for sql in HARMLESS {
        client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
        let id = client.prepare(sql);
        if let Ok(id) = id {
            client.execute(id).unwrap_or_else(|error| panic!("{sql}, prepared: {error:#}"));
        }
    }
    // What has been refused has changed nothing of the session.
    client.query("PREPARE s FROM 'SELECT v FROM filtered WHERE id = 1'").unwrap();
    assert_eq!(client.value("EXECUTE s").unwrap(), "10");
    // Servers read a text as the session did at its PREPARE.
    client.query("SET sql_mode = 'NO_BACKSLASH_ESCAPES'").unwrap();
    client.query(r#"PREPARE m FROM "SELECT '\', SLEEP(0) -- '""#).unwrap();
    client.query("SET sql_mode = DEFAULT").unwrap();
    assert!(client.error("EXECUTE m").unwrap().message.contains("SLEEP() or BENCHMARK()"));
    client.query("DEALLOCATE PREPARE m").unwrap();
    assert!(client.error("SELECT SLEEP(1)").unwrap().message.contains("SLEEP() or BENCHMARK()"));
    assert_eq!(client.rows("SHOW WARNINGS").unwrap()[0][1].as_deref(), Some("1105"));
    // One user may.
    let mut trusted = login(&Address {
        user: APP2.user.to_owned(),
        password: APP2.password.to_owned(),
        ..stage.address.clone()
    });
    for sql in ["SELECT SLEEP(0)", "UPDATE filtered SET v = v", "SELECT 1; SELECT 2", "CALL danger_5()"] {
        trusted.query_all(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
    }
    // COM_CHANGE_USER makes the session another user's.
    trusted.change_user(&Login::new(&stage.address)).unwrap();
    assert_eq!(trusted.error("UPDATE filtered SET v = 1").unwrap().code, 1105);
    changed_while_it_runs(&stage, &operators, &mut client);
}

/// Operators change filters, and sessions that are there follow.
fn changed_while_it_runs(stage: &Stage, operators: &Operators, client: &mut Client) {
    let mut operator = operators.connect(&stage.address).unwrap();
    let counts = operator.rows("SELECT rejected, logged FROM filters WHERE name = 'dangerous'").unwrap();
    assert!(counts[0][0].as_deref().unwrap().parse::<u32>().unwrap() > 200, "{counts:?}");
    assert_eq!(counts[0][1].as_deref(), Some("0"));
    let id = client.prepare("UPDATE filtered SET v = 5 WHERE id = 1").unwrap();
    client.execute(id).unwrap();
    operator.query("SET FILTER dangerous action = log, unseen = allow").unwrap();
    client.query("UPDATE filtered SET v = 4711").unwrap();
    let late = client.prepare("UPDATE filtered SET v = 1").unwrap();
    client.execute(late).unwrap();
    let log = stage.proxy.as_ref().unwrap().log();
    let line = log.lines().rev().find(|line| line.contains("a filter matched a statement")).unwrap();
    assert!(line.contains("dangerous") && line.contains("UPDATE"), "{line}");
    assert!(!log.contains("4711"), "literals do not go to the log");
    pieces_of_refused_ones(stage, &mut operator);
    // What was prepared before is looked at when it runs.
    operator.query("SET FILTER dangerous action = reject").unwrap();
    let error = client.execute(late).unwrap_err().downcast::<ServerError>().unwrap();
    assert_eq!(error.code, 1105, "{error}");
    client.execute(id).unwrap();
    client.query("CALL danger_10()").unwrap();
    // The text that EXECUTE runs is seen.
    client.query("PREPARE hidden FROM 'UPDATE filtered SET v = 1'").unwrap();
    assert_eq!(client.error("EXECUTE hidden").unwrap().code, 1105);
    client.query("DEALLOCATE PREPARE hidden").unwrap();
    operator.query("ADD FILTER ours statement = [ddl], action = off, user = ['nobody', app]").unwrap();
    client.query("CREATE TABLE filtered_by_us (a INT)").unwrap();
    operator.query("REMOVE FILTER ours").unwrap();
    assert_eq!(client.error("DROP TABLE filtered_by_us").unwrap().code, 1105);
    operator.query("REMOVE FILTER dangerous").unwrap();
    client.query("DROP TABLE filtered_by_us").unwrap();
    assert_eq!(operator.rows("SHOW FILTERS").unwrap().len(), 1);
    let explained = operator.rows("EXPLAIN ROUTE UPDATE filtered SET v = 1").unwrap();
    assert!(!explained.iter().flatten().flatten().any(|cell| cell.contains("refuses")), "{explained:?}");
    operator.query("ADD FILTER again statement = ['write_without_where']").unwrap();
    let explained = operator.rows("EXPLAIN ROUTE UPDATE filtered SET v = 1").unwrap();
    assert!(explained.iter().flatten().flatten().any(|cell| cell.contains("the filter \"again\"")));
}

/// An execution that is refused takes along what was sent ahead for it, as one that fails on a server. The filter only logs here.
fn pieces_of_refused_ones(stage: &Stage, operator: &mut Client) {
    let mut client = stage.address.login().connect().unwrap();
    let update = "UPDATE filtered SET v = LENGTH(?) + SLEEP(0) WHERE id = 1";
    for text in [update.to_owned(), format!("{update} {}", padding())] {
        let id = client.prepare(text).unwrap().unwrap().id;
        assert_eq!(execute(&mut client, id, b"first"), None);
        client.send_long_data(id, 0, b"of the refused one").unwrap();
        operator.query("SET FILTER dangerous action = reject").unwrap();
        assert_eq!(execute(&mut client, id, b""), Some(1105));
        operator.query("SET FILTER dangerous action = log").unwrap();
        assert_eq!(execute(&mut client, id, b"four"), None);
        let found = client.run("SELECT v FROM filtered WHERE id = 1 FOR UPDATE").unwrap().remove(0);
        assert_eq!(found.rows().unwrap(), [[Some(b"4".to_vec())]], "the refused one's pieces are there");
        client.close(id).unwrap();
    }
}

/// The number of the error, if it fails.
fn execute(client: &mut delphinus_testkit::Client, id: u32, value: &[u8]) -> Option<u16> {
    let replies = client.execute(id, &[Param::Bytes(value.to_vec())], true).unwrap();
    replies[0].failure().map(|failure| failure.code)
}

#[test]
fn nothing_gets_past_on_mariadb() {
    nothing_gets_past(Flavor::MariaDb);
}

#[test]
fn nothing_gets_past_on_mysql() {
    nothing_gets_past(Flavor::MySql);
}

/// A client from this address, as a load balancer tells.
fn from(address: &Address, ip: &str, user: &str, password: &str) -> anyhow::Result<Client> {
    let at = |ip: &str| -> SocketAddr {
        if ip.contains(':') { format!("[{ip}]:4000") } else { format!("{ip}:4000") }.parse().unwrap()
    };
    let start = encode(ProxyVersion::V2, Some((at(ip), at("10.0.0.9"))));
    let address = Address { user: user.to_owned(), password: password.to_owned(), ..address.clone() };
    Client::connect(&Login::new(&address).over_tcp(&address).after(&start))
}

fn code(result: anyhow::Result<Client>) -> (u16, String) {
    let error = result.map(drop).unwrap_err();
    match error.downcast::<ServerError>() {
        Ok(error) => (error.code, error.message),
        Err(error) => panic!("no error of a server: {error:#}"),
    }
}

#[test]
fn where_clients_may_come_from() {
    let operators = Operators::default();
    let lists = "allow = [\"10.1.*\", \"fd00::/8\", \"10.7\"]\ndeny = [\"10.1.9.0/24\"]\n\
                 proxy_protocol_networks = [\"127.0.0.1\"]";
    let config = ConfigFile {
        listener: vec![lists.to_owned()],
        unix_listener: vec!["deny = [\"10.0.0.0/8\"]".to_owned()],
        sections: vec![operators.section()],
        ..ConfigFile::default()
    };
    let stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let address = &stage.address;
    let (user, password) = (address.user.as_str(), address.password.as_str());
    for ip in ["10.1.2.3", "10.7.1.1", "fd00::5", "::ffff:10.1.2.3"] {
        from(address, ip, user, password).unwrap().query("DO 1").unwrap();
    }
    for ip in ["10.1.9.7", "10.2.1.1", "fe80::1", "::ffff:10.1.9.7"] {
        let (code, text) = code(from(address, ip, user, password));
        assert!(code == 1130 && text.contains("is not allowed to connect"), "{ip}: {code} {text}");
    }
    // From the machine itself, without a balancer's header: the header is missing, and that is said.
    assert!(Client::connect(&Login::new(address).over_tcp(address)).is_err());
    address.connect().unwrap();

    let mut operator = operators.connect(address).unwrap();
    operator.query(&format!("SET USER {user} allow = ['10.1.*', unix], deny = ['10.1.2.3']")).unwrap();
    from(address, "10.1.2.4", user, password).unwrap();
    let wrong = code(from(address, "10.1.2.4", user, "wrong"));
    for ip in ["10.1.2.3", "10.7.1.1", "fd00::5"] {
        let denied = code(from(address, ip, user, password));
        assert_eq!(denied.0, 1045, "{denied:?}");
        assert_eq!(denied.1.replace(ip, "10.1.2.4"), wrong.1, "the same words");
        // Others may.
        from(address, ip, APP2.user, APP2.password).unwrap();
    }
    let mut session = address.connect().unwrap();
    operator.query(&format!("SET USER {user} allow = ['10.1.*'], deny = DEFAULT")).unwrap();
    assert_eq!(code(address.connect()).0, 1045);
    // Who is in stays.
    session.query("DO 1").unwrap();
    // The lists hold for COM_CHANGE_USER, too.
    let mut other = from(address, "10.7.1.1", APP2.user, APP2.password).unwrap();
    assert!(other.change_user(&Login::new(address)).is_err());
    let name = operator.rows("SELECT name FROM listeners WHERE address LIKE 'unix%'").unwrap();
    let name = name[0][0].clone().unwrap();
    operator.query(&format!("SET USER {user} allow = DEFAULT")).unwrap();
    operator.query(&format!("SET LISTENER '{name}' deny = [unix]")).unwrap();
    until(LIMIT, "the socket is closed to all", || Ok(address.connect().is_err())).unwrap();
    assert_eq!(code(address.connect()).0, 1130);
    let refused =
        operator.rows("SHOW STATUS LIKE 'delphinus_sessions_refused_total%listener_addresses%'").unwrap();
    assert!(!refused.is_empty(), "refusals are counted");
}
