//! Clients that keep places without using them, logins that fail, and a user that takes every connection: they keep nobody out.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile};
use delphinus_sandbox::{APP, APP2, Account, Flavor};

use super::support::{Limits, refusal};

const WRONG: Account = Account { user: "app", password: "wrong" };

fn took<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}

#[test]
fn nobody_is_kept_out_by_those_who_stall_or_fail() {
    let pool = vec!["max_connections = 20".to_owned(), "checkout_timeout_ms = 60000".to_owned()];
    let stage = Limits::start(Flavor::MariaDb, &[], &ConfigFile { pool, ..ConfigFile::default() });
    half_open_logins_keep_no_operator_out(&stage);
    failed_logins_wait(&stage);
    one_user_does_not_take_every_connection(&stage);
}

fn half_open_logins_keep_no_operator_out(stage: &Limits) {
    let socket = stage.admin_address().socket.clone();
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(UnixStream::connect(&socket).unwrap());
    }
    let (operator, time) = took(|| stage.admin_address().connect());
    operator.unwrap();
    assert!(time < Duration::from_secs(2), "{time:?}");
}

fn failed_logins_wait(stage: &Limits) {
    let wrong = || took(|| assert_eq!(refusal(stage.log_in(&WRONG, false)).code, 1045)).1;
    let waits: Vec<_> = (0..8).map(|_| wrong()).collect();
    assert!(waits[0] < Duration::from_millis(200), "{waits:?}");
    assert!(waits[7] > Duration::from_millis(1900) && waits[7] < Duration::from_secs(4), "{waits:?}");
    // From elsewhere, and after one wait from there as well, the right password is let in at once.
    let right = |over_tcp| {
        let (client, time) = took(|| stage.log_in(&APP, over_tcp));
        client.unwrap();
        time
    };
    assert!(right(true) < Duration::from_secs(1));
    assert!(right(false) > Duration::from_secs(1));
    assert!(right(false) < Duration::from_secs(1));
    let operator = stage.admin_address();
    let wrong = Address { password: "wrong".to_owned(), ..operator.clone() };
    let waits: Vec<_> = (0..6).map(|_| took(|| assert_eq!(refusal(wrong.connect()).code, 1045)).1).collect();
    assert!(waits[0] < Duration::from_millis(200) && waits[5] > Duration::from_millis(450), "{waits:?}");
}

fn one_user_does_not_take_every_connection(stage: &Limits) {
    let mut setup = stage.log_in(&APP2, true).unwrap();
    setup.query("CREATE TABLE app.taken (a INT)").unwrap();
    let mut clients: Vec<Client> = (0..18).map(|_| stage.log_in(&APP, true).unwrap()).collect();
    for client in &mut clients {
        client.query("BEGIN").unwrap();
        client.query("INSERT INTO app.taken VALUES (1)").unwrap();
    }
    let mut one_more = stage.log_in(&APP, true).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| one_more.query("INSERT INTO app.taken VALUES (2)").map(drop));
        let (done, time) = took(|| setup.query("INSERT INTO app.taken VALUES (3)"));
        done.unwrap();
        assert!(time < Duration::from_secs(5), "{time:?}");
        assert!(!waits.is_finished());
        clients.pop().unwrap().query("COMMIT").unwrap();
        waits.join().unwrap().unwrap();
    });
}
