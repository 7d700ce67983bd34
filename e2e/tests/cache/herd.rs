//! Many who ask the same at once, on all workers: one question reaches the servers.

use super::*;

/// Sessions that ask; the check of the issue is `DELPHINUS_CACHE_SESSIONS=1000`.
fn sessions() -> usize {
    std::env::var("DELPHINUS_CACHE_SESSIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

/// MySQL warns of hints behind SELECT that it does not know.
fn on_primary(marker: &str) -> String {
    format!("/*+ delphinus(primary, cache_ttl=3600000) */ SELECT v FROM kept WHERE id = 2 /*{marker}*/")
}

pub(super) fn check(stage: &Stage) {
    let lease = PortLease::take().unwrap();
    // Clients on the Unix socket have no limit.
    let limit = "[[limit]]\nname = \"small\"\nclient = [\"127.0.0.0/8\"]\nmax_rows = 1\n";
    let config = ConfigFile::with_sections(&[limit, &sections(lease.port())].concat());
    let config = ConfigFile { proxy: vec!["workers = 4".to_owned()], ..config };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let mut operator = operator(&address, lease.port());
    let sql = on_primary("herd");
    let all = sessions();
    // Longer than a second: that is how long the first one may take.
    let mut blocker = stage.primary_address().connect().unwrap();
    blocker.query("LOCK TABLES kept WRITE").unwrap();
    let clients: Vec<_> = (0..all).map(|_| address.connect().unwrap()).collect();
    std::thread::scope(|scope| {
        let asking: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn({
                    let sql = &sql;
                    move || client.value(sql).unwrap()
                })
            })
            .collect();
        until(LIMIT, "all but one wait", || Ok(shown(&mut operator, "waits") == all as u64 - 1)).unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(runs(stage, "herd"), 1, "they still wait");
        blocker.query("UNLOCK TABLES").unwrap();
        for one in asking {
            assert_eq!(one.join().unwrap(), "2");
        }
    });
    let shown_now = operator.rows("SHOW CACHE").unwrap();
    assert_eq!(runs(stage, "herd"), 1, "of {all} sessions on four workers: {shown_now:?}");
    assert_eq!(shown(&mut operator, "lookups_miss"), all as u64);
    let counted = operator
        .rows("SELECT misses, coalesced, inserts, hits FROM cache_digests WHERE coalesced > 0")
        .unwrap();
    let counted: Vec<_> = counted[0].iter().map(|cell| cell.as_deref().unwrap().to_owned()).collect();
    let others = (all - 1).to_string();
    assert_eq!(counted, [all.to_string(), others.clone(), "1".to_owned(), others]);
    check_killed(&address, &mut blocker, &mut operator);
    check_capped(stage, &address, &mut operator);
    check_first_killed(stage, &address, &mut operator);
    check_no_wait(stage);
}

/// A statement that waits for another session's answer ends when it is killed, and so does its session.
fn check_killed(address: &Address, blocker: &mut Client, operator: &mut Client) {
    let sql = on_primary("killed");
    let (mut first, mut second, mut third) =
        (address.connect().unwrap(), address.connect().unwrap(), address.connect().unwrap());
    let id = second.value("SELECT CONNECTION_ID()").unwrap();
    let before = shown(operator, "waits");
    let mut waits = |times: u64| {
        until(LIMIT, "it waits", || Ok(shown(operator, "waits") == before + times)).unwrap();
    };
    blocker.query("LOCK TABLES kept WRITE").unwrap();
    std::thread::scope(|scope| {
        let one = scope.spawn(|| first.value(&sql).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let two = scope.spawn(|| (second.error(&sql).unwrap().code, second.value(&sql).is_err()));
        waits(1);
        let list = third.rows("SHOW PROCESSLIST").unwrap();
        let row = list.iter().find(|row| row[0].as_ref() == Some(&id)).unwrap();
        assert_eq!(row[4].as_deref(), Some("Query"));
        third.query(&format!("KILL QUERY {id}")).unwrap();
        // It asks once more.
        waits(2);
        third.query(&format!("KILL {id}")).unwrap();
        until(Duration::from_secs(5), "the killed session has ended", || Ok(two.is_finished())).unwrap();
        assert_eq!(two.join().unwrap(), (1317, true));
        blocker.query("UNLOCK TABLES").unwrap();
        assert_eq!(one.join().unwrap(), "2");
    });
}

/// A session whose results are limited waits for one whose results are not: what that gets is too large for it.
fn check_capped(stage: &Stage, address: &Address, operator: &mut Client) {
    let sql = "/*+ delphinus(primary, cache_ttl=3600000) */ SELECT v FROM kept /*capped*/";
    let (mut blocker, mut free) = (stage.primary_address().connect().unwrap(), address.connect().unwrap());
    let mut capped = Client::connect(&Login::new(address).over_tcp(address)).unwrap();
    let before = shown(operator, "waits");
    blocker.query("LOCK TABLES kept WRITE").unwrap();
    std::thread::scope(|scope| {
        let one = scope.spawn(|| free.rows(sql).unwrap().len());
        until(LIMIT, "the first one asks", || Ok(runs(stage, "capped") == 1)).unwrap();
        let two = scope.spawn(|| capped.error(sql).unwrap());
        until(LIMIT, "the other one waits", || Ok(shown(operator, "waits") == before + 1)).unwrap();
        blocker.query("UNLOCK TABLES").unwrap();
        assert_eq!(one.join().unwrap(), 4);
        let error = two.join().unwrap();
        assert_eq!((error.code, error.message.contains("(max_rows)")), (1226, true), "{error}");
    });
}

/// The session that asks for all is killed: one of those who wait asks then, and the others wait for that one.
fn check_first_killed(stage: &Stage, address: &Address, operator: &mut Client) {
    const OTHERS: u64 = 10;
    let sql = &on_primary("orphans");
    let (mut blocker, mut killer) = (stage.primary_address().connect().unwrap(), address.connect().unwrap());
    let mut first = address.connect().unwrap();
    let id = first.value("SELECT CONNECTION_ID()").unwrap();
    let others: Vec<_> = (0..OTHERS).map(|_| address.connect().unwrap()).collect();
    blocker.query("LOCK TABLES kept WRITE").unwrap();
    let before = shown(operator, "waits");
    std::thread::scope(|scope| {
        let one = scope.spawn(|| first.value(sql).is_err());
        until(LIMIT, "the first one asks", || Ok(runs(stage, "orphans") == 1)).unwrap();
        let ask = |mut client: Client| scope.spawn(move || client.value(sql).unwrap());
        let asking: Vec<_> = others.into_iter().map(ask).collect();
        until(LIMIT, "all others wait", || Ok(shown(operator, "waits") == before + OTHERS)).unwrap();
        killer.query(&format!("KILL {id}")).unwrap();
        assert!(one.join().unwrap());
        until(LIMIT, "another one asks", || Ok(runs(stage, "orphans") > 1)).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        blocker.query("UNLOCK TABLES").unwrap();
        for one in asking {
            assert_eq!(one.join().unwrap(), "2");
        }
    });
    assert_eq!(runs(stage, "orphans"), 2, "one each time");
}

/// Without patience, each asks.
fn check_no_wait(stage: &Stage) {
    let lease = PortLease::take().unwrap();
    let sections = format!("[cache]\nwait_ms = 0\n{}", sections(lease.port()));
    let (_proxy, address, _port) = stage.another_proxy(&ConfigFile::with_sections(&sections)).unwrap();
    let sql = on_primary("hasty");
    let mut blocker = stage.primary_address().connect().unwrap();
    blocker.query("LOCK TABLES kept WRITE").unwrap();
    std::thread::scope(|scope| {
        let asking: Vec<_> =
            (0..3).map(|_| scope.spawn(|| address.connect().unwrap().value(&sql).unwrap())).collect();
        until(LIMIT, "all have asked", || Ok(runs(stage, "hasty") == 3)).unwrap();
        blocker.query("UNLOCK TABLES").unwrap();
        for one in asking {
            assert_eq!(one.join().unwrap(), "2");
        }
    });
}
