//! Memory: what a client makes the proxy keep has a limit, and what is beyond it stays on the server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{ConfigFile, Stage};
use delphinus_sandbox::Flavor;
use delphinus_testkit::Client;

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
    let mut stage = Stage::with(flavor, &ConfigFile::with_pool(&["max_connections = 3"])).unwrap();
    user_variables(&mut stage);
    many_user_variables(&stage);
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
