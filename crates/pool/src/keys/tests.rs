//! Which key is tried where, and for how long it is trusted. The clock is an argument.

use super::*;

const DB1: BackendId = BackendId(0);
const DB2: BackendId = BackendId(1);

fn plain(password: &str) -> BackendSecret {
    BackendSecret::Plain(Password::new(password))
}

fn denied() -> ErrPacket {
    ErrPacket { code: 1045, state: *b"28000", message: b"Access denied".to_vec() }
}

fn order(keys: &Keys, backend: BackendId, now: Instant) -> Vec<BackendSecret> {
    keys.for_backend(backend, now).unwrap().into_iter().map(|(_, secret)| secret).collect()
}

fn id(keys: &Keys, secret: &BackendSecret, now: Instant) -> KeyId {
    let list = keys.for_backend(DB1, now).unwrap();
    list.into_iter().find(|(_, one)| one == secret).expect("a known key").0
}

#[test]
fn each_backend_is_asked_with_what_it_took_last() {
    let now = Instant::now();
    let keys = Keys::listed([plain("new"), plain("old")]);
    assert_eq!(order(&keys, DB1, now), [plain("new"), plain("old")]);
    keys.refused(DB1, id(&keys, &plain("new"), now));
    keys.accepted(DB1, id(&keys, &plain("old"), now));
    assert_eq!(order(&keys, DB1, now), [plain("old"), plain("new")]);
    assert_eq!(order(&keys, DB2, now), [plain("new"), plain("old")]);
    assert_eq!(keys.first_for(DB1).map(|(_, secret)| secret), Some(plain("old")));
    // The other way round once the old one is discarded.
    keys.refused(DB1, id(&keys, &plain("old"), now));
    assert_eq!(order(&keys, DB1, now), [plain("new"), plain("old")]);
}

#[test]
fn a_backend_that_has_refused_everything_is_left_alone_for_longer_and_longer() {
    let mut now = Instant::now();
    let keys = Keys::listed([plain("a")]);
    let mut waited = Vec::new();
    for _ in 0..8 {
        keys.refused_all(DB1, denied(), now);
        assert_eq!(keys.for_backend(DB1, now), Err(denied()));
        assert!(keys.for_backend(DB2, now).is_ok());
        let began = now;
        while keys.for_backend(DB1, now).is_err() {
            now += Duration::from_millis(50);
        }
        waited.push((now - began).as_millis());
    }
    assert_eq!(waited, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
    keys.refused_all(DB1, denied(), now);
    keys.distrust();
    assert!(keys.for_backend(DB1, now).is_ok(), "an account was changed: it may be asked again");
    keys.refused_all(DB1, denied(), now);
    keys.learn(&plain("b"), Trust::Never);
    assert!(keys.for_backend(DB1, now).is_ok(), "there is something new to try");
}

#[test]
fn trust_ends_with_its_time_and_with_every_sign_of_a_change() {
    let now = Instant::now();
    let end = now + Duration::from_mins(1);
    let trusted = |keys: &Keys, now| keys.trusted(now);
    let keys = Keys::default();
    keys.learn(&plain("a"), Trust::Until(end));
    assert_eq!(trusted(&keys, now), [Password::new("a")]);
    assert!(trusted(&keys, end).is_empty() && keys.is_untrusted(end) && !keys.is_untrusted(now));
    // A session's login does not change what is trusted.
    keys.learn(&plain("a"), Trust::Never);
    assert_eq!(trusted(&keys, now), [Password::new("a")]);

    keys.learn(&plain("b"), Trust::Until(end));
    assert_eq!(trusted(&keys, now), [Password::new("b")], "a new password: the old one is checked again");
    keys.learn(&plain("a"), Trust::Until(end));
    assert_eq!(trusted(&keys, now).len(), 2, "both are right: the server has two");

    keys.refused(DB2, id(&keys, &plain("a"), now));
    assert_eq!(trusted(&keys, now), [Password::new("b")], "a backend refused it");
    keys.distrust();
    assert!(trusted(&keys, now).is_empty(), "an account was changed");
    assert_eq!(order(&keys, DB2, now).len(), 2, "sessions may still need them");
}

#[test]
fn what_the_file_lists_is_not_doubted() {
    let now = Instant::now();
    let keys = Keys::default();
    keys.learn(&plain("a"), Trust::Always);
    keys.distrust();
    keys.refused(DB1, id(&keys, &plain("a"), now));
    assert_eq!(keys.trusted(now), [Password::new("a")]);
}

#[test]
fn no_more_than_two_are_kept_and_the_useless_go_first() {
    let now = Instant::now();
    let end = now + Duration::from_mins(1);
    let keys = Keys::default();
    for password in ["a", "b"] {
        keys.learn(&plain(password), Trust::Until(end));
    }
    keys.learn(&plain("a"), Trust::Until(end));
    keys.learn(&plain("c"), Trust::Never);
    assert_eq!(order(&keys, DB1, now), [plain("c"), plain("b")]);
    keys.learn(&plain("d"), Trust::Until(end));
    assert_eq!(order(&keys, DB1, now), [plain("d"), plain("c")]);
}

#[test]
fn nothing_secret_is_printed() {
    let keys = Keys::listed([plain("hunter2")]);
    assert!(!format!("{keys:?}").contains("hunter2"));
}

#[test]
fn a_refusal_is_told_once_a_minute() {
    let now = Instant::now();
    let keys = Keys::listed([plain("a")]);
    let tell = |backend, seconds| {
        let error = ErrPacket { code: 1045, state: *b"28000", message: b"Access denied".to_vec() };
        keys.refused_all(backend, error, now + Duration::from_secs(seconds))
    };
    assert_eq!(
        [tell(DB1, 0), tell(DB1, 1), tell(DB2, 1), tell(DB1, 59), tell(DB1, 60)],
        [true, false, true, false, true]
    );
    keys.accepted(DB1, id(&keys, &plain("a"), now + Duration::from_hours(1)));
    assert!(tell(DB1, 61), "it has taken it in between");
}
