//! A relay in the proxy's process is the only one that acknowledges, and the primary waits for it without end. A planned move takes it
//! along. What a lost primary had acknowledged is on the relay alone, and gets to the new one from there.

use delphinus_e2e::until;
use delphinus_sandbox::Flavor;

use super::failover::{clients, words};
use super::load::Load;
use super::support::{LIMIT, Scene};

pub(crate) fn a_relay_alone_acknowledges(scene: &mut Scene) {
    begin(scene);
    let checks = scene.rows("SWITCHOVER CHECK");
    assert!(checks.iter().all(|row| row[2] != "failed"), "{checks:#?}");
    let says = |text: &str| checks.iter().flatten().any(|cell| cell.contains(text));
    assert!(says("main acknowledges to primary") && says("1 of 1 relays without end"), "{checks:#?}");
    let load = Load::start(&scene.stage.address, 2);
    for to in ["replica1", "primary"] {
        load.go_on();
        scene.rows(&format!("SWITCHOVER TO {to}"));
        load.go_on();
        assert_alone_waits(scene, to);
    }
    let acknowledged = load.end();
    scene.assert_has(&acknowledged, None);
    what_the_relay_alone_has_survives(scene);
    end(scene);
}

/// Nothing acknowledges yet, and no server waits.
fn begin(scene: &Scene) {
    let mut operator = scene.operator();
    operator.query("RELAY START main").unwrap();
    let acknowledges = || Ok(scene.rows("SELECT acknowledging FROM relays")[0][0] == "1");
    until(LIMIT, "the relay to acknowledge", acknowledges).unwrap();
    wait_for_ever(scene);
    until(LIMIT, "the primary to know the relay", || Ok(clients(scene, "primary")? == 1)).unwrap();
    operator.query("SET cluster.failover.relays = ['main']").unwrap();
}

/// Commits on the primary wait for a relay, with no end.
pub(crate) fn wait_for_ever(scene: &Scene) {
    let [source, replica] = words(scene);
    let for_ever = if scene.flavor == Flavor::MariaDb { u64::MAX } else { u64::from(u32::MAX) };
    let sql = format!(
        "SET GLOBAL rpl_semi_sync_{source}_timeout = {for_ever}; \
         SET GLOBAL rpl_semi_sync_{source}_wait_no_{replica} = ON; \
         SET GLOBAL rpl_semi_sync_{source}_wait_point = 'AFTER_SYNC'; \
         SET GLOBAL rpl_semi_sync_{source}_enabled = 1"
    );
    scene.server("primary").query(&sql).unwrap();
}

fn assert_alone_waits(scene: &Scene, name: &str) {
    let [source, _] = words(scene);
    let sql = format!("SELECT @@global.rpl_semi_sync_{source}_enabled");
    for server in &scene.stage.cluster.servers {
        let wanted = if server.name == name { "1" } else { "0" };
        until(LIMIT, &format!("semi-sync of {} to be {wanted}", server.name), || {
            Ok(server.query(&sql)?.trim() == wanted)
        })
        .unwrap();
    }
    assert_relay_follows(scene, name);
}

fn assert_relay_follows(scene: &Scene, name: &str) {
    let row = &scene.rows("SELECT acknowledging, source FROM relays")[0];
    assert_eq!(row, &["1", name]);
    assert_eq!(clients(scene, name).unwrap(), 1);
}

/// Both replicas have stopped receiving when the primary writes, and is lost.
fn what_the_relay_alone_has_survives(scene: &mut Scene) {
    let io = if scene.flavor == Flavor::MariaDb { "SLAVE" } else { "REPLICA" };
    for name in ["replica1", "replica2"] {
        scene.server(name).query(&format!("STOP {io} IO_THREAD")).unwrap();
    }
    let mut client = scene.stage.address.connect().unwrap();
    client.query("INSERT INTO app.kept VALUES (-31), (-32)").unwrap();
    client.query("INSERT INTO app.kept VALUES (-33)").unwrap();
    until_looked_at(scene, "primary");
    scene.server_mut("primary").kill9();
    scene.until_down("primary");
    let told = scene.rows("FAILOVER");
    let mut steps = told.iter().map(|row| row[2].as_str());
    for wanted in ["cut the relay", "drain the relay", "have the relay acknowledge", "take writes"] {
        assert!(steps.any(|step| step == wanted), "{wanted}: {told:#?}");
    }
    let next = scene.primary();
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (-34)").unwrap();
    let count = || scene.server(&next).query("SELECT COUNT(*) FROM app.kept WHERE value BETWEEN -34 AND -31");
    assert_eq!(count().unwrap().trim(), "4");
    assert_relay_follows(scene, &next);
    // It has nothing of its own.
    scene.server_mut("primary").start_again().unwrap();
    scene.assert_primary(&next);
    scene.rows("SWITCHOVER TO primary");
    scene.assert_primary("primary");
    assert_alone_waits(scene, "primary");
}

/// The proxy has seen how this primary waits: it looks once a second, and asks this nowhere else.
pub(crate) fn until_looked_at(scene: &Scene, primary: &str) {
    let asked = || -> anyhow::Result<u64> {
        let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_show_replicas', 'Com_show_slave_hosts')";
        let said = scene.server(primary).query(sql)?;
        let counts = said.lines().filter_map(|line| line.rsplit('\t').next()?.parse().ok());
        // Two names of one count, where the server has both.
        Ok(counts.max().unwrap_or_default())
    };
    let before = asked().unwrap();
    // The look after a look has begun when that one is over.
    until(LIMIT, "the proxy to look at the primary", || Ok(asked()? >= before + 2)).unwrap();
}

/// As it was.
fn end(scene: &Scene) {
    let mut operator = scene.operator();
    operator.query("SET cluster.failover.relays = []").unwrap();
    let [source, _] = words(scene);
    scene.server("primary").query(&format!("SET GLOBAL rpl_semi_sync_{source}_enabled = 0")).unwrap();
    // A failover gives the next primary what the proxy has seen last.
    until_looked_at(scene, "primary");
    operator.query("RELAY STOP main").unwrap();
}
