//! CACHE FLUSH: everything, or what belongs to a schema, a table, a digest or a rule, and nothing else.

use super::*;

pub(super) fn check(stage: &Stage) {
    let lease = PortLease::take().unwrap();
    let (_proxy, address, _port) =
        stage.another_proxy(&ConfigFile::with_sections(&sections(lease.port()))).unwrap();
    let mut operator = operator(&address, lease.port());
    let mut client = address.connect().unwrap();
    let texts = [
        kept("SELECT v FROM kept WHERE id = 1", "flush1"),
        kept("SELECT name FROM sbtest.kept WHERE id = 2", "flush2"),
        kept("SELECT COUNT(*) FROM made", "flush3"),
        kept("SELECT COUNT(*) FROM made JOIN kept ON made.id = kept.id", "flush4"),
        "SELECT v FROM kept WHERE id = 3 /*by rule flush5*/".to_owned(),
    ];
    // Which of them are asked anew: those that were forgotten.
    let mut asked = |operator: &mut Client, command: &str| -> Vec<usize> {
        for sql in &texts {
            client.rows(sql).unwrap();
        }
        operator.query(command).unwrap();
        let before: Vec<_> = (1..=5).map(|at| runs(stage, &format!("flush{at}"))).collect();
        for sql in &texts {
            client.rows(sql).unwrap();
        }
        let is_new = |at: &usize| runs(stage, &format!("flush{at}")) > before[at - 1];
        (1..=5).filter(is_new).collect()
    };
    let database = &address.database;
    for (command, expected) in [
        ("CACHE FLUSH".to_owned(), vec![1, 2, 3, 4, 5]),
        ("PROXYSQL FLUSH QUERY CACHE".to_owned(), vec![1, 2, 3, 4, 5]),
        ("CACHE FLUSH TABLE kept".to_owned(), vec![1, 2, 4, 5]),
        ("CACHE FLUSH TABLE sbtest.kept".to_owned(), vec![2]),
        (format!("CACHE FLUSH TABLE {database}.kept"), vec![1, 4, 5]),
        ("CACHE FLUSH SCHEMA sbtest".to_owned(), vec![2]),
        (format!("CACHE FLUSH SCHEMA {database}"), vec![1, 3, 4, 5]),
        ("CACHE FLUSH RULE minute".to_owned(), vec![5]),
        ("CACHE FLUSH TABLE nothing".to_owned(), vec![]),
    ] {
        // Once a minute all are asked anew, whatever is forgotten: their rights have to be new.
        let is_so = (0..3).any(|_| asked(&mut operator, &command) == expected);
        assert!(is_so, "{command}: {:?}, and not {expected:?}", asked(&mut operator, &command));
    }
    check_prepared_elsewhere(stage, &address, &mut operator);
    let digest = "SELECT digest FROM cache_digests WHERE digest_text LIKE '%FROM%sbtest%'";
    let digest = operator.value(digest).unwrap();
    assert!((0..3).any(|_| asked(&mut operator, &format!("CACHE FLUSH DIGEST {digest}")) == [2]));
    let gone = operator.value("SELECT sum(invalidations) FROM cache_digests").unwrap();
    assert!(gone.parse::<u64>().unwrap() >= 15, "{gone}");
    assert_eq!(operator.error("CACHE FLUSH DIGEST x").unwrap().code, 1064);
}

/// What was prepared in one schema, and runs in another, is forgotten with the table of the first.
fn check_prepared_elsewhere(stage: &Stage, address: &Address, operator: &mut Client) {
    let mut client = address.connect().unwrap();
    let id = client.prepare(&kept("SELECT v FROM kept WHERE id = 4", "flush6")).unwrap();
    client.query("USE sbtest").unwrap();
    let mut is_asked_anew = |schema: &str| {
        client.execute(id).unwrap();
        operator.query(&format!("CACHE FLUSH TABLE {schema}.kept")).unwrap();
        let before = runs(stage, "flush6");
        client.execute(id).unwrap();
        runs(stage, "flush6") > before
    };
    // As above.
    for (schema, is_it) in [("sbtest", false), (&*address.database, true)] {
        assert!((0..3).any(|_| is_asked_anew(schema) == is_it), "{schema}");
    }
}
