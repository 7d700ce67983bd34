//! Where statements go as an operator and a client want it: shares, hints, rules, ports. Where a statement ran is told by the server that ran it; how many ran, by the servers' own counters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Answer, Client, ConfigFile, Login, Operators, Stage};
use delphinus_sandbox::Flavor;

/// The server that runs it answers with its port.
const WHO: &str = "SELECT port FROM answered_by";
/// Runs for minutes.
const ENDLESS: &str = "SELECT COUNT(*) FROM customers a, customers b, customers c, customers d \
                       WHERE SHA2(CONCAT(a.id, b.id, c.id, d.id), 256) = 'x'";
const CONNECTIONS: usize = 4;

/// Reads of each count, which is to land within two percent: `DELPHINUS_READS`, or what is enough, because shares are dealt out and
/// not drawn.
fn reads() -> usize {
    std::env::var("DELPHINUS_READS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// Reads spread over the replicas at once after a write: what sessions find there is tested elsewhere.
const EVENTUAL: &str = "[routing]\nconsistency = \"eventual\"\n";

/// Backends by their place in the cluster: 0 is the primary.
type Places = Vec<usize>;

/// The server that a statement with its port in the first column ran on.
fn place(stage: &Stage, client: &mut Client, sql: &str) -> usize {
    let port: u16 = client.value(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}")).parse().unwrap();
    stage.cluster.servers.iter().position(|server| server.port == port).unwrap()
}

fn places(stage: &Stage, client: &mut Client, sql: &str, times: usize) -> Places {
    let mut seen: Places = (0..times).map(|_| place(stage, client, sql)).collect();
    seen.sort_unstable();
    seen.dedup();
    seen
}

fn over_tcp(address: &Address) -> Client {
    Client::connect(&Login::new(address).over_tcp(address)).unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Text,
    Prepared,
}

/// Percent of the reads on each server, by the servers' counters.
fn spread(stage: &Stage, address: &Address, reads: usize, protocol: Protocol) -> Vec<f64> {
    let counts = || -> Vec<u64> { (0..3).map(|at| stage.status(at, "Com_select").unwrap()).collect() };
    let before = counts();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = address.connect().unwrap();
                let statement = client.prepare("SELECT 1").unwrap();
                for _ in 0..reads / CONNECTIONS {
                    match protocol {
                        Protocol::Text => client.query("SELECT 1").map(drop).unwrap(),
                        Protocol::Prepared => client.execute(statement).map(drop).unwrap(),
                    }
                }
            });
        }
    });
    let ran: Vec<u64> = counts().iter().zip(before).map(|(after, before)| after - before).collect();
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    ran.iter().map(|count| *count as f64 * 100.0 / reads as f64).collect()
}

fn expect_spread(what: &str, got: &[f64], wanted: [f64; 3]) {
    eprintln!("{what}: {got:.2?}, wanted {wanted:?}");
    let is_near = got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() <= 2.0);
    assert!(is_near, "{what}: {got:.2?} percent, wanted {wanted:?}");
}

fn config(routing: &str, pool: &[&str], each: [&str; 3]) -> ConfigFile {
    let sections = vec![format!("{EVENTUAL}{routing}\n")];
    ConfigFile { sections, each_backend: each.map(str::to_owned).to_vec(), ..ConfigFile::with_pool(pool) }
}

/// With a monitor that looks once, because the servers count its questions, too.
fn quiet(config: ConfigFile) -> ConfigFile {
    ConfigFile { monitor: vec!["interval_ms = 60000".to_owned()], ..config }
}

const WEIGHTS: [&str; 3] = ["", "weight = 100", "weight = 300"];

/// Every policy that says who gets how much, in text and prepared form, with connections that are held between statements and
/// with such that are not.
fn check_distribution(stage: &mut Stage) {
    use Protocol::{Prepared, Text};
    // What its monitor asks would be counted.
    stage.proxy = None;
    let cases = [
        ("weighted, a share for the primary", "read_primary_percentage = 25", [25.0, 18.75, 56.25]),
        ("weighted, the default", "", [0.0, 25.0, 75.0]),
        ("round_robin", "read_balance = \"round_robin\"", [0.0, 50.0, 50.0]),
        ("all to the primary", "read_master_percentage = 100", [100.0, 0.0, 0.0]),
        ("primary_preferred", "primary_preferred = true", [100.0, 0.0, 0.0]),
    ];
    for (what, routing, wanted) in cases {
        for (hold, pool) in [("held", &[][..]), ("not held", &["hold_ms = 0"])] {
            let config = quiet(config(routing, pool, WEIGHTS));
            let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
            for (way, protocol) in [("text", Text), ("prepared", Prepared)] {
                let what = format!("{what}, {hold}, {way}");
                expect_spread(&what, &spread(stage, &address, reads(), protocol), wanted);
            }
        }
    }
}

/// What is hot holds for the next statement of a session that is busy all the time; a file with a mistake changes nothing.
fn check_reload(stage: &Stage) {
    let operators = Operators::default();
    let file = config("read_primary_percentage = 0", &[], ["", "", ""]);
    let rule = "\n[[rule]]\nmatch_pattern = \"'to replicas'\"\ntarget = \"replica\"\n".to_owned();
    let sections = [file.sections.concat(), operators.section(), rule].to_vec();
    let (proxy, address, _port) = stage.another_proxy(&quiet(ConfigFile { sections, ..file })).unwrap();
    let path = address.socket.with_file_name("delphinus.toml");
    let write = |from: &str, to: &str| {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
    };
    let mut operator = operators.address(&address).connect().unwrap();
    let mut client = address.connect().unwrap();
    let limit = Duration::from_secs(30);
    assert_eq!(places(stage, &mut client, WHO, 8), [1, 2]);
    assert_eq!(operator.rows("RELOAD CONFIG").unwrap().len(), 0);
    write("read_primary_percentage = 0", "read_primary_percentage = 100");
    let changed = operator.rows("RELOAD CONFIG").unwrap();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(changed, [["routing.read_primary_percentage", "0", "100", "applied"].map(text)]);
    delphinus_e2e::until(limit, "all reads on the primary", || Ok(places(stage, &mut client, WHO, 8) == [0]))
        .unwrap();
    assert_eq!(places(stage, &mut client, "SELECT port, 'to replicas' FROM answered_by", 8), [1, 2]);
    let told = operator.rows("EXPLAIN ROUTE SELECT 1").unwrap();
    let target = told.iter().find(|row| row[0].as_deref() == Some("target")).unwrap();
    assert_eq!(target[1].as_deref(), Some("primary"));
    let shown = operator.rows("SHOW CONFIG LIKE 'routing.read\\_primary%'").unwrap();
    assert_eq!(shown, [["routing.read_primary_percentage", "100"].map(text)]);
    // What is not hot waits, and is named.
    write("read_primary_percentage = 100", "read_primary_percentage = 25\n[cache]\nmax_entry_bytes = 2048");
    proxy.hang_up().unwrap();
    delphinus_e2e::until(limit, "the file to be read again", || {
        Ok(proxy.log().contains("the configuration was read again"))
    })
    .unwrap();
    assert!(proxy.log().contains("cache.max_entry_bytes"), "{}", proxy.log());
    expect_spread("after a reload", &spread(stage, &address, 4_000, Protocol::Text), [25.0, 37.5, 37.5]);
    client.query("/*+ delphinus(backend=nowhere) */ SELECT 1").unwrap();
    write("read_primary_percentage = 25", "read_primary_percentage = 101");
    let error = operator.error("RELOAD CONFIG").unwrap();
    assert_eq!(error.code, 1105);
    assert!(error.message.contains("read_primary_percentage = 101 is out of range"), "{error}");
    expect_spread("after a mistake", &spread(stage, &address, 4_000, Protocol::Prepared), [25.0, 37.5, 37.5]);
}

/// Three connections to one replica are busy: reads go to the other one.
fn check_least_connections(stage: &Stage) {
    let routing = "read_balance = \"least_connections\"";
    let file = ConfigFile { proxy: vec!["workers = 1".into()], ..config(routing, &[], ["", "", ""]) };
    let (_proxy, address, _port) = stage.another_proxy(&file).unwrap();
    let mut client = address.connect().unwrap();
    assert_eq!(places(stage, &mut client, WHO, 8), [1, 2], "equals take turns");
    let first = &stage.cluster.servers[1].name;
    let mut busy: Vec<_> = (0..3).map(|_| address.connect().unwrap()).collect();
    for one in &mut busy {
        let sql = format!("/*+ delphinus(backend={first}) */ START TRANSACTION READ ONLY");
        one.query(&sql).unwrap();
        assert_eq!(place(stage, one, WHO), 1);
    }
    assert_eq!(places(stage, &mut client, WHO, 20), [2]);
    for one in &mut busy {
        one.query("COMMIT").unwrap();
    }
    assert_eq!(places(stage, &mut client, WHO, 8), [1, 2]);
}

/// One replica takes 20 ms longer for each read.
fn check_least_latency(stage: &Stage) {
    let routing = "read_balance = \"least_latency\"";
    let (_proxy, address, _port) = stage.another_proxy(&config(routing, &[], ["", "", ""])).unwrap();
    let slow = stage.cluster.servers[1].port;
    // Far above what a busy machine adds to a read: one read of 25 ms by the other would make 20 ms the better place.
    let sql = format!("SELECT port, SLEEP(0.2 * (port = {slow})) FROM answered_by");
    let mut rounds = Vec::new();
    // What was slow for once, as the first read of a server is, has to be forgotten first. A replica may not be up yet. Another session for
    // each round: one that comes before stored code could be read may be pinned, and has one replica for all of its reads.
    let left_alone =
        delphinus_e2e::until(Duration::from_mins(1), "the slow replica to be left alone", || {
            let mut client = address.connect()?;
            rounds.push((0..50).filter(|_| place(stage, &mut client, &sql) == 1).count());
            Ok(rounds.last().is_some_and(|on_slow| *on_slow < 5) && rounds.iter().sum::<usize>() > 0)
        });
    left_alone.unwrap_or_else(|error| panic!("{error:#}: of 50 reads each, the slow one had {rounds:?}"));
}

fn check_hints(stage: &Stage) {
    let second = stage.cluster.servers[2].name.clone();
    let mut client = stage.address.connect().unwrap();
    let backend = format!("/*+ delphinus(backend={second}) */ {WHO}");
    let backend_primary = format!("/*+ delphinus(backend={}) */ {WHO}", stage.cluster.servers[0].name);
    let cases: [(&str, &[usize]); 11] = [
        (WHO, &[1, 2]),
        ("/*#mode=READWRITE*/ SELECT port FROM answered_by", &[0]),
        ("/*#mode=READONLY*/ SELECT port FROM answered_by", &[1, 2]),
        ("SELECT /*master*/ port FROM answered_by", &[0]),
        ("/*slave*/SELECT port FROM answered_by", &[1, 2]),
        ("/*+ delphinus(primary) */ SELECT port FROM answered_by", &[0]),
        ("(/*+ delphinus(consistency=global) */ SELECT port FROM answered_by)", &[0]),
        (&backend, &[2]),
        (&backend_primary, &[0]),
        ("SELECT port /*master*/ FROM answered_by", &[1, 2]),
        // A hint cannot send a locking read to a replica.
        ("/*slave*/ SELECT port FROM answered_by FOR UPDATE", &[0]),
    ];
    for (sql, wanted) in cases {
        assert_eq!(places(stage, &mut client, sql, 6), wanted, "{sql}");
    }
    // Prepared: the text's hint holds for each execution.
    let log = delphinus_e2e::GeneralLog::of(&stage.cluster);
    for (hint, marker, on_primary) in [("/*master*/", "hint-p", 5), ("/*slave*/", "hint-r", 0)] {
        let statement = client.prepare(&format!("{hint} SELECT 1 /*{marker}*/")).unwrap();
        for _ in 0..5 {
            client.execute(statement).unwrap();
        }
        let runs = log.runs_of(marker).unwrap();
        assert_eq!((runs[0], runs.iter().sum::<u32>()), (on_primary, 5), "{hint}: {runs:?}");
    }
    // In a transaction the primary is the place, whatever the hint says.
    client.query("BEGIN").unwrap();
    assert_eq!(place(stage, &mut client, "/*slave*/ SELECT port FROM answered_by"), 0);
    client.query("COMMIT").unwrap();
}

/// What cannot be obeyed is an error where hints are strict, and only there.
fn check_strict_hints(stage: &Stage) {
    let cannot = [
        "/*slave*/ INSERT INTO visits (server_id) VALUES (1)",
        "/*slave*/ SELECT id FROM visits FOR UPDATE",
        "/*+ delphinus(backend=nowhere) */ SELECT 1",
        "/*+ delphinus(cache_ttl=100) */ SELECT NOW()",
        "/*#mode=SOMETIMES*/ SELECT 1",
        "/*+ delphinus(replica, consistency=global) */ SELECT 1",
    ];
    let (_proxy, address, _port) =
        stage.another_proxy(&config("strict_hints = true", &[], ["", "", ""])).unwrap();
    let (mut strict, mut usual) = (address.connect().unwrap(), stage.address.connect().unwrap());
    for sql in cannot {
        let error = strict.error(sql).unwrap();
        assert_eq!(error.code, 1105, "{sql}: {error}");
        usual.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
    }
    strict.query("BEGIN").unwrap();
    assert_eq!(strict.error("/*slave*/ SELECT 1").unwrap().code, 1105);
    strict.query("/*master*/ SELECT 1").unwrap();
    strict.query("ROLLBACK").unwrap();
    assert_eq!(places(stage, &mut strict, "/*slave*/ SELECT port FROM answered_by", 4), [1, 2]);
}

fn check_session_settings(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    let value =
        |client: &mut Client, name: &str| client.value(&format!("SELECT @@delphinus.{name}")).unwrap();
    assert_eq!(value(&mut client, "mode"), "auto");
    for sql in [
        "SET @@delphinus.mode = 'primary'",
        "SET SESSION delphinus.mode = READWRITE",
        "SET @@session.delphinus.mode=\"master\"",
    ] {
        client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
        assert_eq!(value(&mut client, "mode"), "primary", "{sql}");
        assert_eq!(places(stage, &mut client, WHO, 4), [0], "{sql}");
        // A hint is nearer than a setting.
        assert_eq!(places(stage, &mut client, "/*slave*/ SELECT port FROM answered_by", 4), [1, 2]);
        client.query("SET delphinus.mode = DEFAULT").unwrap();
        assert_eq!(places(stage, &mut client, WHO, 4), [1, 2], "{sql}");
    }
    let second = &stage.cluster.servers[2].name;
    client.query(&format!("SET @@delphinus.backend = '{second}', @@delphinus.timeout_ms = 60000")).unwrap();
    assert_eq!(places(stage, &mut client, WHO, 4), [2]);
    let row = client.rows("SELECT @@delphinus.backend AS b, @@session.delphinus.timeout_ms").unwrap();
    assert_eq!(row, [[Some(second.clone()), Some("60000".to_owned())]]);
    // COM_RESET_CONNECTION forgets them, as it does all variables.
    client.command(0x1f, &[]).unwrap();
    assert_eq!(
        (value(&mut client, "backend"), value(&mut client, "timeout_ms")),
        (String::new(), "0".to_owned())
    );
    assert_eq!(places(stage, &mut client, WHO, 4), [1, 2]);
    for (sql, code) in [
        ("SET @@delphinus.mode = 'x'", 1231),
        ("SET @@delphinus.backend = 'nowhere'", 1231),
        ("SET @@delphinus.nonsense = 1", 1193),
        ("SELECT @@delphinus.nonsense", 1193),
        ("SET GLOBAL delphinus.mode = 'primary'", 1228),
        ("SET @@delphinus.mode = 'primary', @a = 1", 1235),
        ("SELECT @@delphinus.mode, 1", 1235),
    ] {
        assert_eq!(client.error(sql).unwrap().code, code, "{sql}");
    }
    assert_eq!(value(&mut client, "mode"), "auto");
    // No server has heard of them, and other variables are set as ever.
    client.query("SET @@session.sql_mode = 'ANSI_QUOTES', @d = 1").unwrap();
    assert!(client.value("SELECT @@sql_mode").unwrap().contains("ANSI_QUOTES"));
}

fn check_query_attributes(stage: &Stage) {
    let mut login = Login::new(&stage.address);
    login.has_query_attributes = true;
    let mut client = Client::connect(&login).unwrap();
    let mut seen = |attributes: &[(&str, &str)]| {
        let mut seen: Places = Vec::new();
        for _ in 0..4 {
            let rows = client.rows_with(attributes, WHO).unwrap();
            let port: u16 = rows[0][0].as_ref().unwrap().parse().unwrap();
            seen.push(stage.cluster.servers.iter().position(|server| server.port == port).unwrap());
        }
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(seen(&[]), [1, 2]);
    assert_eq!(seen(&[("delphinus.mode", "primary")]), [0]);
    assert_eq!(seen(&[("traceparent", "00-ab"), ("delphinus.backend", &stage.cluster.servers[1].name)]), [1]);
    assert_eq!(seen(&[("mode", "primary")]), [1, 2]);
    check_attributes_of_executions(stage, &mut client);
}

/// Each execution of a prepared statement has its own.
fn check_attributes_of_executions(stage: &Stage, client: &mut Client) {
    let executed =
        || -> Vec<u64> { (0..3).map(|at| stage.status(at, "Com_stmt_execute").unwrap()).collect() };
    let statement = client.prepare(WHO).unwrap();
    let mut grown = |attributes: &[(&str, &str)]| {
        let before = executed();
        for _ in 0..4 {
            assert!(matches!(client.execute_with(statement, attributes).unwrap(), Answer::Rows(_)));
        }
        let more = executed().into_iter().zip(before).map(|(now, before)| now - before);
        more.collect::<Vec<_>>()
    };
    assert_eq!(grown(&[]), [0, 2, 2]);
    assert_eq!(grown(&[("delphinus.mode", "primary")]), [4, 0, 0]);
    let second = &stage.cluster.servers[2].name;
    assert_eq!(grown(&[("traceparent", "00-ab"), ("delphinus.backend", second)]), [0, 0, 4]);
    assert_eq!(grown(&[]), [0, 2, 2]);
    client.close_statement(statement).unwrap();
}

/// The code of the error that `sql` has to give.
fn code(client: &mut Client, sql: &str) -> u16 {
    client.error(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}")).code
}

const INSERT: &str = "INSERT INTO visits (server_id) VALUES (77)";

/// The digest of a statement, as operators are told it.
fn digest(stage: &Stage, sql: &str) -> String {
    let operators = Operators::default();
    let (_proxy, address, _port) =
        stage.another_proxy(&quiet(ConfigFile::with_sections(&operators.section()))).unwrap();
    let rows = operators.address(&address).connect().unwrap().rows(&format!("EXPLAIN ROUTE {sql}")).unwrap();
    rows.into_iter().find(|row| row[0].as_deref() == Some("digest")).unwrap().remove(1).unwrap()
}

fn check_rules(stage: &Stage) {
    let mut rules = String::new();
    let digest = digest(stage, "SELECT port, 1, 'digest' FROM answered_by");
    write!(rules, "\n[[rule]]\nname = \"by digest\"\ndigest = [\"{digest}\"]\ntarget = \"primary\"\n")
        .unwrap();
    for rule in [
        "name = \"sale\"\nclass = [\"alter_table\"]\nreject = \"not during the sale\"",
        "name = \"trial\"\nmatch_digest = \"from answered_by\"\ntarget = \"primary\"\nlog_only = true",
        "table = [\"app.orders\"]\ntarget = \"primary\"",
        "match_pattern = \"'report'\"\ngroup = \"slow\"",
        "match_pattern = \"'by schema'\"\nschema = [\"sbtest\"]\ntarget = \"primary\"",
        "match_pattern = \"'by client'\"\nclient = [\"127.0.0.0/8\"]\ntarget = \"primary\"",
        "match_pattern = \"'slowly'\"\ndelay_ms = 300",
        "match_pattern = 'old_orders|ORDERS_(\\d)'\nreplace_pattern = 'orders /*was${1}*/'\ntarget = \"primary\"",
        "match_pattern = \"SHA2\"\ntimeout_ms = 300",
        "user = [\"app2\"]\nlistener = [\"127.0.0.1:0\"]\nreject = \"never\"",
    ] {
        write!(rules, "\n[[rule]]\n{}\n", rule.replace("127.0.0.1:0", "main")).unwrap();
    }
    let file = ConfigFile {
        listener: vec!["name = \"main\"".into()],
        ..ConfigFile::with_sections(&format!("{EVENTUAL}{rules}"))
    };
    let file =
        ConfigFile { each_backend: vec![String::new(), String::new(), "groups = [\"slow\"]".into()], ..file };
    let (proxy, address, _port) = stage.another_proxy(&file).unwrap();
    let mut client = address.connect().unwrap();
    let error = client.error("ALTER TABLE visits ADD COLUMN x INT").unwrap();
    assert_eq!((error.code, error.message.as_str()), (1105, "Delphinus: not during the sale"));
    assert_eq!(places(stage, &mut client, WHO, 4), [1, 2], "a rule that is tried out does nothing");
    assert!(proxy.log().contains("a rule would match") && proxy.log().contains("trial"), "{}", proxy.log());
    for (sql, wanted) in [
        ("SELECT port, id FROM answered_by, orders LIMIT 1", &[0][..]),
        ("/*slave*/ SELECT port, id FROM answered_by, orders LIMIT 1", &[1, 2]),
        ("SELECT port, 'report' FROM answered_by", &[2]),
        // A rule cannot send a locking read to a replica.
        ("SELECT port, 'report' FROM answered_by FOR UPDATE", &[0]),
        // Literals do not count.
        ("SELECT port, 7, 'another' FROM answered_by", &[0]),
        ("SELECT port, 7 FROM answered_by", &[1, 2]),
        ("SELECT port, 'by schema' FROM answered_by", &[1, 2]),
        ("SELECT port, 'by client' FROM answered_by", &[1, 2]),
    ] {
        assert_eq!(places(stage, &mut client, sql, 4), wanted, "{sql}");
    }
    let by_client = "SELECT port, 'by client' FROM answered_by";
    assert_eq!(places(stage, &mut over_tcp(&address), by_client, 4), [0]);
    client.query("USE sbtest").unwrap();
    assert_eq!(places(stage, &mut client, "SELECT port, 'by schema' FROM app.answered_by", 4), [0]);
    client.query("USE app").unwrap();
    check_rewriting(stage, &address);
    let began = Instant::now();
    client.query("SELECT 'slowly'").unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300));
    let began = Instant::now();
    assert!([1969, 3024].contains(&code(&mut client, ENDLESS)));
    assert!(began.elapsed() < Duration::from_secs(20));
    // Rules hold in transactions, and for prepared statements.
    client.query("BEGIN").unwrap();
    assert_eq!(code(&mut client, "ALTER TABLE visits ADD COLUMN x INT"), 1105);
    client.query("ROLLBACK").unwrap();
    assert!(client.prepare("ALTER TABLE visits ADD COLUMN x INT").is_err());
    let app2 =
        |address: &Address| Address { user: "app2".into(), password: "app2pw".into(), ..address.clone() };
    assert_eq!(code(&mut over_tcp(&app2(&address)), "SELECT 1"), 1105);
    app2(&address).connect().unwrap().query("SELECT 1").unwrap();
}

/// The text that runs is the rule's, in text and prepared form, with what else the rule says; in a transaction, too.
fn check_rewriting(stage: &Stage, address: &Address) {
    use delphinus_testkit::{Param, Reply};
    let mut client = address.login().connect().unwrap();
    let primary = stage.cluster.servers[0].port.to_string();
    let value = |reply: Reply| {
        let row = reply.rows().unwrap().remove(0);
        let text = |at: usize| String::from_utf8(row[at].clone().unwrap()).unwrap();
        (text(0), text(1))
    };
    let wanted: u32 =
        stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.orders").unwrap().trim().parse().unwrap();
    for begin in ["DO 0", "BEGIN"] {
        client.query(begin).unwrap();
        for table in ["old_orders", "orders_7"] {
            let sql = format!("SELECT COUNT(*), MAX(port) FROM {table}, answered_by");
            let got = value(client.query(&sql).unwrap().remove(0));
            assert_eq!(got, (wanted.to_string(), primary.clone()), "{sql}");
            let sql = format!("SELECT COUNT(*) + ?, MAX(port) FROM {table}, answered_by");
            let prepared = client.prepare(&sql).unwrap().unwrap();
            for (extra, with_types) in [(1, true), (2, false)] {
                let replies = client.execute(prepared.id, &[Param::Int(extra)], with_types).unwrap();
                let got = value(replies.into_iter().next().unwrap()).0;
                assert_eq!(got, (i64::from(wanted) + extra).to_string(), "{sql}");
            }
        }
    }
    client.query("COMMIT").unwrap();
    let log = delphinus_e2e::GeneralLog::of(&stage.cluster);
    client.query("SELECT COUNT(*) FROM orders_3").unwrap();
    assert_eq!(log.runs_of("was3").unwrap()[0], 1);
}

fn check_timeouts(stage: &Stage, flavor: Flavor) {
    let wanted = if flavor == Flavor::MariaDb { 1969 } else { 3024 };
    let mut client = stage.address.connect().unwrap();
    let began = Instant::now();
    assert_eq!(code(&mut client, &format!("/*+ delphinus(timeout_ms=300) */ {ENDLESS}")), wanted);
    client.query("SET @@delphinus.timeout_ms = 300").unwrap();
    assert_eq!(code(&mut client, ENDLESS), wanted);
    let statement = client.prepare(ENDLESS).unwrap();
    assert!(client.execute(statement).is_err());
    assert!(began.elapsed() < Duration::from_secs(30));
    // What is quick enough, and what comes after, is not touched.
    for _ in 0..50 {
        client.query(WHO).unwrap();
    }
}

fn check_ports(stage: &Stage) {
    let file = |mode: &str| ConfigFile {
        listener: vec![format!("mode = \"{mode}\"")],
        ..ConfigFile::with_sections(EVENTUAL)
    };
    let (_proxy, address, _port) = stage.another_proxy(&file("read_write")).unwrap();
    let mut client = over_tcp(&address);
    assert_eq!(places(stage, &mut client, WHO, 4), [0]);
    client.query(INSERT).unwrap();
    client.query("START TRANSACTION READ ONLY").unwrap();
    assert_eq!(places(stage, &mut client, WHO, 4), [0]);
    // The other listener of the same proxy splits.
    assert_eq!(places(stage, &mut address.connect().unwrap(), WHO, 4), [1, 2]);

    let (_proxy, address, _port) = stage.another_proxy(&file("read_only")).unwrap();
    let mut client = over_tcp(&address);
    assert_eq!(places(stage, &mut client, WHO, 4), [1, 2]);
    let named = format!("/*+ delphinus(backend={}) */ {WHO}", stage.cluster.servers[2].name);
    assert_eq!(places(stage, &mut client, &named, 4), [2]);
    for sql in [
        INSERT,
        "UPDATE visits SET server_id = 1",
        "CREATE TABLE x (a INT)",
        "DROP TABLE visits",
        "SELECT id FROM visits FOR UPDATE",
        "SELECT GET_LOCK('x', 0)",
        "CALL p()",
        "LOCK TABLES visits READ",
        "FLUSH TABLES",
        "SET GLOBAL wait_timeout = 100",
        "SET SESSION TRANSACTION READ WRITE",
        "SET @@transaction_read_only = 0",
        "START TRANSACTION READ WRITE",
        "CREATE TEMPORARY TABLE x (a INT)",
    ] {
        assert_eq!(code(&mut client, sql), 1290, "{sql}");
    }
    // COM_REFRESH is FLUSH in its old form.
    assert!(client.command(7, &[4]).unwrap_err().to_string().starts_with("1290"));
    for _ in 0..3 {
        client.query("BEGIN").unwrap();
        let seen = places(stage, &mut client, WHO, 4);
        assert!(seen == [1] || seen == [2], "{seen:?}");
        assert_eq!(code(&mut client, INSERT), 1290);
        client.query("COMMIT").unwrap();
    }
    client.query("SET @x = 5, SESSION sort_buffer_size = 300000").unwrap();
    for _ in 0..4 {
        assert_eq!(client.value("SELECT @x + @@sort_buffer_size").unwrap(), "300005");
    }
    client.query("USE app").unwrap();
    client.query("SHOW TABLES").unwrap();
    client.command(0x1f, &[]).unwrap();
    assert_eq!(code(&mut client, INSERT), 1290);
    // Every replica that this went to is as it was.
    assert!(stage.cluster.servers[1].query("SELECT * FROM app.x").is_err());
}

/// No usable replica: the primary, at once; and a replica that comes back takes its part slowly.
fn check_fallback_and_return(stage: &mut Stage) {
    let slow = config("slow_start_ms = 6000", &[], ["", "", ""]);
    let (_proxy, address, _port) = stage.another_proxy(&slow).unwrap();
    let file =
        ConfigFile { listener: vec!["mode = \"read_only\"".into()], ..ConfigFile::with_sections(EVENTUAL) };
    let (_reading, reading_address, _port2) = stage.another_proxy(&file).unwrap();
    let mut client = address.connect().unwrap();
    let mut reading = over_tcp(&reading_address);
    stage.cluster.servers[1].kill9();
    stage.cluster.servers[2].kill9();
    let began = Instant::now();
    assert_eq!(place(stage, &mut client, WHO), 0);
    assert_eq!(place(stage, &mut client, "/*slave*/ SELECT port FROM answered_by"), 0);
    client.query("START TRANSACTION READ ONLY").unwrap();
    assert_eq!(place(stage, &mut client, WHO), 0);
    client.query("COMMIT").unwrap();
    assert_eq!(place(stage, &mut reading, WHO), 0);
    assert_eq!(code(&mut reading, INSERT), 1290);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    start_again(stage, 2);
    let limit = Duration::from_mins(1);
    delphinus_e2e::until(limit, "the first to return", || Ok(place(stage, &mut client, WHO) == 2)).unwrap();
    std::thread::sleep(SLOW_START);
    start_again(stage, 1);
    delphinus_e2e::until(limit, "the second to return", || Ok(place(stage, &mut client, WHO) == 1)).unwrap();
    let began = Instant::now();
    let share = |client: &mut Client| (0..100).filter(|_| place(stage, client, WHO) == 1).count();
    let early = share(&mut client);
    // At the end of this its weight was that part of the other's, and before it was less.
    let since = began.elapsed() + Duration::from_secs(1);
    let weight = (since.as_secs_f64() / SLOW_START.as_secs_f64()).min(1.0);
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let is_slow = early as f64 <= 100.0 * weight / (1.0 + weight) + 3.0;
    assert!(is_slow, "{early} of 100 reads in {since:?} on the replica that has just returned");
    delphinus_e2e::until(limit, "equal shares", || Ok(share(&mut client) == 50)).unwrap();
}

/// How long a replica takes to have its part again.
const SLOW_START: Duration = Duration::from_secs(6);

/// A server that was killed may, on a busy machine, need more than one start.
fn start_again(stage: &mut Stage, server: usize) {
    let server = &mut stage.cluster.servers[server];
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(90) {
        if !server.is_running()
            && let Err(error) = server.start_again()
        {
            eprintln!("{error:#}\n{}", server.error_log());
        }
        if server.query("SELECT 1").is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("{} does not start:\n{}", server.name, server.error_log());
}

fn check_flavor(flavor: Flavor) {
    let mut stage = Stage::with(flavor, &ConfigFile::with_sections(EVENTUAL)).unwrap();
    check_hints(&stage);
    check_strict_hints(&stage);
    check_session_settings(&stage);
    if flavor == Flavor::MySql {
        check_query_attributes(&stage);
    }
    check_rules(&stage);
    check_timeouts(&stage, flavor);
    check_ports(&stage);
    check_least_connections(&stage);
    check_least_latency(&stage);
    for server in &stage.cluster.servers {
        server.query("SET GLOBAL general_log = OFF").unwrap();
    }
    check_distribution(&mut stage);
    check_reload(&stage);
    check_fallback_and_return(&mut stage);
}

delphinus_e2e::on_both_flavors!(check_flavor);

/// A read that holds the session to its connection runs on the primary: what is written meanwhile must not meet a
/// replica.
fn check_reads_that_pin(flavor: Flavor) {
    use delphinus_testkit::Reply;
    let stage = Stage::start(flavor).unwrap();
    let Address { socket: _, user: _, password: _, database: _, .. } = &stage.address;
    let mut client = stage.address.login().connect().unwrap();
    let insert = |client: &mut delphinus_testkit::Client, what: &str| {
        let replies = client.query(INSERT).unwrap();
        assert_eq!(replies[0].failure(), None, "with {what}");
    };
    let cursor = client.prepare("SELECT id FROM customers").unwrap().unwrap();
    let Reply::Rows(rows) = client.open_cursor(cursor.id, &[]).unwrap() else { panic!("no cursor") };
    insert(&mut client, "an open cursor");
    let Reply::Rows(fetched) = client.fetch(cursor.id, 5, &rows.columns).unwrap() else { panic!("no rows") };
    assert_eq!(fetched.rows.len(), 5);
    client.close(cursor.id).unwrap();
    let piece = client.prepare("SELECT LENGTH(?)").unwrap().unwrap();
    client.send_long_data(piece.id, 0, b"abc").unwrap();
    insert(&mut client, "a piece of a parameter");
    for server in &stage.cluster.servers {
        delphinus_e2e::until(Duration::from_secs(30), "both rows", || {
            Ok(server.query("SELECT COUNT(*) FROM app.visits WHERE server_id = 77")?.trim() == "2")
        })
        .unwrap();
    }
}

#[test]
fn reads_that_pin() {
    check_reads_that_pin(Flavor::MariaDb);
    check_reads_that_pin(Flavor::MySql);
}
