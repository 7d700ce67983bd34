//! Walks the table of commands and the list of tables: each has to answer, to say what is wrong with its arguments, to keep out a role
//! that is too small, and to bear hostile input. One without its line here fails.

use std::time::{Duration, Instant};

use delphinus_wire::Capabilities;

use super::*;
use crate::connection::Connection;
use crate::source::{SOURCES, catalog};

/// A command that is done, for each way to write it; what needs a higher role than the rest of it; and wrong arguments.
struct Sample {
    name: &'static str,
    /// What has to be done before.
    first: &'static [&'static str],
    right: &'static [&'static str],
    beyond: &'static [&'static str],
    wrong: &'static [&'static str],
}

const fn sample(
    name: &'static str,
    right: &'static [&'static str],
    wrong: &'static [&'static str],
) -> Sample {
    Sample { name, first: &[], right, beyond: &[], wrong }
}

/// For `SHOW name`, with LIKE and without.
macro_rules! shows {
    ($($name:literal),+) => { [$(sample(
        $name,
        &[$name, concat!($name, " LIKE '%a_b%'")],
        &[concat!($name, " x"), concat!($name, " LIKE x"), concat!($name, " LIKE 'x' 'y'")],
    )),+] };
}

const SHOWS: [Sample; 37] = shows![
    "SHOW BACKENDS",
    "SHOW CLUSTERS",
    "SHOW SESSIONS",
    "SHOW PINS",
    "SHOW POOLS",
    "SHOW MEMORY",
    "SHOW WAITERS",
    "SHOW RULES",
    "SHOW CACHE",
    "SHOW DIGESTS",
    "LOG STATUS",
    "DOCTOR",
    "ACTIVITY STATUS",
    "SHOW STATUS",
    "SHOW VERSION",
    "SHOW LISTENERS",
    "SHOW USERS",
    "SHOW CONFIG",
    "SHOW TABLES",
    "SHOW AUDIT",
    "SHOW PAUSES",
    "SHOW SWITCHOVERS",
    "SHOW FILTERS",
    "SHOW LIMITS",
    "SHOW VIPS",
    "SHOW MEMBERS",
    "VIP CHECK",
    "SHOW RELAY STATUS",
    "SHOW RELAY REPLICAS",
    "SHOW RELAY FILES",
    "SHOW RELAY FENCES",
    "SHOW CACHE DIGESTS",
    "SHOW CACHE STREAMS",
    "SHOW COMMANDS",
    "SHOW VARIABLES",
    "SHOW WARNINGS",
    "SHOW DATABASES"
];

const OTHERS: [Sample; 36] = [
    sample(
        "SELECT",
        &["SELECT 1", "SELECT name FROM users", "WITH x AS (SELECT 1) SELECT * FROM x"],
        &["SELECT", "SELECT nothing FROM users"],
    ),
    sample(
        "DESCRIBE",
        &["DESCRIBE users", "SHOW COLUMNS FROM users"],
        &["DESCRIBE", "DESCRIBE nothing", "DESC a b"],
    ),
    sample(
        "SHOW CREATE TABLE",
        &["SHOW CREATE TABLE users"],
        &["SHOW CREATE TABLE", "SHOW CREATE VIEW nothing"],
    ),
    sample(
        "EXPLAIN ROUTE",
        &["EXPLAIN ROUTE SELECT 1"],
        &["EXPLAIN ROUTE", "EXPLAIN ROUTE IN CLUSTER nothing SELECT 1"],
    ),
    sample(
        "VIP",
        &["VIP FREEZE", "VIP UNFREEZE", "VIP REBALANCE", "VIP PROMISE m1 6000 'vips/a' 'm1,m2'"],
        &["VIP", "VIP FREEZE x", "VIP MOVE write", "VIP MOVE write TO nobody", "VIP PROMISE m1 soon a b"],
    ),
    sample(
        "RELAY",
        &[
            "RELAY START r",
            "RELAY START r ADMIT 'x'",
            "RELAY STOP r",
            "RELAY CUT r",
            "RELAY CUT 'r' BY MOVE EPOCH 7",
            "RELAY TURN 'r' TO 'db2' AT 'db2:3306' IDENTITY 'server-2' EPOCH 7",
            "RELAY PURGE r TO 'b.2'",
            "RELAY ROTATE r",
        ],
        &[
            "RELAY",
            "RELAY START",
            "RELAY CUT r BY MOVE",
            "RELAY CUT r BY MOVE EPOCH x",
            "RELAY TURN r TO 'db2' AT 'db2:3306' EPOCH 7",
            "RELAY START nothing",
            "RELAY CUT r x",
            "RELAY PURGE r",
            "RELAY ROTATE",
            "RELAY ROTATE r x",
        ],
    ),
    sample("CONFIG PLAN", &["CONFIG PLAN"], &["CONFIG PLAN x"]),
    sample("CONFIG DIFF", &["CONFIG DIFF"], &["CONFIG DIFF x"]),
    sample("CONFIG HISTORY", &["CONFIG HISTORY"], &["CONFIG HISTORY x"]),
    sample(
        "KILL",
        &["KILL USER nobody", "KILL QUERY HOST h OLDER 9"],
        &["KILL", "KILL x", "KILL USER", "KILL 1 2"],
    ),
    Sample {
        name: "SET BACKEND",
        first: &[],
        right: &[],
        beyond: &["SET BACKEND db1 weight = 5", "SET BACKEND db1 weight=5"],
        wrong: &[
            "SET BACKEND",
            "SET BACKEND db1",
            "SET BACKEND db1 AWAY",
            "SET BACKEND nobody OFFLINE",
            "SET BACKEND db1 x =",
        ],
    },
    sample(
        "SET PROXY",
        &["SET PROXY OFFLINE", "SET PROXY ONLINE"],
        &["SET PROXY", "SET PROXY AWAY", "SET PROXY ONLINE x"],
    ),
    sample(
        "PAUSE",
        &["PAUSE", "PAUSE CLUSTER main WAIT 1s"],
        &["PAUSE x", "PAUSE WAIT soon", "PAUSE CLUSTER nothing", "PAUSE USER nobody"],
    ),
    Sample {
        first: &["PAUSE CLUSTER main"],
        ..sample(
            "RESUME",
            &["RESUME CLUSTER main"],
            &["RESUME", "RESUME x", "RESUME WAIT 1", "RESUME CLUSTER nothing"],
        )
    },
    sample(
        "SWITCHOVER CHECK",
        &["SWITCHOVER CHECK CLUSTER main"],
        &[
            "SWITCHOVER CHECK",
            "SWITCHOVER CHECK TO nobody",
            "SWITCHOVER CHECK CLUSTER nothing",
            "SWITCHOVER CHECK x",
        ],
    ),
    sample(
        "SWITCHOVER",
        &["SWITCHOVER CLUSTER main"],
        &["SWITCHOVER", "SWITCHOVER TO", "SWITCHOVER TO nobody", "SWITCHOVER CLUSTER main TO db1 x"],
    ),
    sample(
        "FAILOVER",
        &[
            "FAILOVER CLUSTER main",
            "FAILOVER CLUSTER main ON_LOSS = proceed",
            "FAILOVER CLUSTER main onloss=refuse",
        ],
        &["FAILOVER", "FAILOVER TO nobody", "FAILOVER CLUSTER main ON_LOSS = perhaps", "FAILOVER x"],
    ),
    // No cluster of these tests has a backend.
    sample("REJOIN", &[], &["REJOIN", "REJOIN nobody", "REJOIN a b"]),
    sample(
        "RECONNECT",
        &["RECONNECT", "RECONNECT USER nobody"],
        &["RECONNECT x", "RECONNECT BACKEND nobody", "RECONNECT USER a b"],
    ),
    sample(
        "SET USER",
        &["SET USER app max_connections = 5"],
        &["SET USER", "SET USER app", "SET USER app x", "SET USER app nonsense = 1"],
    ),
    sample(
        "SET FILTER",
        &["SET FILTER f action = log"],
        &["SET FILTER", "SET FILTER f", "SET FILTER f nonsense = 1"],
    ),
    sample(
        "SET LIMIT",
        &["SET LIMIT l per_second = 5"],
        &["SET LIMIT", "SET LIMIT l", "SET LIMIT l nonsense = 1"],
    ),
    sample(
        "SET RULE",
        &["SET RULE r log = true"],
        &["SET RULE", "SET RULE r", "SET RULE r x", "SET RULE r nonsense = 1"],
    ),
    sample(
        "SET LISTENER",
        &["SET LISTENER l tls = required"],
        &["SET LISTENER", "SET LISTENER l", "SET LISTENER l nonsense = 1"],
    ),
    sample(
        "ADD",
        &["ADD BACKEND db4 address = 'h:1'", "ADD RULE r IN CLUSTER main log = true"],
        &["ADD", "ADD TABLE x", "ADD RULE", "ADD RULE r x"],
    ),
    sample(
        "REMOVE",
        &["REMOVE BACKEND db4"],
        &["REMOVE", "REMOVE TABLE x", "REMOVE RULE", "REMOVE RULE a b"],
    ),
    sample("RELOAD CONFIG", &["RELOAD CONFIG", "CONFIG APPLY"], &["RELOAD CONFIG x"]),
    sample(
        "CONFIG ROLLBACK",
        &["CONFIG ROLLBACK 0"],
        &["CONFIG ROLLBACK", "CONFIG ROLLBACK x", "CONFIG ROLLBACK 1 2", "CONFIG ROLLBACK 7"],
    ),
    sample("CONFIG SAVE", &["CONFIG SAVE"], &["CONFIG SAVE x"]),
    sample(
        "CACHE FLUSH",
        &[
            "CACHE FLUSH",
            "CLEAR CACHE",
            "PURGE CACHE",
            "PROXYSQL FLUSH QUERY CACHE",
            "CACHE FLUSH SCHEMA a",
            "CACHE FLUSH TABLE a.b",
            "CACHE FLUSH TABLE `b`",
            "CACHE FLUSH DIGEST 0123456789abcdef",
            "CACHE FLUSH RULE 'the front page'",
        ],
        &["CACHE FLUSH x", "CACHE FLUSH SCHEMA", "CACHE FLUSH DIGEST 1", "CACHE FLUSH RULE a b"],
    ),
    sample(
        "LOG STOP",
        &["LOG STOP", "LOG STOP sql_log", "LOG STOP slow"],
        &["LOG STOP x", "LOG STOP slow_log sql_log"],
    ),
    sample("LOG START", &["LOG START", "LOG START slow_log"], &["LOG START x", "LOG START sql_log"]),
    sample("SNAPSHOT NOW", &["SNAPSHOT NOW", "SNAPSHOT"], &["SNAPSHOT x", "SNAPSHOT NOW x"]),
    sample("RESET DIGESTS", &["RESET DIGESTS"], &["RESET DIGESTS x"]),
    Sample {
        name: "SET",
        first: &[],
        right: &["SET NAMES utf8mb4", "SET @@x = 1"],
        beyond: &["SET routing.read_balance = 'weighted'", "SET routing.read_balance=weighted"],
        wrong: &["SET", "SET nonsense = 1", "SET routing.nonsense = 1", "SET routing.read_balance"],
    },
    // It takes whatever drivers write.
    sample("USE", &["USE x", "BEGIN", "COMMIT"], &[]),
];

fn samples() -> impl Iterator<Item = &'static Sample> {
    static ALL: [&[Sample]; 2] = [&SHOWS, &OTHERS];
    ALL.iter().copied().flatten()
}

fn sample_of(command: &Command) -> &'static Sample {
    let found: Vec<_> = samples().filter(|sample| sample.name == command.name()).collect();
    assert_eq!(found.len(), 1, "{} has to have its line in this file, once", command.name());
    found[0]
}

/// What a text is answered with as this role, on a console of its own.
fn run_after(first: &[&str], role: AdminRole, text: &str) -> Result<Answer, Refused> {
    let console = console();
    let of = |role| Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role };
    let done = rt::block_on(async {
        for text in first {
            run(&console, &of(AdminRole::Admin), text, &[]).await.expect(text);
        }
        run(&console, &of(role), text, &[]).await
    });
    done.unwrap()
}

#[test]
fn every_command_answers_and_keeps_out_too_small_a_role() {
    for command in COMMANDS {
        let sample = sample_of(command);
        let is_known = !sample.right.is_empty() || !sample.beyond.is_empty() || sample.name == "REJOIN";
        assert!(is_known, "{}", sample.name);
        assert_eq!(command.beyond.is_some(), !sample.beyond.is_empty(), "{}", sample.name);
        let beyond = command.beyond.map_or(AdminRole::Admin, |beyond| beyond.role);
        let right = sample.right.iter().map(|text| (*text, command.role));
        for (text, needed) in right.chain(sample.beyond.iter().map(|text| (*text, beyond))) {
            for role in AdminRole::ALL {
                let answer = run_after(sample.first, role, text);
                if role >= needed {
                    assert!(answer.is_ok(), "{text} as {role:?}: {answer:?}");
                } else {
                    let refused = answer.expect_err(text);
                    assert!(
                        refused.code == 1227 && refused.text.contains(needed.as_str()),
                        "{text}: {refused:?}"
                    );
                }
            }
        }
    }
    assert_eq!(samples().count(), COMMANDS.len(), "a line here is of no command");
}

#[test]
fn every_command_says_what_is_wrong_with_its_arguments() {
    for command in COMMANDS {
        let wrong = sample_of(command).wrong;
        assert!(!wrong.is_empty() || command.name() == "USE", "{}", command.name());
        for text in wrong {
            let refused = run_as(AdminRole::Admin, text).expect_err(text);
            assert!([1054, 1064, 1105, 1146].contains(&refused.code), "{text}: {refused:?}");
            assert!(
                refused.text.starts_with("Delphinus: ") && refused.text.len() < 500,
                "{text}: {refused:?}"
            );
        }
    }
}

#[test]
fn what_changes_something_is_no_viewers_and_is_in_the_audit() {
    for command in COMMANDS {
        assert!(command.group != Group::Change || command.role > AdminRole::Viewer, "{}", command.name());
        assert!(command.beyond.is_none_or(|beyond| beyond.role > command.role), "{}", command.name());
        if let Run::Table(source) = command.run {
            assert_eq!(command.role, source.role, "{}", command.name());
        }
        let console = console();
        let sample = sample_of(command);
        let of = |role| Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role };
        rt::block_on(async {
            for text in sample.first {
                run(&console, &of(AdminRole::Admin), text, &[]).await.expect(text);
            }
            for text in sample.right.iter().chain(sample.beyond) {
                run(&console, &of(AdminRole::Admin), text, &[]).await.expect(text);
                let before = noted(&console).await.len();
                let refused = run(&console, &of(AdminRole::Viewer), text, &[]).await.is_err();
                assert_eq!(noted(&console).await.len() - before, usize::from(refused), "{text}");
            }
        })
        .unwrap();
        let texts = if command.group == Group::Change { sample.right } else { &[] };
        let changes = texts.iter().chain(sample.first).chain(sample.beyond).count();
        let done = rt::block_on(noted(&console)).unwrap();
        let done: Vec<_> =
            done.iter().filter(|row| !row[6].as_deref().unwrap().starts_with("error")).collect();
        assert_eq!(done.len(), changes, "{}: {done:?}", command.name());
    }
}

/// The table `audit`.
async fn noted(console: &Console) -> Vec<Vec<Option<String>>> {
    let rows = crate::audit::AUDIT.fill(console, None).await.unwrap();
    rows.iter().map(|row| row.iter().map(Cell::to_text).collect()).collect()
}

#[test]
fn the_audit_tells_who_what_and_the_result_without_secrets() {
    let console = console();
    let caller = Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role: AdminRole::Admin };
    rt::block_on(async {
        for text in ["SET USER app password = 's3cret'", "SHOW USERS", "KILL 7", "SET NAMES utf8mb4"] {
            let _ = run(&console, &caller, text, &[]).await;
        }
        let viewer = Caller { role: AdminRole::Viewer, ..caller.clone() };
        for text in ["SELECT * FROM audit", "SHOW AUDIT", "KILL 7"] {
            assert!(run(&console, &viewer, text, &[]).await.is_err(), "{text}");
        }
        let rows = noted(&console).await;
        let told: Vec<_> = rows
            .iter()
            .map(|row| row[2..7].iter().flatten().map(String::as_str).collect::<Vec<_>>())
            .collect();
        let expected: [Vec<&str>; 5] = [
            vec!["ops", "h", "admin", "SET USER app password = (hidden)", "1 row"],
            vec!["ops", "h", "admin", "KILL 7", "error 1094: Unknown thread id: 7"],
            vec![
                "ops",
                "h",
                "viewer",
                "SELECT * FROM audit",
                "error 1142: Access denied; you need the role 'operator' for the table audit",
            ],
            vec![
                "ops",
                "h",
                "viewer",
                "SHOW AUDIT",
                "error 1227: Access denied; you need the role 'operator' for SHOW AUDIT",
            ],
            vec![
                "ops",
                "h",
                "viewer",
                "KILL 7",
                "error 1227: Access denied; you need the role 'operator' for KILL",
            ],
        ];
        assert_eq!(told, expected);
    })
    .unwrap();
}

/// What stands behind a name to break something.
fn hostile() -> Vec<Vec<u8>> {
    let many = |text: &str, count: usize| text.repeat(count).into_bytes();
    vec![
        many("x", 60_000),
        many("x y ", 15_000),
        [b"'".to_vec(), many("x", 60_000)].concat(),
        many("'", 59_999),
        many("a = 1, ", 8_000),
        many("=[,]", 15_000),
        many("(", 60_000),
        many("%a_", 20_000),
        [b"LIKE '".to_vec(), many("%a", 29_000), b"b'".to_vec()].concat(),
        many("/*", 30_000),
        many("/**/", 15_000),
        many("-- \n", 15_000),
        many("; SHOW", 9_000),
        many("?", 60_000),
        b"\0".to_vec(),
        b"'\0' = \0, \0\0\0".to_vec(),
        b"\xff\xfe\xc3\x28 = '\xf0\x28\x8c\xbc".to_vec(),
        b"' \" ` '' \"\" ```".to_vec(),
        b"/* /* x */ */ 'y' /*! z */ /*+ u */ /*".to_vec(),
        b"99999999999999999999999999 -1 18446744073709551616".to_vec(),
        "\u{202e}\u{1b}[2J\r\n\t\u{0}\u{fffd}".as_bytes().to_vec(),
    ]
}

/// Each packet is whole; the first one begins like this.
fn first_byte(name: &str, packets: &[u8]) -> u8 {
    let mut rest = packets;
    while let [a, b, c, _, behind @ ..] = rest {
        let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        rest = behind.get(length..).unwrap_or_else(|| panic!("{name}: a packet is cut"));
    }
    assert!(rest.is_empty() && packets.len() < 4 << 20, "{name}: {} bytes", packets.len());
    packets[4]
}

/// What the text is answered with, and that it does not take long: a tenth of a second, or more on a busy machine.
async fn answered(connection: &mut Connection<'_>, (name, tail): (&str, &[u8])) -> u8 {
    let mut text = vec![3];
    text.extend_from_slice(name.as_bytes());
    text.push(b' ');
    text.extend_from_slice(tail);
    let begun = Instant::now();
    let answer = connection.answer(&text).await.expect("a command does not end the connection");
    let shown = String::from_utf8_lossy(&tail[..tail.len().min(20)]).into_owned();
    assert!(begun.elapsed() < Duration::from_secs(10), "{name} {shown} took {:?}", begun.elapsed());
    first_byte(name, &answer)
}

#[test]
fn hostile_input_does_nothing_and_takes_no_time() {
    let console = console();
    let capabilities = Capabilities::PROTOCOL_41 | Capabilities::MULTI_STATEMENTS;
    let caller = Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role: AdminRole::Admin };
    let mut connection = Connection::new(&console, caller, capabilities);
    rt::block_on(async {
        let tails = hostile();
        for command in COMMANDS {
            let name = command.name();
            for tail in &tails {
                let first = answered(&mut connection, (name, tail)).await;
                let is_several = tail.starts_with(b";");
                let is_refused = first == 0xff || command.group != Group::Change || is_several;
                assert!(is_refused, "{name} {:?}", String::from_utf8_lossy(&tail[..tail.len().min(40)]));
            }
        }
        // Before a name, and in its place.
        for tail in &tails {
            assert_eq!(answered(&mut connection, ("", tail)).await, 0xff);
        }
        for table in catalog().iter() {
            for tail in &tails {
                let text = format!("SELECT * FROM {} WHERE", table.name);
                assert_eq!(answered(&mut connection, (&text, tail)).await, 0xff, "{text}");
            }
        }
        // It has come to no harm.
        assert_ne!(answered(&mut connection, ("SHOW USERS", b"")).await, 0xff);
    })
    .unwrap();
}

/// All answers to a text are kept until the last one is made: together they have a limit.
#[test]
fn the_answers_to_one_text_have_a_limit_together() {
    let console = console();
    let capabilities = Capabilities::PROTOCOL_41 | Capabilities::MULTI_STATEMENTS;
    let caller = Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role: AdminRole::Viewer };
    let mut connection = Connection::new(&console, caller, capabilities);
    // 20 MB each.
    let large = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) \
                 SELECT hex(zeroblob(100000)) FROM n";
    let text = format!("\x03{}", [large; 4].join(";"));
    let answer = rt::block_on(async { connection.answer(text.as_bytes()).await }).unwrap().unwrap();
    assert!(answer.len() < 2 * delphinus_tables::MAX_ANSWER_BYTES, "{} bytes", answer.len());
    let (mut rest, mut rows, mut last) = (&answer[..], 0, 0);
    while let [a, b, c, _, first, ..] = rest {
        (rows, last) = (rows + usize::from(*first == 0xfd), *first);
        rest = &rest[4 + u32::from_le_bytes([*a, *b, *c, 0]) as usize..];
    }
    // Two answers, and the error in the place of the third.
    assert_eq!((rows, last), (200, 0xff));
}

#[test]
fn every_table_answers_refuses_wrong_columns_and_keeps_out_too_small_a_role() {
    for table in catalog().iter() {
        let read = format!("SELECT * FROM {}", table.name);
        let wrong = run_as(AdminRole::Admin, &format!("SELECT no_such FROM {}", table.name)).unwrap_err();
        assert_eq!(wrong.code, 1054, "{}", table.name);
        // A view is made of tables; what these ask for, it asks for.
        let needed = match SOURCES.iter().find(|source| source.table.name == table.name) {
            Some(source) => source.role,
            None => AdminRole::Viewer,
        };
        for role in AdminRole::ALL {
            let answer = run_as(role, &read);
            match answer {
                Ok(Answer::Rows(_)) if role >= needed => {}
                Err(refused) if role < needed && refused.code == 1142 => {}
                other => panic!("{} as {role:?}: {other:?}", table.name),
            }
        }
    }
}
