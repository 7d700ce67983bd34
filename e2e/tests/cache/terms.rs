//! Which answers a rule has kept, and how much room they have; the hints of other caches.

use super::*;

fn rules(port: u16) -> String {
    let rule = |name: &str, more: &str| {
        format!("[[rule]]\nname = \"{name}\"\nmatch_pattern = '{name}'\ncache_ttl_ms = 3600000\n{more}")
    };
    [
        "[cache]\nmax_bytes = 1048576\nmax_entry_bytes = 8192\n",
        &rule("full only", "cache_empty_result = false\n"),
        &rule("also warned", "cache_warnings = true\n"),
        &rule("a share", "cache_share_pct = 10\n"),
        &sections(port),
    ]
    .concat()
}

pub(super) fn check(stage: &Stage) {
    let lease = PortLease::take().unwrap();
    let (_proxy, address, _port) =
        stage.another_proxy(&ConfigFile::with_sections(&rules(lease.port()))).unwrap();
    let mut operator = operator(&address, lease.port());
    let mut client = address.connect().unwrap();
    let mut ran = |sql: &str, marker: &str| {
        for _ in 0..3 {
            client.rows(&format!("{sql} /*{marker}*/")).unwrap();
        }
        runs(stage, marker)
    };
    assert_eq!(ran("SELECT v FROM kept WHERE id = 99", "full only a"), 3, "there is no row");
    assert_eq!(ran("SELECT v FROM kept WHERE id = 1", "full only b"), 1);
    assert_eq!(ran(&format!("{KEPT} SELECT v FROM kept WHERE id = 99"), "none"), 1);
    assert_eq!(ran("SELECT CAST('x' AS SIGNED)", "also warned"), 1);
    assert_eq!(ran(&format!("{KEPT} SELECT CAST('x' AS SIGNED)"), "not warned"), 3);
    for (sql, marker, expected) in [
        ("/*qc=on*/SELECT v FROM kept", "mysqlnd", 1),
        ("/*qc=on*//*qc_ttl=3600*/SELECT v FROM kept", "mysqlnd in seconds", 1),
        ("/*qc=off*/SELECT v FROM kept", "mysqlnd off", 3),
        ("/*qc_ttl=3600*/SELECT v FROM kept", "mysqlnd seconds only", 3),
        ("/* cache_ttl=3600000 */ SELECT v FROM kept", "annotation", 1),
    ] {
        assert_eq!(ran(sql, marker), expected, "{sql}");
    }
    check_share(&mut client, &mut operator);
}

/// A rule has its share, whatever it asks for, and leaves all others theirs.
fn check_share(client: &mut Client, operator: &mut Client) {
    let others = "SELECT sum(bytes) FROM cache_digests WHERE rule IS NULL OR rule <> 'a share'";
    let before = operator.value(others).unwrap();
    for number in 0..200 {
        client.rows(&format!("SELECT REPEAT('x', 2000), {number} /*a share*/")).unwrap();
    }
    let own = operator.value("SELECT sum(bytes) FROM cache_digests WHERE rule = 'a share'").unwrap();
    let own: u64 = own.parse().unwrap();
    assert!((52_428..=104_857).contains(&own), "{own} bytes of 104857");
    assert_eq!(operator.value(others).unwrap(), before, "others have made no room");
}
