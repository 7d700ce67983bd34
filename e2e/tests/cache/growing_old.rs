//! Answers past their soft TTL: one is asked for anew, all get the older one meanwhile, and no client waits. Answers past their TTL are given
//! back though no session asks.

use std::time::Instant;

use super::*;

/// A rule whose answers grow old after a second, of forty.
fn rule(port: u16) -> String {
    let rule = "[[rule]]\nname = \"soft\"\nmatch_pattern = 'soft'\ntarget = \"primary\"\nconsistency = \"eventual\"\n\
                cache_ttl_ms = 40000\ncache_soft_ttl_pct = 3\n";
    format!("[cache]\nsoft_ttl_pct = 0\n{rule}{}", sections(port))
}

pub(super) fn check(stage: &Stage) {
    let lease = PortLease::take().unwrap();
    let config = ConfigFile {
        proxy: vec!["workers = 2".to_owned()],
        ..ConfigFile::with_sections(&rule(lease.port()))
    };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let mut operator = operator(&address, lease.port());
    for (at, is_prepared) in [false, true].into_iter().enumerate() {
        check_soft(stage, &address, (&format!("soft{at}"), is_prepared));
    }
    let counted = operator
        .rows("SELECT refreshes >= 2, stale > 20, rule, saved_us > 0 FROM cache_digests WHERE refreshes > 0");
    let counted = counted.unwrap();
    let row: Vec<_> = counted[0].iter().map(|cell| cell.as_deref().unwrap()).collect();
    // Text and prepared, which have the same digest.
    assert_eq!((row, counted.len()), (vec!["1", "1", "soft", "1"], 1));
    assert!(shown(&mut operator, "refreshes_kept") >= 2);
    check_rights_age(stage);
    // What is too old is given back.
    let mut client = address.connect().unwrap();
    let (before, kept) = (shown(&mut operator, "answers"), shown(&mut operator, "answers_kept"));
    for number in 0..50 {
        client.rows(&format!("/*+ delphinus(cache_ttl=1500) */ SELECT {number} FROM kept")).unwrap();
    }
    assert_eq!(shown(&mut operator, "answers_kept"), kept + 50);
    until(LIMIT, "they are given back", || Ok(shown(&mut operator, "answers") <= before)).unwrap();
}

/// An answer ends when it is as old as rights may be, or as `[cache]` says of answers; but not with the epoch of rights.
fn check_rights_age(stage: &Stage) {
    for (section, marker) in [("", "rights0"), ("[cache]\nrights_max_age_ms = 3600000\n", "rights1")] {
        let config = ConfigFile {
            pool: vec!["rights_max_age_ms = 400".to_owned()],
            ..ConfigFile::with_sections(section)
        };
        let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
        let mut client = session_at(&address).connect().unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1500) {
            reply(&mut client, &kept("SELECT v FROM kept WHERE id = 3", marker));
            std::thread::sleep(Duration::from_millis(50));
        }
        let runs = runs(stage, marker);
        let wanted = if section.is_empty() { 2..=4 } else { 1..=1 };
        assert!(wanted.contains(&runs), "{marker}: {runs}");
    }
}

fn check_soft(stage: &Stage, address: &Address, (marker, is_prepared): (&str, bool)) {
    let sql = format!("SELECT v FROM kept WHERE id = 4 /*{marker}*/");
    let mut clients: Vec<_> = (0..4).map(|_| session_at(address).connect().unwrap()).collect();
    let ids: Vec<_> = clients.iter_mut().map(|client| client.prepare(&sql).unwrap().unwrap().id).collect();
    let mut ask = |which: usize| -> String {
        let client = &mut clients[which];
        let reply = if is_prepared {
            client.execute(ids[which], &[], false).unwrap()
        } else {
            client.query(&sql).unwrap()
        };
        format!("{reply:?}")
    };
    let mut writer = stage.primary_address().connect().unwrap();
    let first = ask(0);
    writer.query("UPDATE kept SET v = v + 1 WHERE id = 4").unwrap();
    std::thread::sleep(Duration::from_millis(1300));
    // Who asks anew waits for this lock; clients do not.
    writer.query("LOCK TABLES kept WRITE").unwrap();
    for round in 0..40 {
        let began = Instant::now();
        assert_eq!(ask(round % 4), first, "round {round}: the older answer");
        assert!(began.elapsed() < Duration::from_millis(500), "round {round}: {:?}", began.elapsed());
    }
    until(LIMIT, "it is asked for anew", || Ok(runs(stage, marker) == 2)).unwrap();
    assert_eq!(ask(1), first);
    assert_eq!(runs(stage, marker), 2, "one has asked for all");
    writer.query("UNLOCK TABLES").unwrap();
    until(LIMIT, "the newer answer is there", || Ok(ask(2) != first)).unwrap();
}
