//! Every form of a hint, every place, and what is none.

use super::*;
use crate::{Uses, classify};

/// What a text asks for, and whether the classifier saw that it does.
fn read(sql: &str) -> Hints {
    let found = hints(sql.as_bytes(), LexOptions::default());
    let is_seen = classify(sql.as_bytes(), LexOptions::default()).uses.contains(Uses::HINTS);
    assert!(is_seen || found.is_empty(), "{sql}: {found:?}, which the classifier has not seen");
    found
}

fn wants(wanted: Wanted) -> Hints {
    Hints { wanted: Some(wanted), ..Hints::default() }
}

#[test]
fn every_form_and_place() {
    let (primary, replica) = (wants(Wanted::Primary), wants(Wanted::Replica));
    let cases = [
        ("/*#mode=READWRITE*/ SELECT 1", primary.clone()),
        ("/*# mode = readonly */ SELECT 1", replica.clone()),
        ("/*#mode='ReadOnly'*/SELECT 1", replica.clone()),
        ("SELECT /*#mode=READWRITE*/ 1", primary.clone()),
        ("/*master*/ SELECT 1", primary.clone()),
        ("/* MASTER */SELECT 1", primary.clone()),
        ("SELECT/*slave*/1", replica.clone()),
        ("  -- a line\n # another\n /* text */ /*slave*/ SELECT 1", replica.clone()),
        ("(((/*slave*/SELECT 1)))", replica.clone()),
        ("((SELECT /*slave*/ 1))", replica.clone()),
        ("/*+ delphinus(primary) */ SELECT 1", primary.clone()),
        ("SELECT /*+ DELPHINUS ( Replica ) */ 1", replica.clone()),
        ("SELECT /*+ MAX_EXECUTION_TIME(5) delphinus(primary) */ 1", primary.clone()),
        ("/*+ delphinus(backend=db2) */ SELECT 1", wants(Wanted::Backend("db2".into()))),
        ("/*+ delphinus(backend='Db 2') */ SELECT 1", wants(Wanted::Backend("Db 2".into()))),
        ("/*+ delphinus(mode=auto) */ SELECT 1", wants(Wanted::Auto)),
        ("/*master*/ /*slave*/ SELECT 1", replica.clone()),
        ("; /*slave*/ SELECT 1", replica),
    ];
    for (sql, expected) in cases {
        assert_eq!(read(sql), expected, "{sql}");
    }
    let all = read(
        "/*+ delphinus(replica, consistency=global cache_ttl=500, timeout_ms=20 causality_token='0-1-2,1-1-5') */ SELECT /*+ delphinus(no_cache) */ 1",
    );
    let expected = Hints {
        wanted: Some(Wanted::Replica),
        consistency: Some(Consistency::Global),
        cache: Some(CacheWish::Never),
        timeout_ms: Some(20),
        causality_token: Some("0-1-2,1-1-5".into()),
        unknown: vec![],
    };
    assert_eq!(all, expected);
}

#[test]
fn the_words_of_other_caches() {
    for (sql, expected) in [
        ("/*qc=on*/SELECT 1", Some(CacheWish::TtlMs(30_000))),
        ("/*qc=on*//*qc_ttl=5*/SELECT 1", Some(CacheWish::TtlMs(5_000))),
        ("/*qc=on*/ /* note */ /*qc_ttl=0*/ SELECT 1", Some(CacheWish::TtlMs(0))),
        ("/*qc=off*/SELECT 1", Some(CacheWish::Never)),
        ("/*qc=off*//*qc_ttl=5*/SELECT 1", Some(CacheWish::Never)),
        // What is off unless a statement begins with its switch stays off.
        ("/*qc_ttl=5*/SELECT 1", None),
        ("/*qc_ttl=5s*/SELECT 1", None),
        ("/*qc=maybe*/SELECT 1", None),
        ("/*qc_server_id=1*/SELECT 1", None),
        ("/* cache_ttl=500 */ SELECT 1", Some(CacheWish::TtlMs(500))),
        ("/*cache_ttl=500*/ SELECT 1", Some(CacheWish::TtlMs(500))),
        ("SELECT /* cache_ttl = 500 */ 1", Some(CacheWish::TtlMs(500))),
        ("/* hostgroup=2; cache_ttl=500;query_retries=1 */ SELECT 1", Some(CacheWish::TtlMs(500))),
        ("/* cache_ttl=500ms */ SELECT 1", None),
        ("/* my_cache_ttl=500 */ SELECT 1", None),
        ("/* set cache_ttl=500 if you like */ SELECT 1", None),
        ("SELECT 1 /* cache_ttl=500 */", None),
    ] {
        assert_eq!(read(sql), Hints { cache: expected, ..Hints::default() }, "{sql}");
    }
}

#[test]
fn what_is_no_hint() {
    for sql in [
        "SELECT 1",
        "SELECT 1 /*master*/",
        "SELECT a /*slave*/ FROM t",
        "SELECT '/*master*/'",
        "/* the master of all */ SELECT 1",
        "/*masters*/ SELECT 1",
        "/*####### header #######*/ SELECT 1",
        "/*# a note, with = in it */ SELECT 1",
        "/*!40001 master */ SELECT 1",
        "SELECT /*+ NO_ICP(t) */ 1",
        "SELECT /*+ qb_delphinus(primary) */ 1",
        "-- /*master*/\nSELECT 1",
        "/*master SELECT 1",
        "/*/ SELECT 1",
        "",
    ] {
        assert_eq!(read(sql), Hints::default(), "{sql}");
    }
}

#[test]
fn what_is_not_known_is_told() {
    let unknown = |sql: &str| read(sql).unknown;
    assert_eq!(unknown("/*#mode=sometimes*/ SELECT 1"), ["mode=sometimes"]);
    assert_eq!(unknown("/*#group=g1*/ SELECT 1"), ["group=g1"]);
    assert_eq!(unknown("/*+ delphinus(primary, fast, timeout_ms=x) */ SELECT 1"), ["fast", "timeout_ms=x"]);
    assert_eq!(unknown("/*+ delphinus(primary */ SELECT 1"), ["delphinus( without )"]);
    assert_eq!(unknown("/*+ delphinus(%) */ SELECT 1").len(), 1);
    assert_eq!(read("/*+ delphinus(primary, mode=x) */ SELECT 1").wanted, Some(Wanted::Primary));
}

#[test]
fn the_nearer_word_wins() {
    let own = Hints { timeout_ms: Some(1), ..wants(Wanted::Primary) };
    let session =
        Hints { consistency: Some(Consistency::Eventual), timeout_ms: Some(2), ..wants(Wanted::Replica) };
    let both = own.or(&session);
    assert_eq!(both.wanted, Some(Wanted::Primary));
    assert_eq!((both.timeout_ms, both.consistency), (Some(1), Some(Consistency::Eventual)));
}

proptest::proptest! {
    /// Whatever stands there, nothing breaks, and nothing is found that the classifier would not send here.
    #[test]
    fn any_text_can_be_read(sql in "(/\\*|\\*/|#|\\+|delphinus|\\(|\\)|master|mode|=|SELECT|'|,| |\n|-- |x){0,24}") {
        read(&sql);
    }
}
