//! What is remembered of users, and when it is forgotten. No backend is asked here.

use delphinus_wire::auth::caching_sha2;

use super::*;

fn settings(max_verifiers: usize, verifier_ttl: Duration) -> BackendAuth {
    BackendAuth { unlisted: true, verifier_ttl, max_verifiers, max_backend_logins: 1 }
}

fn user(credential: Credential, secondary: Option<Credential>) -> User {
    User {
        from: Addresses::default(),
        credential,
        secondary,
        plugin: None,
        default_schema: None,
        consistency: None,
        explain_route: None,
        max_connections: None,
        rank: Rank::Ordinary,
        shares_connections: true,
    }
}

fn plain(text: &str) -> Credential {
    Credential::Plain(Password::new(text))
}

/// `app`, and one whose password a backend checks.
fn listed() -> HashMap<String, User> {
    let app = user(plain("new"), Some(plain("old")));
    HashMap::from([("app".to_owned(), app), ("asked".to_owned(), user(Credential::Backend, None))])
}

fn users(max_verifiers: usize, ttl: Duration) -> Users {
    Users::new(listed(), settings(max_verifiers, ttl))
}

const MINUTE: Duration = Duration::from_mins(1);

fn verified(users: &Users, name: &str) -> Vec<Password> {
    users.record(name, None).verified
}

/// After a login that has begun now.
fn keys_of(users: &Users, name: &str, secret: &BackendSecret) -> Arc<Keys> {
    users.keys(name, (secret, &users.record(name, None)))
}

fn verify(users: &Users, name: &str, password: &Password, now: Instant) {
    users.verify(name, (password, users.state_of(name)), now);
}

#[test]
fn what_is_proved_while_accounts_change_is_not_remembered() {
    let users = users(10, MINUTE);
    let right = Password::new("right");
    let (asked, now) = (users.state_of("bob"), rt::now());
    users.accounts_changed();
    users.verify("bob", (&right, asked), now);
    assert!(verified(&users, "bob").is_empty(), "it may have been the old one");
    let session = keys_of(&users, "bob", &BackendSecret::Plain(right.clone()));
    let asked = users.state_of("bob");
    session.have_changed();
    users.verify("bob", (&right, asked), now);
    assert!(verified(&users, "bob").is_empty());
    verify(&users, "bob", &right, now);
    verify(&users, "carl", &right, now);
    session.have_changed();
    assert!(verified(&users, "bob").is_empty(), "its own");
    assert_eq!(verified(&users, "carl"), [right], "not that of others");
}

#[test]
fn after_a_refusal_the_primary_is_asked_again() {
    let users = users(10, MINUTE);
    let (right, now) = (Password::new("right"), rt::now());
    users.has_refused("bob");
    verify(&users, "bob", &right, now);
    assert_eq!(verified(&users, "bob"), std::slice::from_ref(&right));
    users.has_refused("bob");
    assert!(verified(&users, "bob").is_empty() && !users.is_verified("bob", &right, now));
    assert!(users.was_verified("bob", &right, now), "where it cannot be asked");
    assert!(!users.was_verified("bob", &Password::new("wrong"), now));
    verify(&users, "bob", &right, now);
    assert_eq!(verified(&users, "bob"), [right]);
}

#[test]
fn what_is_remembered_ends_with_its_time_and_with_a_change() {
    let users = users(10, MINUTE);
    let right = Password::new("right");
    let now = rt::now();
    for name in ["bob", "asked"] {
        assert!(verified(&users, name).is_empty());
        verify(&users, name, &right, now);
        assert_eq!(verified(&users, name), std::slice::from_ref(&right), "{name}");
        assert!(users.is_verified(name, &right, now));
        assert!(!users.is_verified(name, &Password::new("wrong"), now));
        assert!(!users.is_verified(name, &right, now + MINUTE), "its time is over");
    }
    users.accounts_changed();
    assert!(verified(&users, "bob").is_empty() && verified(&users, "asked").is_empty());
    assert!(users.checked().values().all(|one| one.keys.strong_count() == 0), "nobody holds the password");
}

#[test]
fn a_password_lives_as_long_as_a_session_or_its_trust() {
    let users = users(10, MINUTE);
    let right = Password::new("right");
    verify(&users, "bob", &right, rt::now());
    let session = keys_of(&users, "bob", &BackendSecret::Plain(right.clone()));
    let trusted = session.trusted(rt::now());
    assert_eq!(trusted, std::slice::from_ref(&right), "a session's login takes no trust away");
    users.accounts_changed();
    users.tick();
    assert!(verified(&users, "bob").is_empty());
    assert!(session.first_for(delphinus_topology::BackendId(0)).is_some(), "the session still has it");
    drop(session);
    users.tick();
    assert!(users.checked().is_empty(), "and nobody after it");
    // Without trust only sessions keep it.
    let users = self::users(10, Duration::ZERO);
    verify(&users, "bob", &right, rt::now());
    assert!(verified(&users, "bob").is_empty());
}

#[test]
fn the_number_of_remembered_users_is_bounded() {
    let users = users(3, MINUTE);
    let start = rt::now();
    for number in 0_u32..10 {
        verify(
            &users,
            &format!("u{number}"),
            &Password::new("p"),
            start + Duration::from_secs(number.into()),
        );
    }
    let known: Vec<u32> = (0..10).filter(|n| !verified(&users, &format!("u{n}")).is_empty()).collect();
    assert_eq!(known, [7, 8, 9]);
    users.tick();
    assert_eq!(users.checked().len(), 3);
}

#[test]
fn listed_users_come_first_and_both_of_their_passwords_serve_backends() {
    let users = users(10, MINUTE);
    verify(&users, "app", &Password::new("of the server"), rt::now());
    let record = users.record("app", None);
    assert_eq!(record.credential, Credential::Plain(Password::new("new")));
    assert_eq!(record.secondary, Some(Credential::Plain(Password::new("old"))));
    assert!(record.verified.is_empty());
    let keys = keys_of(&users, "app", &BackendSecret::Plain(Password::new("old")));
    let list = keys.for_backend(delphinus_topology::BackendId(0), rt::now()).unwrap();
    let secrets: Vec<_> = list.into_iter().map(|(_, secret)| secret).collect();
    assert_eq!(secrets, ["new", "old"].map(|text| BackendSecret::Plain(Password::new(text))));
}

#[test]
fn unknown_users_are_decoys_unless_a_backend_is_asked() {
    let users = users(10, MINUTE);
    assert_eq!(users.record("nobody", None).credential, Credential::Backend);
    users.follow(listed(), BackendAuth { unlisted: false, ..settings(10, MINUTE) });
    // Of each kind that there is, always the same for a name.
    let kinds =
        |number| matches!(users.record(&format!("nobody{number}"), None).credential, Credential::Backend);
    let asked: Vec<_> = (0..100).map(kinds).collect();
    assert!(asked.contains(&true) && asked.contains(&false));
    assert_eq!(asked, (0..100).map(kinds).collect::<Vec<_>>());
    assert!(users.may_come("asked", None) && !users.may_come("nobody1", None));
}

#[test]
fn users_change_while_it_runs_and_only_those_who_changed_are_asked_again() {
    let users = users(10, MINUTE);
    let secret = |text| BackendSecret::Plain(Password::new(text));
    let (before, bob) = (keys_of(&users, "app", &secret("new")), keys_of(&users, "bob", &secret("pw")));
    let epochs = (before.epoch(), bob.epoch());
    // Another limit, and one more user: what is known of passwords stays.
    let mut next = listed();
    next.get_mut("app").unwrap().max_connections = Some(7);
    next.insert("more".to_owned(), user(plain("more"), None));
    users.follow(next, settings(10, MINUTE));
    assert_eq!(users.find("app").unwrap().max_connections, Some(7));
    assert!(Arc::ptr_eq(&keys_of(&users, "app", &secret("new")), &before) && users.may_come("more", None));
    assert_eq!((before.epoch(), bob.epoch()), epochs);
    // Another password: for its next logins connections of the former one do not serve any more.
    let mut next = listed();
    next.insert("more".to_owned(), user(plain("more"), None));
    next.insert("app".to_owned(), user(plain("newest"), Some(plain("new"))));
    users.follow(next, settings(10, MINUTE));
    assert_eq!(users.record("app", None).credential, plain("newest"));
    let after = keys_of(&users, "app", &secret("newest"));
    assert!(Arc::ptr_eq(&after, &before) && after.epoch() > epochs.0, "also for its sessions that are there");
    let list = after.for_backend(delphinus_topology::BackendId(0), rt::now()).unwrap();
    let secrets: Vec<_> = list.into_iter().map(|(_, secret)| secret).collect();
    assert_eq!(secrets, ["newest", "new"].map(secret));
    assert_eq!(bob.epoch(), epochs.1, "nobody else");
    // One who is not listed any more counts like any other.
    let mut next = listed();
    next.remove("app");
    users.follow(next, BackendAuth { unlisted: false, ..settings(10, MINUTE) });
    assert!(users.find("app").is_none() && !users.may_come("app", None));
    assert!(bob.epoch() > epochs.1);
}

#[test]
fn a_login_that_began_before_another_password_was_listed_does_not_bring_the_old_one_back() {
    let (old, new) = (Password::new("old"), Password::new("new"));
    let hash = |password: &Password| {
        Credential::Sha2Hash(caching_sha2::StoredHash::new(password.expose(), *b"0123456789abcdefghij"))
    };
    let lists = |credential| HashMap::from([("app".to_owned(), user(credential, None))]);
    let first = |keys: &Keys| keys.first_for(delphinus_topology::BackendId(0)).map(|(_, secret)| secret);
    for before in [hash(&old), Credential::Backend, plain("old")] {
        let users = Users::new(lists(before.clone()), settings(10, MINUTE));
        let begun = users.record("app", None);
        users.follow(lists(hash(&new)), settings(10, MINUTE));
        let late = users.keys("app", (&BackendSecret::Plain(old.clone()), &begun));
        assert!(verified(&users, "app").is_empty(), "{before:?}: the old password would be right for ever");
        assert_eq!(first(&late), None, "{before:?}");
        let keys = keys_of(&users, "app", &BackendSecret::Plain(new.clone()));
        assert_eq!(verified(&users, "app"), std::slice::from_ref(&new));
        assert_eq!(first(&keys), Some(BackendSecret::Plain(new.clone())));
    }
    // Another change of the user, and a login by the hash of now.
    let users = Users::new(lists(hash(&old)), settings(10, MINUTE));
    let begun = users.record("app", None);
    let mut next = lists(hash(&old));
    next.get_mut("app").unwrap().max_connections = Some(7);
    users.follow(next, settings(10, MINUTE));
    users.keys("app", (&BackendSecret::Plain(old.clone()), &begun));
    assert_eq!(verified(&users, "app"), [old]);
}
