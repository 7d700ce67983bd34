//! A clock that `SET timestamp` has stopped stands for the session that did so, and for nobody else; also where a SET fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{Client, ConfigFile, Stage, on_both_flavors};
use delphinus_sandbox::Flavor;

on_both_flavors!(a_clock_stands_for_who_has_stopped_it);

/// Servers look at all values before they set the first, so that none of these sets anything.
const FAILING: [&str; 4] = [
    "SET timestamp = DEFAULT, no_such_variable = 1",
    "SET timestamp = 0, time_zone = 'Nowhere/At_All'",
    "SET sql_mode = 'NONSENSE', @@session.timestamp = DEFAULT",
    "SET timestamp = 5, no_such_variable = 1",
];

const STOPPED: &str = "1000000000.000000";

fn a_clock_stands_for_who_has_stopped_it(flavor: Flavor) {
    let config = ConfigFile {
        proxy: vec!["workers = 1".to_owned()],
        ..ConfigFile::with_pool(&["max_connections = 1", "hold_ms = 0"])
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let connect = || stage.address.connect().unwrap();
    let (mut one, mut other) = (connect(), connect());
    for failing in FAILING {
        one.query("SET timestamp = 1000000000").unwrap();
        one.error(failing).unwrap();
        assert_ne!(time(&mut other), STOPPED, "another session after {failing}");
        assert_eq!(time(&mut one), STOPPED, "{failing}");
        one.query("SET timestamp = DEFAULT").unwrap();
        // Where none was set, a failing SET does not stop it.
        one.error(failing).unwrap();
        let before = time(&mut one);
        assert_ne!(time(&mut other), before);
        assert_ne!(time(&mut one), before, "{failing}");
    }
}

/// The session's time on the primary.
fn time(client: &mut Client) -> String {
    client.value("SELECT @@timestamp FROM orders ORDER BY id LIMIT 1 FOR UPDATE").unwrap()
}
