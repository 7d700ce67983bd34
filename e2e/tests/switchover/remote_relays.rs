//! Two relays, each a process of its own, are the only ones that acknowledge, and the primary waits for one of them without end. The
//! proxy takes them along in planned moves, and cuts both off from a primary that is lost. A cut outlives the process that was cut. One
//! that is away while the role moves is told when it is back. The same of one in a proxy that follows the cluster itself, and has other
//! names for its backends.

use std::time::Duration;
use std::{fs, thread};

use delphinus_e2e::relays::RelayProcess;
use delphinus_e2e::{Client, Operators, until};
use delphinus_sandbox::{Flavor, PortLease};

use super::failover::{clients, words};
use super::load::Load;
use super::relayed::{until_looked_at, wait_for_ever};
use super::support::{LIMIT, Scene};

const NAMES: [&str; 3] = ["one", "two", "three"];

/// A relay in a process of its own, with an admin listener.
struct Remote {
    name: &'static str,
    relay: RelayProcess,
    operators: Operators,
    _admin: PortLease,
}

impl Remote {
    /// One with a source of its own, which may be turned to the other servers.
    fn start(scene: &Scene, (name, server_id): (&'static str, u32), admin: PortLease) -> Self {
        let source = format!("source = \"{}\"", at(scene, "primary"));
        let others =
            scene.stage.cluster.servers.iter().map(|server| format!("\"{}\"", at(scene, &server.name)));
        let may_follow = format!("may_follow = [{}]", others.collect::<Vec<_>>().join(", "));
        Self::start_behind(scene, (name, server_id), admin, &[&source, &may_follow], "")
    }

    /// One that follows the cluster, in a proxy where each server is called `far-` and its name.
    fn start_in_a_proxy(scene: &Scene, (name, server_id): (&'static str, u32), admin: PortLease) -> Self {
        let cluster = &scene.stage.cluster;
        let sections = format!(
            "[[listener]]\naddress = \"unix:{}\"\n[[user]]\nname = \"{}\"\npassword = \"{}\"\n\
             [monitor]\nuser = \"{}\"\npassword = \"{}\"\ninterval_ms = 200\n[cluster]\ntopology = \"read_only\"\n",
            cluster.dir().join("far-clients.sock").display(),
            cluster.app_user,
            cluster.app_password,
            cluster.monitor_user,
            cluster.monitor_password
        );
        let backends = cluster.servers.iter().map(|server| {
            let address = at(scene, &server.name);
            format!("[[cluster.backend]]\nname = \"far-{}\"\naddress = \"{address}\"\n", server.name)
        });
        let sections = sections + &backends.collect::<String>();
        Self::start_behind(scene, (name, server_id), admin, &["cluster = \"main\""], &sections)
    }

    fn start_behind(
        scene: &Scene,
        (name, server_id): (&'static str, u32),
        admin: PortLease,
        source: &[&str],
        sections: &str,
    ) -> Self {
        let operators = Operators::default();
        let lines = [sections, &operators.section_with_tcp(admin.port())];
        let dir = scene.stage.cluster.dir();
        let relay = RelayProcess::start_behind(dir, name, (&source.join("\n"), server_id), &lines).unwrap();
        Self { name, relay, operators, _admin: admin }
    }

    /// Waits for a process that has just started.
    fn operator(&self, scene: &Scene) -> Client {
        let mut client = None;
        until(LIMIT, &format!("the operators' side of {}", self.name), || {
            client = self.operators.connect(&scene.stage.address).ok();
            Ok(client.is_some())
        })
        .unwrap();
        client.unwrap()
    }

    /// These columns of its row in SHOW RELAY FENCES.
    fn fence(&self, scene: &Scene, columns: &str) -> Vec<String> {
        let sql = format!("SELECT {columns} FROM relay_fences WHERE name = '{}'", self.name);
        let rows = self.operator(scene).rows(&sql).unwrap();
        rows[0].iter().map(|cell| cell.clone().unwrap_or_default()).collect()
    }

    fn acknowledges_to(&self, scene: &Scene, server: &str) {
        until(LIMIT, &format!("{} to acknowledge to {server}", self.name), || {
            let row = self.fence(scene, "acknowledging, follows, follows_address");
            Ok(row[0] == "1" && (row[1] == server || row[2] == at(scene, server)))
        })
        .unwrap();
    }
}

/// A server's address, as the relay's section has it at first.
fn at(scene: &Scene, server: &str) -> String {
    format!("127.0.0.1:{}", scene.server(server).port)
}

pub(crate) fn they_count(flavor: Flavor) {
    let admins = NAMES.map(|_| PortLease::take().unwrap());
    let sections = [0, 1, 2].map(|n| Operators::remote_relay(NAMES[n], admins[n].port())).concat();
    let mut scene = Scene::with(flavor, &[], sections);
    let [one, two, third_admin] = admins;
    let mut relays = [(NAMES[0], 991, one), (NAMES[1], 992, two)]
        .map(|(name, id, admin)| Remote::start(&scene, (name, id), admin));
    for one in &relays {
        one.acknowledges_to(&scene, "primary");
    }
    wait_for_ever(&scene);
    until(LIMIT, "the primary to know both", || Ok(clients(&scene, "primary")? == 2)).unwrap();
    a_cut_outlives_its_process(&scene, &mut relays);
    scene.operator().query("SET cluster.failover.relays = ['one', 'two']").unwrap();
    let checks = scene.rows("SWITCHOVER CHECK");
    let says = |text: &str| checks.iter().flatten().any(|cell| cell.contains(text));
    assert!(checks.iter().all(|row| row[2] != "failed"), "{checks:#?}");
    assert!(says("one acknowledges to primary") && says("1 of 2 relays without end"), "{checks:#?}");
    // Nobody has named the third one yet, which does not run either.
    assert_eq!(doctor(&scene), ["remote_relay_unnamed three"]);
    let load = Load::start(&scene.stage.address, 2);
    for to in ["replica1", "primary"] {
        load.go_on();
        scene.rows(&format!("SWITCHOVER TO {to}"));
        load.go_on();
        for one in &relays {
            one.acknowledges_to(&scene, to);
        }
    }
    let acknowledged = load.end();
    scene.assert_has(&acknowledged, None);
    another_name_is_no_other_server(&scene, &relays);
    one_that_was_away_follows(&scene, &mut relays);
    what_one_of_them_has_survives(&mut scene, &mut relays);
    for one in relays {
        one.operator(&scene).query(&format!("RELAY STOP {}", one.name)).unwrap();
        assert!(doctor(&scene).contains(&format!("remote_relay_not_acknowledging {}", one.name)));
        drop(one);
    }
    in_another_proxy(&mut scene, third_admin);
}

/// What `DOCTOR` finds about relays of other processes.
fn doctor(scene: &Scene) -> Vec<String> {
    let rows = scene.rows("SELECT check_name, object FROM doctor WHERE check_name LIKE 'remote_relay%'");
    rows.iter().map(|row| format!("{} {}", row[0], row[1].trim_start_matches("remote_relay "))).collect()
}

/// The relay that acknowledges is part of another proxy, which follows the cluster, too.
fn in_another_proxy(scene: &mut Scene, admin: PortLease) {
    scene.operator().query("SET cluster.failover.relays = ['three']").unwrap();
    assert!(doctor(scene).contains(&"remote_relay_silent three".to_owned()));
    let mut three = Remote::start_in_a_proxy(scene, (NAMES[2], 993), admin);
    let first = scene.primary();
    three.acknowledges_to(scene, &first);
    // What waits for the others goes on.
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (-40)").unwrap();
    assert!(!doctor(scene).iter().any(|found| found.ends_with("three")), "{:?}", doctor(scene));
    let checks = scene.rows("SWITCHOVER CHECK");
    assert!(checks.iter().all(|row| row[2] != "failed"), "{checks:#?}");
    let to = ["primary", "replica1", "replica2"].into_iter().find(|name| *name != first).unwrap();
    let load = Load::start(&scene.stage.address, 2);
    load.go_on();
    scene.rows(&format!("SWITCHOVER TO {to}"));
    load.go_on();
    three.acknowledges_to(scene, to);
    let [follows] = three.fence(scene, "follows").try_into().unwrap();
    assert_eq!(follows, format!("far-{to}"), "by its address");
    let acknowledged = load.end();
    scene.assert_has(&acknowledged, None);
    // It finds the primary itself.
    three.relay.kill_and_start_again().unwrap();
    three.acknowledges_to(scene, to);
    what_it_alone_has_survives(scene, &mut three, to);
}

/// No replica receives when the primary writes, and is lost.
fn what_it_alone_has_survives(scene: &mut Scene, three: &mut Remote, primary: &str) {
    let io = words(scene)[1].to_uppercase();
    for server in scene.stage.cluster.servers.iter().filter(|server| server.name != primary) {
        server.query(&format!("STOP {io} IO_THREAD")).unwrap();
    }
    until(LIMIT, "the primary to know it", || Ok(clients(scene, primary)? == 1)).unwrap();
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (-41), (-42)").unwrap();
    until_looked_at(scene, primary);
    scene.server_mut(primary).kill9();
    scene.until_down(primary);
    let told = scene.rows("FAILOVER");
    let mut steps = told.iter().map(|row| row[2].as_str());
    for wanted in ["cut the relay", "drain the relay", "have the relay acknowledge", "take writes"] {
        assert!(steps.any(|step| step == wanted), "{wanted}: {told:#?}");
    }
    let next = scene.primary();
    assert_ne!(next, primary);
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (-43)").unwrap();
    let count = || scene.server(&next).query("SELECT COUNT(*) FROM app.kept WHERE value BETWEEN -43 AND -40");
    assert_eq!(count().unwrap().trim(), "4");
    three.acknowledges_to(scene, &next);
    three.relay.kill_and_start_again().unwrap();
    three.acknowledges_to(scene, &next);
    assert!(!three.fence(scene, "refused")[0].is_empty());
}

/// Both are cut, and killed before anything else is said to them: they acknowledge nothing when they run again.
fn a_cut_outlives_its_process(scene: &Scene, relays: &mut [Remote; 2]) {
    let primary = at(scene, "primary");
    let mut words = Vec::new();
    for one in relays.iter_mut() {
        let mut operator = one.operator(scene);
        let [epoch, identity] = one.fence(scene, "epoch, acknowledges_to").try_into().unwrap();
        let name = one.name;
        let late = format!("RELAY CUT {name} BY MOVE EPOCH {}", epoch.parse::<u64>().unwrap() + 1);
        assert!(operator.error(&late).unwrap().message.contains("it was not cut"));
        operator.query(&format!("RELAY CUT {name} BY MOVE EPOCH {epoch}")).unwrap();
        one.relay.kill_and_start_again().unwrap();
        let [cut_by, on_disk, refused, epoch] =
            one.fence(scene, "cut_by, on_disk, refused, epoch").try_into().unwrap();
        assert_eq!(
            [&*cut_by, &*on_disk, &*refused],
            ["move", "1", &*identity],
            "{name} has forgotten the cut"
        );
        words.push(format!(
            "RELAY TURN {name} TO 'primary' AT '{primary}' IDENTITY '{identity}' EPOCH {epoch}"
        ));
    }
    until(LIMIT, "the primary to be alone", || Ok(clients(scene, "primary")? == 0)).unwrap();
    let mut client = scene.client_of("primary");
    let waits = thread::spawn(move || client.query("INSERT INTO app.kept VALUES (-30)").map(drop));
    let sql =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for semi-sync ACK%'";
    until(LIMIT, "a commit to wait", || Ok(scene.server("primary").query(sql)?.trim() == "1")).unwrap();
    for one in relays.iter() {
        let acks = one.operator(scene).value("SELECT acks FROM relays").unwrap();
        assert_eq!(acks, "0", "{} has acknowledged to a server that it was cut off from", one.name);
    }
    assert!(!waits.is_finished());
    for (one, word) in relays.iter().zip(&words) {
        one.operator(scene).query(word).unwrap();
        // The answer may have been lost: it is said again, and is done. A late word of another server is refused.
        let epoch = one.fence(scene, "epoch");
        one.operator(scene).query(word).unwrap();
        let late = word.replace("IDENTITY '", "IDENTITY 'not-");
        assert!(one.operator(scene).error(&late).unwrap().message.contains("cut again"), "{late}");
        assert_eq!(one.fence(scene, "epoch"), epoch);
        one.acknowledges_to(scene, "primary");
    }
    waits.join().unwrap().unwrap();
    until(LIMIT, "the primary to know both", || Ok(clients(scene, "primary")? == 2)).unwrap();
}

/// Relays follow addresses. They are turned to no backend that had this one's address under another name.
fn another_name_is_no_other_server(scene: &Scene, relays: &[Remote; 2]) {
    let address = at(scene, "replica1");
    let rename = |from: &str, to: &str| {
        scene.rows(&format!("REMOVE BACKEND {from}"));
        scene.rows(&format!("ADD BACKEND {to} address = '{address}'"));
        let is_up = || Ok(scene.operators.backend(&scene.stage.address, to)?.state == "up");
        until(LIMIT, "the backend by its other name", is_up).unwrap();
    };
    let turned = || scene.rows("SELECT COUNT(*) FROM switchovers WHERE requested_by = 'relays'");
    rename("replica1", "renamed");
    scene.rows("SWITCHOVER TO renamed");
    for one in relays {
        one.acknowledges_to(scene, "replica1");
    }
    let before = turned();
    // It would have turned them by then.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(turned(), before, "{:?}", scene.rows("SHOW SWITCHOVERS"));
    scene.rows("SWITCHOVER TO primary");
    for one in relays {
        one.acknowledges_to(scene, "primary");
    }
    rename("renamed", "replica1");
}

/// It is killed when the move has begun, and the other one is enough. It comes back and follows whom it has followed before.
fn one_that_was_away_follows(scene: &Scene, [other, away]: &mut [Remote; 2]) {
    without(scene, away, ("replica1", -50));
    away.relay.process.start_again().unwrap();
    away.acknowledges_to(scene, "replica1");
    // Its disk takes no word of whom it is to follow: it is told once, and not again and again.
    without(scene, away, ("primary", -51));
    let blocked = away.relay.folder.join("epoch.toml.new");
    fs::create_dir(&blocked).unwrap();
    scene.operator().query("SET cluster.failover.step_timeout_ms = 1000").unwrap();
    let told = || {
        let sql = "SELECT MAX(number) FROM switchovers WHERE requested_by = 'relays' AND state <> 'running'";
        scene.rows(sql)[0][0].parse::<u64>().unwrap_or_default()
    };
    let before = told();
    away.relay.process.start_again().unwrap();
    until(LIMIT, "the proxy to tell it", || Ok(told() > before)).unwrap();
    let once = told();
    for _ in 0..2 {
        until_looked_at(scene, "primary");
    }
    assert_eq!(told(), once, "{:?}", scene.rows("SHOW SWITCHOVERS"));
    scene.operator().query("SET cluster.failover.step_timeout_ms = 10000").unwrap();
    fs::remove_dir(&blocked).unwrap();
    let (identity, epoch) = (&other.fence(scene, "acknowledges_to")[0], &away.fence(scene, "epoch")[0]);
    let (name, address) = (away.name, at(scene, "primary"));
    let word = format!("RELAY TURN {name} TO 'primary' AT '{address}' IDENTITY '{identity}' EPOCH {epoch}");
    away.operator(scene).query(&word).unwrap();
    away.acknowledges_to(scene, "primary");
}

/// The role moves while this relay is away.
fn without(scene: &Scene, away: &mut Remote, (to, value): (&str, i64)) {
    let mut open = scene.stage.address.connect().unwrap();
    open.query("BEGIN").unwrap();
    open.query(&format!("INSERT INTO app.kept VALUES ({value})")).unwrap();
    let (mut operator, command) = (scene.operator(), format!("SWITCHOVER TO {to}"));
    let sql = "SELECT COUNT(*) FROM switchovers WHERE state = 'running'";
    // That a relay was told whom to follow is a move, too: a second one is refused until it has ended.
    until(LIMIT, "the end of the move before", || Ok(scene.rows(sql)[0][0] == "0")).unwrap();
    let moves = thread::spawn(move || operator.rows(&command).map(drop));
    until(LIMIT, "the begin of the move", || Ok(scene.rows(sql)[0][0] != "0")).unwrap();
    away.relay.process.kill();
    open.query("COMMIT").unwrap();
    moves.join().unwrap().unwrap();
}

/// No replica receives, and one relay stands still, when the primary writes, and is lost.
fn what_one_of_them_has_survives(scene: &mut Scene, relays: &mut [Remote; 2]) {
    let io = words(scene)[1].to_uppercase();
    for name in ["replica1", "replica2"] {
        scene.server(name).query(&format!("STOP {io} IO_THREAD")).unwrap();
    }
    relays[1].operator(scene).query("RELAY STOP two").unwrap();
    let mut client = scene.stage.address.connect().unwrap();
    client.query("INSERT INTO app.kept VALUES (-31), (-32)").unwrap();
    client.query("INSERT INTO app.kept VALUES (-33)").unwrap();
    until_looked_at(scene, "primary");
    scene.server_mut("primary").kill9();
    scene.until_down("primary");
    // One of two is not enough.
    relays[1].relay.process.kill();
    let refused = scene.refused("FAILOVER").message;
    assert!(refused.contains("1 of the 2 relays can be asked"), "{refused}");
    assert!(
        refused.contains("relay two: 127.0.0.1:") && refused.contains("see that its process runs"),
        "{refused}"
    );
    relays[1].relay.process.start_again().unwrap();
    drop(relays[1].operator(scene));
    let told = scene.rows("FAILOVER");
    let of = |step: &str| told.iter().filter(|row| row[2] == step).collect::<Vec<_>>();
    assert_eq!(of("cut the relay").len(), 2, "{told:#?}");
    let from = of("drain the relay").into_iter().flatten().any(|cell| cell == "follows one");
    assert!(from, "it has most: {told:#?}");
    let next = scene.primary();
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (-34)").unwrap();
    let count = || scene.server(&next).query("SELECT COUNT(*) FROM app.kept WHERE value BETWEEN -34 AND -31");
    assert_eq!(count().unwrap().trim(), "4");
    for one in relays.iter_mut() {
        one.acknowledges_to(scene, &next);
        one.relay.kill_and_start_again().unwrap();
        one.acknowledges_to(scene, &next);
        assert!(!one.fence(scene, "refused")[0].is_empty());
    }
    // The old one has nothing of its own, and waits for nobody.
    scene.server_mut("primary").start_again().unwrap();
    scene.assert_primary(&next);
    assert_eq!(clients(scene, "primary").unwrap(), 0);
}
