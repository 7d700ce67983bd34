//! A session that has been killed does nothing more: whoever has the answer to KILL may count on that.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, ConfigFile, Stage, until};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Param, Reply};

/// That the bell that tells a session of its end and the client's next command reach its worker in one turn takes several of
/// them: a hundred or more of these.
const ROUNDS: u32 = 1000;

#[test]
fn nothing_is_answered_after_kill() {
    // More workers than cores, all busy, so that they find much at once.
    let config = ConfigFile { proxy: vec!["workers = 4".to_owned()], ..ConfigFile::default() };
    let stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut busy = stage.address.login().connect().unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    busy.ping().unwrap();
                }
            });
        }
        let answered = (0..ROUNDS).filter(|_| answers_after_kill(&stage)).count();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answered, 0, "of {ROUNDS}");
    });
}

/// An error is an answer, too.
fn answers_after_kill(stage: &Stage) -> bool {
    let [mut victim, mut killer] = [(), ()].map(|()| stage.address.login().connect().unwrap());
    killer.run(format!("KILL CONNECTION {}", victim.connection_id())).unwrap();
    victim.ping().is_ok()
}

const NOTICE: Duration = Duration::from_secs(20);

/// The numbers of the servers' threads that run a statement with this mark.
fn threads(stage: &Stage, mark: &str) -> anyhow::Result<Vec<String>> {
    let list =
        format!("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{mark}%' AND USER = 'app'");
    Ok(stage.cluster.servers[0].query(&list)?.lines().map(str::to_owned).collect())
}

/// Sends a text that goes on for ever, and waits until the primary runs it.
fn send_endless(stage: &Stage, sql: &str) -> Client {
    let mut client = stage.address.login().connect().unwrap();
    client.send(&[b"\x03", sql.as_bytes()].concat()).unwrap();
    until(NOTICE, "the statement to run", || Ok(!threads(stage, "mark")?.is_empty())).unwrap();
    client
}

/// A session that is killed between two statements is told nothing: its client would take that for the answer to its next one.
fn an_idle_session_ends_without_a_word(stage: &Stage, flavor: Flavor, killer: &mut Client) {
    for begin in ["DO 1", "BEGIN"] {
        let mut victim = stage.address.login().connect().unwrap();
        victim.run(begin).unwrap();
        let begun = Instant::now();
        killer.run(format!("KILL {}", victim.connection_id())).unwrap();
        assert!(victim.is_at_end(), "{flavor}: {begin}: a packet came before the end");
        assert!(begun.elapsed() < Duration::from_secs(5), "{flavor}: {begin}: {:?}", begun.elapsed());
    }
}

/// The client finds its connection closed at once, and the server has ended the statement with its connection.
fn a_killed_connection_ends(stage: &Stage, flavor: Flavor, killer: &mut Client) {
    let mut endless = vec!["DO SLEEP(60) /*mark*/", "SELECT SLEEP(60) FROM answered_by FOR UPDATE /*mark*/"];
    if flavor == Flavor::MariaDb {
        // Which KILL QUERY does not end while the server reports what changes of the session.
        endless.push("BEGIN NOT ATOMIC LOOP DO 1; END LOOP; END /*mark*/");
    }
    for sql in endless {
        let mut victim = send_endless(stage, sql);
        let begun = Instant::now();
        killer.run(format!("KILL {}", victim.connection_id())).unwrap();
        let told = victim.read_replies();
        assert!(told.is_err(), "{flavor}: {sql}: {told:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{flavor}: {sql}: {:?}", begun.elapsed());
        until(NOTICE, "the statement to end", || Ok(threads(stage, "mark")?.is_empty())).unwrap();
    }
    let mut victim = send_endless(stage, "DO SLEEP(60) /*mark*/");
    killer.run(format!("KILL QUERY {}", victim.connection_id())).unwrap();
    victim.read_replies().unwrap();
    assert!(victim.ping().unwrap().failure().is_none(), "{flavor}: the session goes on after KILL QUERY");
}

#[test]
fn kill_does_what_a_server_does() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let stage = Stage::start(flavor).unwrap();
        let mut killer = stage.address.login().connect().unwrap();
        an_idle_session_ends_without_a_word(&stage, flavor, &mut killer);
        a_killed_connection_ends(&stage, flavor, &mut killer);
        kill_in_all_forms(&stage, flavor, &mut killer);
        let pool = ConfigFile::with_pool(&["max_connections = 2"]);
        let (_proxy, crowded, _port) = stage.another_proxy(&pool).unwrap();
        a_released_session_ends(&stage, &crowded, flavor);
        a_kill_ends_nothing_of_others(&crowded, flavor);
        what_is_on_its_way_ends(&stage, flavor);
    }
}

/// A server that has stopped reading keeps no session that sends it a long command.
fn what_is_on_its_way_ends(stage: &Stage, flavor: Flavor) {
    let connect = || stage.address.login().connect().unwrap();
    let (mut victim, mut killer) = (connect(), connect());
    victim.run("BEGIN").unwrap();
    victim.run("SELECT * FROM answered_by FOR UPDATE").unwrap();
    let id = victim.connection_id();
    // More than all buffers on the way take.
    let long = [b"\x03DO '", &vec![b'x'; 12 << 20][..], b"'"].concat();
    let primary = &stage.cluster.servers[0];
    primary.pause().unwrap();
    let ended = thread::scope(|scope| {
        let sender = scope.spawn(move || victim.send(&long).and_then(|()| victim.read_replies()));
        let ended = until(NOTICE, "the command to be on its way", || runs(&mut killer, id))
            .and_then(|()| killer.run(format!("KILL {id}")))
            .and_then(|_| until(Duration::from_secs(5), "the session to end", || Ok(sender.is_finished())));
        primary.resume().unwrap();
        ended.map(|()| sender.join().unwrap())
    });
    let told = ended.unwrap_or_else(|error| panic!("{flavor}: {error:#}"));
    // An error where the monitor was first to find that the server hangs.
    let is_over = told.as_ref().map_or(true, |replies| matches!(replies[..], [Reply::Failed(_)]));
    assert!(is_over, "{flavor}: {told:?}");
}

/// True if a session has a command that has not ended, as the proxy sees it.
fn runs(asker: &mut Client, id: u32) -> anyhow::Result<bool> {
    let own = Some(id.to_string().into_bytes());
    let rows = asker.run("SHOW PROCESSLIST")?.remove(0).rows()?;
    Ok(rows.iter().any(|row| row[0] == own && row[4] == Some(b"Query".to_vec())))
}

/// How long sessions kill what another one runs.
const KILLING: Duration = Duration::from_secs(4);

/// The connection goes from one session to the next while a KILL that is meant for the first is on its way.
fn a_kill_ends_nothing_of_others(crowded: &Address, flavor: Flavor) {
    let mut victim = crowded.login().connect().unwrap();
    victim.run("CREATE TABLE bystanders (a INT)").unwrap();
    let kill = format!("KILL QUERY {}", victim.connection_id());
    let is_over = AtomicBool::new(false);
    let (lives, written) = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut killer = crowded.login().connect().unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    killer.query(&kill).unwrap();
                }
            });
        }
        let write = || {
            let mut writer = crowded.login().connect()?;
            while !is_over.load(Ordering::Relaxed) {
                match writer.run("INSERT INTO bystanders SELECT 1 FROM (SELECT SLEEP(0.002)) AS x") {
                    Err(error) if is_of_hung_server(&error) => writer = crowded.login().connect()?,
                    done => drop(done?),
                }
            }
            anyhow::Ok(())
        };
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
        let begun = Instant::now();
        let mut lives = true;
        while lives && begun.elapsed() < KILLING {
            lives = victim.query("DO SLEEP(0.004)").is_ok();
        }
        is_over.store(true, Ordering::Relaxed);
        let written: Vec<anyhow::Result<()>> =
            writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        (lives, written)
    });
    assert!(written.iter().all(Result::is_ok), "{flavor}: {written:?}");
    assert!(lives, "{flavor}: KILL QUERY has ended the session");
}

/// The disk of a busy machine may stall for seconds: servers count as hung then. That is not what is looked for here.
fn is_of_hung_server(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("it does not answer")
}

/// The server closes the connection behind the answer: a session that got it next would not know what has become of its write.
fn a_released_session_ends(stage: &Stage, crowded: &Address, flavor: Flavor) {
    let connect = || crowded.login().connect().unwrap();
    connect().run("CREATE TABLE released (a INT)").unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut writer = connect();
                    let mut written = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        writer.run("INSERT INTO released VALUES (1)")?;
                        written += 1;
                    }
                    anyhow::Ok(written)
                })
            })
            .collect();
        let ends = |texts: &[&str]| {
            let mut client = crowded.login().connect()?;
            client.set_multi_statements(true)?;
            for sql in texts {
                client.run(sql)?;
            }
            anyhow::Ok(client.ping().is_err())
        };
        let ended: Vec<_> = (0..10).flat_map(|_| RELEASES).map(ends).collect();
        is_over.store(true, Ordering::Relaxed);
        let written: Vec<anyhow::Result<u32>> =
            writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let all: u32 = written.iter().flatten().sum();
        assert!(written.iter().all(Result::is_ok), "{flavor}: {written:?}");
        assert!(ended.iter().all(|ended| matches!(ended, Ok(true))), "{flavor}: {ended:?}");
        let rows = stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.released").unwrap();
        assert_eq!(rows.trim(), all.to_string(), "{flavor}");
    });
    let mut client = connect();
    for sql in ["BEGIN", "COMMIT NO RELEASE", "SET completion_type = 2", "BEGIN", "COMMIT NO RELEASE"] {
        client.run(sql).unwrap();
    }
    client.ping().unwrap();
}

/// Each ends its session.
const RELEASES: [&[&str]; 6] = [
    &["BEGIN", "COMMIT RELEASE"],
    &["ROLLBACK RELEASE"],
    &["PREPARE s FROM 'COMMIT RELEASE'", "EXECUTE s"],
    &["SET completion_type = 2", "BEGIN", "COMMIT AND NO CHAIN"],
    &["SET completion_type = 'RELEASE'; COMMIT"],
    &["BEGIN", "SET @@session.completion_type = 2; SELECT 1; ROLLBACK"],
];

/// A session whose statement another one is to end.
fn send_sleep(stage: &Stage) -> Client {
    let client = send_endless(stage, "SELECT SLEEP(60) FROM answered_by FOR UPDATE /*mark*/");
    // While MariaDB opens the view, the thread has its definer's rights, and KILL is refused: it is not the user's own.
    let sleeps = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%mark%' AND USER = 'app' AND STATE = 'User sleep'";
    until(NOTICE, "the statement to sleep", || Ok(stage.cluster.servers[0].query(sleeps)?.trim() != "0"))
        .unwrap();
    client
}

/// A KILL that is made where it runs: none reaches the server, where that id is somebody else's.
fn what_is_put_together_is_refused(killer: &mut Client, id: u32) {
    killer.run(format!("SET @whole = 'KILL {id}', @begin = 'KI'")).unwrap();
    for sql in [
        format!("BEGIN NOT ATOMIC EXECUTE IMMEDIATE 'KILL {id}'; END"),
        format!("BEGIN NOT ATOMIC EXECUTE IMMEDIATE CONCAT(@begin, 'LL ', {id}); END"),
        format!("BEGIN NOT ATOMIC PREPARE k FROM 'KILL {id}'; EXECUTE k; END"),
        "BEGIN NOT ATOMIC EXECUTE IMMEDIATE @whole; END".to_owned(),
        format!("IF 1 THEN EXECUTE IMMEDIATE 'KILL QUERY {id}'; END IF"),
        format!("CREATE PROCEDURE app.k() EXECUTE IMMEDIATE 'KILL {id}'"),
        format!("CREATE PROCEDURE app.k() BEGIN EXECUTE IMMEDIATE 'KILL {id}'; END"),
        format!("PREPARE k FROM CONCAT('KI', 'LL ', {id})"),
        format!("PREPARE k FROM CONCAT(UNHEX('4B494C4C'), ' {id}')"),
        format!("EXECUTE IMMEDIATE CONCAT(REVERSE('LLIK'), ' ?') USING {id}"),
    ] {
        let told = killer.query(&sql).unwrap().remove(0);
        assert_eq!(told.failure().map(|failure| failure.code), Some(1235), "{sql}: {told:?}");
        // As a server does, where it takes such a text at all.
        if let Ok(prepared) = killer.prepare(&sql).unwrap() {
            let told = killer.execute(prepared.id, &[], true).unwrap().remove(0);
            panic!("{sql}: prepared: {told:?}");
        }
    }
    // Words that are nothing but words.
    killer.run("EXECUTE IMMEDIATE CONCAT('DO ', QUOTE('skills to kill'))").unwrap();
    killer.run("PREPARE k FROM CONCAT('SELECT ', QUOTE('kill 5'))").unwrap();
    killer.run("EXECUTE k").unwrap();
    killer.run("DEALLOCATE PREPARE k").unwrap();
}

/// A dump with such code can be restored; what runs it would have the server end somebody else's connection. Once it is read by the
/// monitor, and before.
fn code_that_kills_is_refused(stage: &Stage, flavor: Flavor, killer: &mut Client) {
    let id = killer.connection_id();
    let primary = &stage.cluster.servers[0];
    primary.query("CREATE PROCEDURE app.past(n INT) KILL n").unwrap();
    for sql in [
        "CREATE PROCEDURE app.through(n INT) KILL n",
        "CREATE PROCEDURE app.calls(n INT) BEGIN CALL app.through(n); END",
        "CREATE EVENT app.sometimes ON SCHEDULE EVERY 1 DAY DISABLE DO KILL 5",
    ] {
        killer.run(sql).unwrap();
    }
    let code = |told: &delphinus_testkit::Reply| told.failure().map(|failure| failure.code);
    until(NOTICE, "the monitor to read the code", || {
        let told = killer.query("CALL app.past(0)")?.remove(0);
        Ok(code(&told) == Some(1235))
    })
    .unwrap();
    for turn in ["read", "changed"] {
        let mut all = vec![
            format!("CALL app.through({id})"),
            format!("CALL app.calls({id})"),
            format!("DO 1; CALL app.through({id})"),
        ];
        if flavor == Flavor::MariaDb {
            all.push(format!("EXECUTE IMMEDIATE 'CALL app.through({id})'"));
            all.push(format!("EXECUTE IMMEDIATE CONCAT('CALL app.', 'through({id})')"));
            all.push(format!("BEGIN NOT ATOMIC CALL app.through({id}); END"));
        }
        for sql in all {
            let told = killer.query(&sql).unwrap().remove(0);
            assert_eq!(code(&told), Some(1235), "{turn}: {sql}: {told:?}");
        }
        killer.run(format!("PREPARE k FROM 'CALL app.through({id})'")).unwrap();
        let told = killer.query("EXECUTE k").unwrap().remove(0);
        assert_eq!(code(&told), Some(1235), "{turn}: {told:?}");
        killer.run("DEALLOCATE PREPARE k").unwrap();
        if let Ok(prepared) = killer.prepare(format!("CALL app.through({id})")).unwrap() {
            let told = killer.execute(prepared.id, &[], true).unwrap().remove(0);
            assert_eq!(code(&told), Some(1235), "{turn}: {told:?}");
        }
        killer.run("DROP PROCEDURE app.through").unwrap();
        killer.run("CREATE PROCEDURE app.through(n INT) KILL QUERY n").unwrap();
    }
    for sql in ["PROCEDURE app.through", "PROCEDURE app.calls", "EVENT app.sometimes"] {
        killer.run(format!("DROP {sql}")).unwrap();
    }
    primary.query("DROP PROCEDURE app.past").unwrap();
}

/// KILL that was prepared, in the protocol or in SQL, and of a user; what cannot be known is refused and sent nowhere.
fn kill_in_all_forms(stage: &Stage, flavor: Flavor, killer: &mut Client) {
    let ended = |mut victim: Client, how: &str| {
        let begun = Instant::now();
        // 1317 or, from MySQL's SLEEP, a row; or the end of the connection.
        let _ = victim.read_replies();
        assert!(begun.elapsed() < NOTICE, "{flavor}: {how}: {:?}", begun.elapsed());
        until(NOTICE, "the statement to end", || Ok(threads(stage, "mark")?.is_empty())).unwrap();
    };
    let victim = send_sleep(stage);
    let prepared = killer.prepare(format!("KILL QUERY {}", victim.connection_id())).unwrap().unwrap();
    let told = killer.execute(prepared.id, &[], true).unwrap().remove(0);
    assert!(told.failure().is_none(), "{told:?}");
    ended(victim, "prepared");
    // MySQL has no parameters there.
    if let Ok(prepared) = killer.prepare("KILL ?").unwrap() {
        let victim = send_sleep(stage);
        let id = [Param::Int(i64::from(victim.connection_id()))];
        let told = killer.execute(prepared.id, &id, true).unwrap().remove(0);
        assert!(told.failure().is_none(), "{told:?}");
        ended(victim, "prepared with a parameter");
    }
    let victim = send_sleep(stage);
    killer.run(format!("PREPARE k FROM 'KILL {}'", victim.connection_id())).unwrap();
    killer.run("EXECUTE k").unwrap();
    ended(victim, "in SQL");
    killer.run("DEALLOCATE PREPARE k").unwrap();
    for value in ["{}", "'{}'", "(SELECT CAST({} AS UNSIGNED))"] {
        let victim = send_sleep(stage);
        killer
            .run(format!("SET @id = {}", value.replace("{}", &victim.connection_id().to_string())))
            .unwrap();
        killer.run("KILL QUERY @id").unwrap();
        ended(victim, "by a user variable");
    }
    if flavor == Flavor::MariaDb {
        let victim = send_sleep(stage);
        killer.run(format!("EXECUTE IMMEDIATE 'KILL QUERY {}'", victim.connection_id())).unwrap();
        ended(victim, "EXECUTE IMMEDIATE");
        let victim = send_sleep(stage);
        killer.run(format!("BEGIN NOT ATOMIC KILL QUERY {}; END", victim.connection_id())).unwrap();
        ended(victim, "in a block");
        let victim = send_sleep(stage);
        what_is_put_together_is_refused(killer, victim.connection_id());
        // Its own session is the user's, too.
        killer.query("KILL USER app").unwrap();
        ended(victim, "KILL USER");
        assert!(killer.ping().is_err());
        *killer = stage.address.login().connect().unwrap();
    }
    code_that_kills_is_refused(stage, flavor, killer);
    for sql in ["KILL 1 + 1", "KILL @no_such", "KILL @id + 1", "DO 1; KILL 5"] {
        assert_eq!(killer.query(sql).unwrap()[0].failure().unwrap().code, 1235, "{sql}");
    }
    assert!(killer.query("KILL @@pseudo_thread_id").map_or(true, |told| told[0].failure().is_some()));
    assert!(killer.ping().is_err(), "it has killed itself");
}
