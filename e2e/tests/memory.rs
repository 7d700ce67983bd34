//! Memory: what a client makes the proxy keep has a limit, and what is beyond it stays on the server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{ConfigFile, Stage, until};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Param};

fn connect(stage: &Stage) -> Client {
    stage.address.login().connect().unwrap()
}

fn value(client: &mut Client, sql: &str) -> String {
    let row = client.run(sql).unwrap().remove(0).rows().unwrap().remove(0);
    String::from_utf8(row[0].clone().unwrap_or_default()).unwrap()
}

fn resident_mib(stage: &mut Stage) -> u64 {
    stage.proxy().unwrap().resident_kib().unwrap() / 1024
}

#[test]
fn what_is_kept_is_limited_on_mariadb() {
    check(Flavor::MariaDb);
}

#[test]
fn what_is_kept_is_limited_on_mysql() {
    check(Flavor::MySql);
}

fn check(flavor: Flavor) {
    let proxy = vec!["memory_limit = 33554432".to_owned()];
    let config = ConfigFile { proxy, ..ConfigFile::with_pool(&["max_connections = 3"]) };
    let mut stage = Stage::with(flavor, &config).unwrap();
    user_variables(&mut stage);
    many_user_variables(&stage);
    long_answers_without_room(&stage);
}

/// What the proxy asks may have long answers. Where others have taken all the room, the sessions that this is about go on.
fn long_answers_without_room(stage: &Stage) {
    let mut wide = connect(stage);
    wide.run("CREATE TABLE app.one (a INT PRIMARY KEY)").unwrap();
    wide.run("CREATE TABLE app.held (a INT)").unwrap();
    wide.run("INSERT INTO app.one VALUES (5)").unwrap();
    let list: Vec<String> = (0..4_000).map(|number| format!("a AS c{number}")).collect();
    let prepared =
        wide.prepare(format!("SELECT {} FROM app.one FOR UPDATE", list.join(", "))).unwrap().unwrap();
    let in_pieces = wide.prepare("SELECT LENGTH(?)").unwrap().unwrap();
    let _held = take_all_room(stage);
    // One of them has the connection on which the statement is prepared.
    for number in 0..3 {
        let mut others = [connect(stage), connect(stage), connect(stage)];
        for other in &mut others {
            other.run("BEGIN").unwrap();
            other.run("INSERT INTO app.held VALUES (1)").unwrap();
        }
        others[(number + 1) % 3].run("COMMIT").unwrap();
        let mut replies = wide.execute(prepared.id, &[], true).unwrap();
        assert_eq!(replies.remove(0).rows().unwrap().len(), 1, "{number}");
    }
    variables_without_room(stage);
    warnings_without_room(stage);
    piece_without_room(&mut wide, in_pieces.id);
}

/// COM_STMT_SEND_LONG_DATA has no answer: the error is that of the execution, and each command gets its own answer afterwards.
fn piece_without_room(client: &mut Client, id: u32) {
    client.send_long_data(id, 0, &vec![b'x'; 200 << 10]).unwrap();
    let mut execute =
        |value: &[u8]| client.execute(id, &[Param::Bytes(value.to_vec())], true).unwrap().remove(0);
    let refused = execute(b"");
    assert_eq!(refused.failure().map(|failure| failure.code), Some(3170), "{refused:?}");
    assert_eq!(execute(b"four").rows().unwrap(), [[Some(b"4".to_vec())]]);
}

/// They stay where they are, and the session with them.
fn variables_without_room(stage: &Stage) {
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage)]);
    client.run("SET @small = 'small'").unwrap();
    let list: Vec<String> = (0..4).map(|number| format!("@b{number} = REPEAT('x', 60000)")).collect();
    client.run(format!("SET {}", list.join(", "))).unwrap();
    for other in &mut others {
        other.run("SET @b0 = 'of another', @small = 5").unwrap();
    }
    assert_eq!(value(&mut client, "SELECT LENGTH(@b0) + LENGTH(@b3)"), "120000");
    assert_eq!(value(&mut client, "SELECT @small"), "small");
    assert_eq!(value(&mut others[1], "SELECT @b0"), "of another");
}

/// They are lost, and SHOW WARNINGS says so. Who gets the connection notices nothing.
fn warnings_without_room(stage: &Stage) {
    let (mut warned, mut others) = (connect(stage), [connect(stage), connect(stage), connect(stage)]);
    let ten = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
               UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let text = "x".repeat(250);
    // MySQL's own limit is 1024, and not every user may set another one.
    warned.query("SET max_error_count = 1000").unwrap();
    warned
        .run(format!(
            "SELECT SUM(CAST(CONCAT(a.n, '{text}', b.n, c.n) AS SIGNED)) FROM {ten} a, {ten} b, {ten} c, app.one FOR UPDATE"
        ))
        .unwrap();
    for other in &mut others {
        other.run("BEGIN").unwrap();
        other.run("INSERT INTO app.held VALUES (1)").unwrap();
    }
    for other in &mut others {
        other.run("COMMIT").unwrap();
    }
    let failure = format!("{:#}", warned.run("SHOW WARNINGS").unwrap_err());
    assert!(failure.contains("1105"), "{failure}");
    assert_eq!(value(&mut warned, "SELECT 5"), "5");
}

/// Commands of others that do not end have it.
fn take_all_room(stage: &Stage) -> Vec<Client> {
    let len: usize = 250 << 10;
    let mut bytes = len.to_le_bytes()[..3].to_vec();
    bytes.extend([0, 3]);
    bytes.resize(200 << 10, b' ');
    let mut held = Vec::new();
    until(Duration::from_mins(1), "all room is taken", || {
        for _ in 0..20 {
            let mut client = connect(stage);
            client.send_bytes(&bytes)?;
            held.push(client);
        }
        let asked = connect(stage).query(format!("SELECT LENGTH('{}')", "x".repeat(200 << 10)))?;
        Ok(format!("{asked:?}").contains("3170"))
    })
    .unwrap();
    held
}

/// Values that are too long to be read back stay where they are, and the session with them.
fn user_variables(stage: &mut Stage) {
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage)]);
    client.run("SET @small = 'small', @b0 = 'before'").unwrap();
    let before = resident_mib(stage);
    for number in 0..30 {
        client.run(format!("SET @b{number} = REPEAT('x', {})", (7 << 20) + number)).unwrap();
        for other in &mut others {
            other.run(format!("SET @b{number} = 'of another', @small = {number}")).unwrap();
        }
    }
    let after = resident_mib(stage);
    assert!(after < before + 32, "from {before} to {after} MiB");
    for number in 0..30 {
        let found = value(&mut client, &format!("SELECT LENGTH(@b{number})"));
        assert_eq!(found, ((7 << 20) + number).to_string());
    }
    assert_eq!(value(&mut client, "SELECT @small"), "small");
    client.run("SET @s = 'SELECT 5'").unwrap();
    client.run("PREPARE p FROM @s").unwrap();
    assert_eq!(value(&mut client, "EXECUTE p"), "5");
    client.reset_connection().unwrap();
    assert_eq!(value(&mut client, "SELECT CONCAT(IFNULL(@b0, 'none'), IFNULL(@small, 'none'))"), "nonenone");
    for other in &mut others {
        assert_eq!(value(other, "SELECT @b29"), "of another");
    }
}

/// One statement may set more of them than one statement can read back.
fn many_user_variables(stage: &Stage) {
    let (mut client, mut other) = (connect(stage), connect(stage));
    let set = |from: usize, to: usize| {
        let list: Vec<String> = (from..to).map(|number| format!("@v{number} = {number}")).collect();
        format!("SET {}", list.join(", "))
    };
    client.run(set(0, 1500)).unwrap();
    other.run(set(1000, 1500)).unwrap();
    assert_eq!(value(&mut client, "SELECT @v0 + @v1499"), "1499");
    for part in 0..10 {
        client.run(set(part * 1000, part * 1000 + 1000)).unwrap();
        other.run("SET @v0 = 'another'").unwrap();
    }
    assert_eq!(value(&mut client, "SELECT @v0 + @v9999"), "9999");
}
