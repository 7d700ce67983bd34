//! The table of commands: found, refused and documented as it says.

mod walk;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::LoginDelays;
use delphinus_monitor::{Monitor, Settings, Tuning};
use delphinus_net::rt;
use delphinus_route::{Action, Kind as RuleKind, Policy, Rule, RulePlace, Rules, When};
use delphinus_session::{Pauses, Routing};
use delphinus_telemetry::CounterSet;
use delphinus_wire::auth::{Credential, Password, Plugin};

use super::cache_streams::CacheStreamRow;
use super::dispatch::find;
use super::relay_replicas::RelayReplicaRow;
use super::relays::{RelayRow, RelayWish, RelayWishing};
use super::vips::{LeaseRow, MemberRow, VipChecking, VipRow, VipWish, Wishing};
use super::*;
use crate::cluster::{ClusterView, PauseDoor};
use crate::console::{ChangedOption, Changing, ClientUser, ConfigChange, ListenerRow, Parts, Proxy, Saving};
use crate::switching::{CheckRow, MoveEnds, MoveLine, MoveRow, Moving, RemoteRelayRow, Switching};
use crate::text::words;
use crate::users::AdminUser;
use delphinus_config::{Edit, Effect};

/// The operators' side of a proxy without backends, workers and clients.
pub(crate) fn console() -> Console {
    let user = AdminUser {
        name: "ops".to_owned(),
        credential: Credential::Plain(Password::new("s3cret")),
        role: AdminRole::Admin,
    };
    let token = crate::users::AdminToken {
        name: "metrics".to_owned(),
        hash: delphinus_wire::auth::TokenHash::of(&Password::new("0123456789abcdef")),
        role: AdminRole::Viewer,
    };
    let settings = crate::console::Settings {
        users: vec![user],
        tokens: vec![token],
        max_connections: 3,
        connect_timeout: Duration::from_secs(1),
        wait_timeout: Duration::from_secs(1),
        login_delays: LoginDelays::default(),
        default_plugin: Plugin::CachingSha2,
    };
    let parts = Parts {
        settings,
        rsa_key: None,
        registry: Arc::default(),
        clusters: vec![cluster("main", rules()), cluster("by port", Rules::default())],
        counters: CounterSet::new(1, ["main", "by port"].map(Arc::from), delphinus_state::PinReason::LABELS),
        cache: None,
        memory: delphinus_memory::Account::unlimited(),
        statistics: delphinus_stats::Statistics::new(
            delphinus_memory::Account::unlimited(),
            delphinus_stats::Limits { by_digest: true, max_bytes: 1 << 20, max_text: 1024 },
        ),
        logs: logs(),
        history: history(),
        proxy: Rc::new(TwoOptions),
    };
    Console::new(parts, rt::now())
}

/// Logs that nobody reads.
fn logs() -> delphinus_journal::Logs {
    let slow =
        delphinus_journal::Settings { path: Some("/dev/null".into()), ..delphinus_journal::Settings::off() };
    delphinus_journal::Logs::start(
        &delphinus_memory::Account::unlimited(),
        slow,
        delphinus_journal::Settings::off(),
    )
}

/// A history in memory.
fn history() -> Arc<delphinus_history::History> {
    let limits = delphinus_history::Limits {
        max_bytes: 8 << 20,
        raw_days: 2,
        minute_days: 2,
        hour_days: 2,
        snapshot_days: 2,
        most_groups: 10,
    };
    delphinus_history::History::start(
        &delphinus_memory::Account::unlimited(),
        delphinus_history::Place::memory(),
        delphinus_history::Settings { enabled: true, limits },
        Box::new(|_| None),
    )
}

/// A cluster whose role moves at a word.
struct Still;

impl Switching for Still {
    fn check(&self, _: Option<String>) -> Moving<'_, Vec<CheckRow>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn switch_over<'a>(&'a self, _: Option<String>, by: &'a str) -> Moving<'a, MoveRow> {
        Box::pin(async { Ok(moved(by)) })
    }

    fn fail_over<'a>(&'a self, _: Option<String>, _: Option<bool>, by: &'a str) -> Moving<'a, MoveRow> {
        Box::pin(async { Ok(moved(by)) })
    }

    fn rejoin<'a>(&'a self, _: &str, by: &'a str) -> Moving<'a, MoveRow> {
        Box::pin(async { Ok(moved(by)) })
    }

    fn moves(&self) -> Vec<MoveRow> {
        vec![moved("ops")]
    }

    fn ends(&self) -> Vec<MoveEnds> {
        vec![MoveEnds { kind: "failover", counts: vec![("done", 2)], last: Duration::from_millis(1500) }]
    }

    fn remote_relays(&self) -> Vec<RemoteRelayRow> {
        vec![RemoteRelayRow { name: "far".to_owned(), answers: Some(false), questions: [7, 1] }]
    }
}

fn moved(by: &str) -> MoveRow {
    let line = MoveLine {
        at_ms: 1,
        took_ms: 2,
        backend: "db2".into(),
        step: "take writes".into(),
        result: String::new(),
    };
    MoveRow {
        number: 1,
        kind: "switchover",
        from: "db1".into(),
        to: Some("db2".into()),
        by: by.into(),
        state: "done",
        reason: None,
        began: std::time::UNIX_EPOCH,
        lines: vec![line],
    }
}

/// A proxy with two options, of which the file has another value.
struct TwoOptions;

impl TwoOptions {
    fn changes() -> Vec<ChangedOption> {
        let changed = |option: &str, before: &str, after: Option<&str>, effect| ChangedOption {
            option: option.to_owned(),
            before: Some(before.to_owned()),
            after: after.map(str::to_owned),
            effect,
        };
        vec![
            changed("pool.hold_ms", "250", None, Effect::Restart),
            changed("log.level", "info", Some("debug"), Effect::Hot),
        ]
    }
}

impl Proxy for TwoOptions {
    fn relays(&self) -> Vec<RelayRow> {
        vec![RelayRow { name: "r".to_owned(), ..RelayRow::default() }]
    }

    fn order_relay<'a>(&'a self, _: &'a str, _: RelayWish) -> RelayWishing<'a> {
        Box::pin(async { Ok(None) })
    }

    fn vips(&self) -> Vec<VipRow> {
        vec![VipRow {
            name: "app".into(),
            addresses: Vec::new(),
            role: "primary",
            holder: None,
            wanted: None,
            state: "elsewhere",
            since: Duration::ZERO,
            left: Duration::ZERO,
            epoch: None,
            error: None,
        }]
    }

    fn lease(&self) -> Option<LeaseRow> {
        let left = Duration::from_secs(9);
        Some(LeaseRow { is_up: true, errors: 3, age: Some(Duration::from_millis(500)), left })
    }

    fn cache_streams(&self) -> Vec<CacheStreamRow> {
        vec![CacheStreamRow {
            cluster: "main".to_owned(),
            lag: Some(Duration::ZERO),
            ..CacheStreamRow::default()
        }]
    }

    fn relay_replicas(&self) -> Vec<RelayReplicaRow> {
        let one =
            RelayReplicaRow { relay: "r".to_owned(), host: "db1".to_owned(), ..RelayReplicaRow::default() };
        // Two programs of one host, and two servers with one id.
        let program = RelayReplicaRow { is_program: true, ..one.clone() };
        vec![program.clone(), program, one.clone(), one]
    }

    fn members(&self) -> Vec<MemberRow> {
        Vec::new()
    }

    fn check_vips(&self) -> VipChecking<'_> {
        Box::pin(async { Vec::new() })
    }

    fn wish_of_vips(&self, _: VipWish) -> Wishing<'_> {
        Box::pin(async { Ok(()) })
    }

    fn listeners(&self) -> Vec<ListenerRow> {
        Vec::new()
    }

    fn client_users(&self) -> Vec<ClientUser> {
        Vec::new()
    }

    fn most_digests_of_snapshot(&self) -> usize {
        10
    }

    fn options(&self) -> Vec<(String, String)> {
        [("pool.hold_ms", "250"), ("log.level", "info")]
            .map(|(option, value)| (option.to_owned(), value.to_owned()))
            .to_vec()
    }

    fn faults(&self) -> crate::Examining<'_> {
        Box::pin(async { Vec::new() })
    }

    fn set_offline(&self, _: bool) {}

    fn is_ending(&self) -> bool {
        false
    }

    fn reload<'a>(&'a self, _: &'a str) -> Changing<'a> {
        Box::pin(async { Ok(Self::changes()) })
    }

    fn change<'a>(&'a self, edit: &'a Edit, _: &'a str) -> Changing<'a> {
        Box::pin(async move {
            if edit.to_string().contains("nonsense") {
                return Err("there is no option nonsense".to_owned());
            }
            Ok(Self::changes().split_off(1))
        })
    }

    fn roll_back<'a>(&'a self, number: u64, _: &'a str) -> Changing<'a> {
        Box::pin(async move {
            if number == 0 { Ok(Vec::new()) } else { Err(format!("there is no change {number}")) }
        })
    }

    fn save<'a>(&'a self, _: &'a str) -> Saving<'a> {
        Box::pin(async { Ok(()) })
    }

    fn plan(&self) -> Result<Vec<ChangedOption>, String> {
        Ok(Self::changes())
    }

    fn history(&self) -> Vec<ConfigChange> {
        Vec::new()
    }
}

fn cluster(name: &str, rules: Rules) -> ClusterView {
    let settings = Settings::new(Tuning::new("m".to_owned(), Password::new("m")));
    let (_, reader) = Monitor::new(settings);
    let routing = Routing { rules: Arc::new(rules), ..Routing::default() };
    ClusterView {
        name: name.into(),
        schemas: Box::new(Vec::new),
        reader,
        backends: Vec::new(),
        workers: Vec::new(),
        routing: Box::new(move || (routing.clone(), Policy::default())),
        switching: Box::new(Still),
        pauses: pauses(),
    }
}

/// A door by which everything is followed.
fn pauses() -> PauseDoor {
    let published = Rc::new(RefCell::new(Arc::<Pauses>::default()));
    let set = published.clone();
    PauseDoor {
        now: Box::new(move || published.borrow().clone()),
        set: Box::new(move |pauses| {
            set.replace(Arc::new(pauses));
            Box::pin(std::future::ready(true))
        }),
    }
}

#[test]
fn a_route_is_explained_in_the_cluster_that_is_named() {
    let first = |text: &str| rows(text)[0].clone();
    let cluster = |name: &str| [Some("cluster".to_owned()), Some(name.to_owned())];
    assert_eq!(first("EXPLAIN ROUTE SELECT 1"), cluster("main"));
    assert_eq!(first("EXPLAIN ROUTE IN CLUSTER main SELECT 1"), cluster("main"));
    assert_eq!(first("explain route in cluster 'by port' SELECT 'in cluster main';"), cluster("by port"));
    let digest = |text: &str| rows(text).into_iter().find(|row| row[0].as_deref() == Some("digest"));
    assert_eq!(digest("EXPLAIN ROUTE SELECT 1"), digest("EXPLAIN ROUTE IN CLUSTER \"by port\"  SELECT 1"));
}

fn rules() -> Rules {
    let when = When { users: vec!["etl".to_owned()], classes: vec![RuleKind::Reads], ..When::default() };
    let then = Action {
        place: Some(RulePlace::Replica),
        timeout: Some(Duration::from_secs(2)),
        ..Action::default()
    };
    Rules::new(vec![
        Rule::new("reports".into(), when, then, false),
        Rule::new(
            "trial".into(),
            When::default(),
            Action { reject: Some("no".into()), ..Action::default() },
            true,
        ),
    ])
}

#[test]
fn rules_are_shown_in_their_order() {
    let shown = rows("SHOW RULES");
    let cells: Vec<Vec<&str>> =
        shown.iter().map(|row| row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect()).collect();
    assert_eq!(
        cells,
        [
            vec![
                "1",
                "reports",
                "user etl, class read",
                "replica, timeout 2000 ms",
                "no",
                "0",
                "0",
                "0",
                "0",
                "0",
                "main"
            ],
            vec!["2", "trial", "", "reject \"no\"", "yes", "0", "0", "0", "0", "0", "main"],
        ]
    );
    assert_eq!(rows("SHOW RULES LIKE 'tr%'").len(), 1);
}

pub(crate) fn run_as(role: AdminRole, text: &str) -> Result<Answer, Refused> {
    let caller = Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role };
    rt::block_on(async { run(&console(), &caller, text, &[]).await }).unwrap()
}

pub(crate) fn texts(table: &Table) -> Vec<Vec<Option<String>>> {
    table.rows().iter().map(|row| row.iter().map(Cell::to_text).collect()).collect()
}

fn rows(text: &str) -> Vec<Vec<Option<String>>> {
    match run_as(AdminRole::Viewer, text) {
        Ok(Answer::Rows(table)) => texts(&table),
        other => panic!("{text}: {other:?}"),
    }
}

fn refused(role: AdminRole, text: &str) -> (u16, String) {
    let refused = run_as(role, text).expect_err(text);
    (refused.code, refused.text)
}

#[test]
fn the_servers_are_examined_for_one_operator_at_a_time() {
    rt::block_on(async {
        let console = console();
        let caller = Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role: AdminRole::Viewer };
        let texts = ["DOCTOR", "SELECT * FROM doctor"];
        let turn = console.examinations.take("").await.unwrap();
        for text in texts {
            let waiting = run(&console, &caller, text, &[]);
            assert!(rt::timeout(Duration::from_millis(50), waiting).await.is_none(), "{text}");
        }
        drop(turn);
        for text in texts {
            run(&console, &caller, text, &[]).await.unwrap();
        }
    })
    .unwrap();
}

#[test]
fn names_are_unique_and_written_as_they_are_looked_for() {
    let mut names: Vec<_> = COMMANDS.iter().flat_map(|command| command.names).collect();
    for name in &names {
        assert_eq!(name.to_uppercase(), **name);
        assert!(!name.contains("  ") && name.trim() == **name);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_command_is_found_by_each_of_its_names_in_any_case() {
    for command in COMMANDS {
        for name in command.names {
            let text = words(&format!("{} x", name.to_lowercase()));
            let (found, length) = find(&text).expect(name);
            assert_eq!((found.name(), length), (command.name(), name.split(' ').count()), "{name}");
        }
    }
    // The longer name wins, and quotes make a value of a word.
    assert_eq!(find(&words("SET BACKEND a ONLINE")).map(|(one, _)| one.name()), Some("SET BACKEND"));
    assert_eq!(find(&words("SET names utf8")).map(|(one, _)| one.name()), Some("SET"));
    assert!(find(&words("'SHOW' BACKENDS")).is_none() && find(&words("SHOWBACKENDS")).is_none());
}

#[test]
fn like_names_a_column_of_its_command() {
    for command in COMMANDS.iter().filter(|command| !command.like.is_empty()) {
        let Ok(Answer::Rows(table)) = run_as(command.role, command.name()) else {
            panic!("{}", command.name())
        };
        assert!(command.group == Group::Client || table.has_column(command.like), "{}", command.name());
    }
    assert_eq!(rows("SHOW CONFIG LIKE 'POOL%'"), [[Some("pool.hold_ms".to_owned()), Some("250".to_owned())]]);
    assert_eq!(rows("show config like 'x'").len(), 0);
    let one = rows("SHOW COMMANDS LIKE 'kill'");
    assert_eq!(one[0][2].as_deref(), Some("operator"));
    assert!(rows("HELP").len() > 10);
}

#[test]
fn what_a_reload_has_changed_is_told() {
    let Ok(Answer::Rows(table)) = run_as(AdminRole::Admin, "reload config") else { panic!("no rows") };
    let hold = ["pool.hold_ms", "250", "NULL", "with the next start"];
    let level = ["log.level", "info", "debug", "applied"];
    let cells =
        |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or("NULL".into())).collect();
    let rows: Vec<Vec<String>> = texts(&table).iter().map(cells).collect();
    assert_eq!(rows, [hold, level]);
}

#[test]
fn wrong_texts_are_told_what_to_write() {
    let told = |text: &str| refused(AdminRole::Admin, text);
    for (text, code, part) in [
        ("SHOW BACKEND", 1064, "did you mean SHOW BACKENDS?"),
        ("shw sesions", 1064, "did you mean SHOW SESSIONS?"),
        ("KILLL 7", 1064, "did you mean KILL?"),
        ("DROP TABLE users", 1064, "HELP shows all commands"),
        ("SHOW BACKENDS x", 1064, "write SHOW BACKENDS [LIKE 'pattern']"),
        ("SHOW BACKENDS LIKE db1", 1064, "LIKE 'pattern'"),
        ("KILL", 1064, "write KILL [CONNECTION | QUERY] {id | [USER name]"),
        ("KILL USER", 1064, "write KILL"),
        ("KILL QUERY OLDER soon", 1064, "write KILL"),
        ("CLEAR CACHE now", 1064, "write CACHE FLUSH"),
        ("RELOAD CONFIG now", 1064, "write RELOAD CONFIG"),
        ("KILL QUERY x", 1064, "write KILL"),
        ("KILL 7 8", 1064, "write KILL"),
        ("KILL 7", 1094, "Unknown thread id: 7"),
        ("KILL 99999999999", 1094, "Unknown thread id"),
        ("KILL 99999999999999999999999", 1064, "write KILL"),
        ("SET BACKEND db1", 1064, "{ONLINE | OFFLINE [SOFT | HARD] [WAIT seconds] | option"),
        ("SET BACKEND db1 DOWN", 1064, "{ONLINE | OFFLINE [SOFT | HARD] [WAIT seconds] | option"),
        ("SET BACKEND db1 weight", 1064, "{ONLINE | OFFLINE [SOFT | HARD] [WAIT seconds] | option"),
        ("SET BACKEND db1 OFFLINE WAIT", 1064, "[WAIT seconds]"),
        ("SET BACKEND db1 OFFLINE WAIT soon", 1064, "[WAIT seconds]"),
        ("SET BACKEND db1 OFFLINE SOFT HARD", 1064, "[WAIT seconds]"),
        ("SET PROXY AWAY", 1064, "write SET PROXY {OFFLINE | ONLINE}"),
        ("PAUSE now", 1064, "write PAUSE [CLUSTER name] [USER name] [WAIT seconds]"),
        ("PAUSE WAIT soon", 1064, "write PAUSE"),
        ("PAUSE CLUSTER x", 1105, "there is no cluster 'x'; there are main, by port"),
        ("PAUSE USER nobody", 1105, "there is no user 'nobody'"),
        ("RESUME WAIT 1", 1064, "write RESUME [CLUSTER name] [USER name]"),
        ("RESUME CLUSTER main", 1105, "no pause was begun with these words"),
        ("RECONNECT x", 1064, "write RECONNECT [BACKEND name | USER name]"),
        ("RECONNECT BACKEND x", 1105, "there is no backend 'x'"),
        ("SET BACKENDS db1 OFFLINE", 1064, "did you mean SET BACKEND?"),
        ("SET nonsense", 1064, "unknown command 'SET NONSENSE'"),
        ("SET GLOBAL x = 1", 1064, "unknown command"),
        ("SET routing.nonsense = 1", 1105, "there is no option nonsense"),
        ("SET routing.read_balance", 1064, "write SET section.option = value"),
        ("ADD SLAVE 'h:1'", 1064, "write ADD BACKEND"),
        ("LOAD MYSQL SERVERS TO RUNTIME", 1064, "CONFIG APPLY"),
        ("ADD TABLE x", 1064, "write ADD {BACKEND"),
        ("ADD BACKEND x weight 1", 1064, "write ADD {BACKEND"),
        ("REMOVE BACKEND", 1064, "write REMOVE"),
        ("REMOVE BACKEND a b", 1064, "write REMOVE"),
        ("CONFIG ROLLBACK x", 1064, "write CONFIG ROLLBACK number"),
        ("CONFIG ROLLBACK 7", 1105, "there is no change 7"),
        ("CONFIG", 1064, "unknown command"),
        ("SET BACKEND db1 OFFLINE", 1105, "there is no backend 'db1'"),
        ("EXPLAIN ROUTE", 1064, "write EXPLAIN ROUTE [IN CLUSTER name] statement"),
        ("EXPLAIN ROUTE ;", 1064, "write EXPLAIN ROUTE [IN CLUSTER name] statement"),
        ("EXPLAIN ROUTE IN CLUSTER main", 1064, "write EXPLAIN ROUTE [IN CLUSTER name] statement"),
        ("EXPLAIN ROUTE IN CLUSTER x SELECT 1", 1105, "there is no cluster 'x'; there are main, by port"),
        ("SELECT 1 FROM t", 1146, "there is no table 't'"),
        ("SELECT @@nothing", 1193, "Unknown system variable 'nothing'"),
        ("", 1065, "Query was empty"),
        ("/* x */ ;", 1065, "Query was empty"),
    ] {
        let (found, message) = told(text);
        assert!(found == code && message.contains(part), "{text}: {found} {message}");
    }
}

#[test]
fn what_clients_send_by_themselves_is_answered() {
    for text in [
        "SET NAMES utf8mb4",
        "SET @@session.autocommit = OFF",
        "set autocommit=1, sql_mode=concat(@@sql_mode,',STRICT_TRANS_TABLES')",
        "USE x",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "START TRANSACTION READ ONLY",
    ] {
        assert!(matches!(run_as(AdminRole::Viewer, text), Ok(Answer::Done)), "{text}");
    }
    let value = |text: &str| rows(text)[0][0].clone();
    assert_eq!(value("select @@version_comment limit 1").as_deref(), Some("Delphinus, the operators' side"));
    assert_eq!(value("SELECT DATABASE()"), None);
    assert_eq!(value("SELECT connection_id()").as_deref(), Some("9"));
    assert_eq!(value("SELECT USER()").as_deref(), Some("ops@h"));
    assert_eq!(value("SELECT 1").as_deref(), Some("1"));
    assert_eq!(value("SELECT 'a, b'").as_deref(), Some("a, b"));
    assert_eq!(value("SELECT 'a, b' AS x").as_deref(), Some("a, b"));
    assert_eq!(value("SELECT @@`max_allowed_packet`").as_deref(), Some("65536"));
    assert_eq!(rows("SHOW WARNINGS").len(), 0);
    assert_eq!(rows("SHOW VARIABLES LIKE 'sql_mode'").len(), 1);
    let connector = "/* mysql-connector-j */SELECT  @@session.auto_increment_increment AS auto_increment_increment, \
        @@character_set_client AS character_set_client, @@transaction_isolation AS transaction_isolation, \
        @@wait_timeout AS wait_timeout";
    let Ok(Answer::Rows(table)) = run_as(AdminRole::Viewer, connector) else { panic!("no rows") };
    assert!(["auto_increment_increment", "wait_timeout"].iter().all(|name| table.has_column(name)));
    assert_eq!(table.rows()[0].len(), 4);
}

#[test]
fn no_answer_holds_a_password() {
    for command in COMMANDS.iter().filter(|command| {
        command.group == Group::Look && matches!(command.run, Run::Table(_) | Run::Showing(_))
    }) {
        let Ok(Answer::Rows(table)) = run_as(AdminRole::Admin, command.name()) else { panic!("no rows") };
        for cell in texts(&table).into_iter().flatten().flatten() {
            assert!(!cell.contains("s3cret"), "{}: {cell}", command.name());
        }
    }
    assert!(rows("SHOW USERS").iter().any(|row| row[0].as_deref() == Some("ops")));
}

#[test]
fn the_reference_names_every_command() {
    let page = reference();
    for command in COMMANDS {
        assert!(page.contains(&format!("### `{}`", command.name())), "{}", command.name());
    }
}
