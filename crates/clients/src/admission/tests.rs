//! Who gets in, who is refused, and which login makes way.

use super::*;

fn limits(max_connections: u32, reserved: u32) -> ClientLimits {
    ClientLimits { max_connections, reserved, ..ClientLimits::default() }
}

fn source(ip: &str) -> Source {
    Source::of(Some(ip.parse().unwrap()))
}

fn newcomer(user: &str, rank: Rank) -> Newcomer {
    Newcomer { user: user.into(), rank, limit: None, source: source("10.0.0.1") }
}

fn app() -> Newcomer {
    newcomer("app", Rank::Ordinary)
}

fn admin() -> Newcomer {
    newcomer("ops", Rank::ConnectionAdmin)
}

/// A whole login.
fn log_in(admission: &Admission, newcomer: &Newcomer) -> Result<(), Refusal> {
    let (number, _) = admission.arrive(newcomer.source).ok_or(Refusal::Clients)?;
    let entered = admission.is_from(number, newcomer.source).and_then(|()| admission.enter(number, newcomer));
    admission.login_ends(number);
    entered
}

fn times(count: usize, admission: &Admission, newcomer: &Newcomer) {
    for _ in 0..count {
        assert_eq!(log_in(admission, newcomer), Ok(()));
    }
}

#[test]
fn ordinary_users_never_take_what_is_reserved() {
    let admission = Admission::new(limits(5, 2));
    times(3, &admission, &app());
    assert_eq!(log_in(&admission, &app()), Err(Refusal::Clients));
    times(2, &admission, &admin());
    assert_eq!(log_in(&admission, &admin()), Err(Refusal::Clients));
    // One of them goes: his place is not for everybody.
    admission.leave("ops", Rank::ConnectionAdmin, source("10.0.0.1"));
    assert_eq!(log_in(&admission, &app()), Err(Refusal::Clients));
    times(1, &admission, &admin());
    admission.leave("app", Rank::Ordinary, source("10.0.0.1"));
    times(1, &admission, &app());
}

#[test]
fn without_a_reserve_a_client_too_many_does_not_even_begin() {
    let admission = Admission::new(limits(2, 0));
    let first = admission.arrive(Source::default()).unwrap();
    times(1, &admission, &app());
    assert!(admission.arrive(Source::default()).is_none());
    admission.login_ends(first.0);
    assert!(admission.arrive(Source::default()).is_some());
}

fn is_rung(bell: &Bell) -> bool {
    use std::future::Future;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(bell.rung()).poll(&mut context).is_ready()
}

#[test]
fn half_open_logins_make_way_for_the_newest() {
    let admission = Admission::new(limits(1000, 1));
    let flood: Vec<_> = (0..10_000).map(|_| admission.arrive(source("10.0.0.9")).unwrap()).collect();
    assert_eq!(admission.attendance().logins, 1000 + MORE_LOGINS);
    assert!(is_rung(&flood[0].1) && !is_rung(&flood[9_999].1));
    // Somebody from elsewhere stays, whatever goes on coming.
    let (number, evicted) = admission.arrive(source("10.0.0.1")).unwrap();
    for _ in 0..10_000 {
        admission.arrive(source("10.0.0.9")).unwrap();
    }
    assert!(!is_rung(&evicted));
    assert_eq!(admission.enter(number, &admin()), Ok(()));
    // Who had to make way does not come in by the end of his login.
    assert_eq!(admission.enter(flood[0].0, &app()), Err(Refusal::Clients));
    for (number, _) in flood {
        admission.login_ends(number);
    }
    assert_eq!(admission.attendance().logins, 1000 + MORE_LOGINS - 1);
}

#[test]
fn a_flood_from_everywhere_leaves_time_for_a_login() {
    let admission = Admission::new(limits(10, 1));
    times(9, &admission, &app());
    let (number, evicted) = admission.arrive(source("10.0.0.1")).unwrap();
    for at in 0..MORE_LOGINS {
        admission.arrive(source(&format!("10.1.{}.{}", at / 256, at % 256))).unwrap();
    }
    assert!(!is_rung(&evicted));
    assert_eq!(admission.enter(number, &admin()), Ok(()));
}

#[test]
fn users_have_their_own_limit_or_that_of_all() {
    let admission = Admission::new(ClientLimits { per_user: Some(2), ..limits(100, 1) });
    times(2, &admission, &app());
    assert_eq!(log_in(&admission, &app()), Err(Refusal::EveryUser(2)));
    let own = Newcomer { limit: Some(3), ..newcomer("batch", Rank::Ordinary) };
    times(3, &admission, &own);
    assert_eq!(log_in(&admission, &own), Err(Refusal::User(3)));
    times(5, &admission, &admin());
    let own = Newcomer { limit: Some(5), ..admin() };
    assert_eq!(log_in(&admission, &own), Err(Refusal::User(5)));
}

#[test]
fn addresses_have_a_limit_and_sockets_have_not() {
    let admission = Admission::new(ClientLimits { per_address: Some(2), ..limits(1000, 0) });
    times(2, &admission, &app());
    assert_eq!(log_in(&admission, &app()), Err(Refusal::Address(2)));
    times(2, &admission, &Newcomer { source: source("10.0.0.2"), ..app() });
    times(9, &admission, &Newcomer { source: Source::default(), ..app() });
    // A half-open login counts.
    let (number, _) = admission.arrive(source("fd00::1")).unwrap();
    assert_eq!(admission.is_from(number, source("fd00::1")), Ok(()));
    times(1, &admission, &Newcomer { source: source("fd00::2"), ..app() });
    assert_eq!(
        log_in(&admission, &Newcomer { source: source("fd00::3"), ..app() }),
        Err(Refusal::Address(2)),
        "one network"
    );
    times(1, &admission, &Newcomer { source: source("fd00:0:0:1::3"), ..app() });
    assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
}

#[test]
fn an_administrator_gets_in_from_an_address_that_is_full() {
    let admission = Admission::new(ClientLimits { per_address: Some(2), ..limits(1000, 1) });
    times(2, &admission, &app());
    let half_open: Vec<_> = (0..500)
        .map(|_| {
            let (number, evicted) = admission.arrive(source("10.0.0.1")).unwrap();
            assert_eq!(admission.is_from(number, source("10.0.0.1")), Ok(()));
            (number, evicted)
        })
        .collect();
    assert_eq!(admission.attendance().logins, MORE_LOGINS);
    assert!(is_rung(&half_open[0].1));
    assert_eq!(log_in(&admission, &app()), Err(Refusal::Address(2)));
    times(1, &admission, &admin());
}

#[test]
fn another_user_is_another_place() {
    let admission = Admission::new(limits(3, 1));
    times(2, &admission, &app());
    times(1, &admission, &admin());
    assert_eq!(admission.change(("ops", Rank::ConnectionAdmin), &app()), Err(Refusal::Clients));
    assert_eq!(admission.attendance().administrators, 1);
    assert_eq!(admission.change(("app", Rank::Ordinary), &app()), Ok(()));
    admission.leave("app", Rank::Ordinary, source("10.0.0.1"));
    assert_eq!(admission.change(("ops", Rank::ConnectionAdmin), &app()), Ok(()));
    assert_eq!(admission.attendance(), Attendance { logins: 0, administrators: 0, busiest_address: 2 });
    times(1, &admission, &admin());
}

/// Logins that wait because others have failed keep nobody out.
#[test]
fn who_waits_has_no_place() {
    let admission = Admission::new(ClientLimits { per_address: Some(2), ..limits(2, 0) });
    let (first, _) = admission.arrive(source("10.0.0.1")).unwrap();
    let (second, _) = admission.arrive(source("10.0.0.1")).unwrap();
    assert!(admission.arrive(source("10.0.0.1")).is_none());
    admission.rest(first);
    admission.rest(first);
    admission.rest(second);
    times(2, &admission, &app());
    assert_eq!(admission.resume(first), Err(Refusal::Clients));
    admission.leave("app", Rank::Ordinary, source("10.0.0.1"));
    assert_eq!(admission.resume(first), Ok(()));
    assert_eq!(admission.resume(second), Err(Refusal::Clients));
    assert_eq!(admission.enter(first, &app()), Ok(()));
    admission.login_ends(second);
    assert_eq!(admission.attendance(), Attendance { logins: 0, administrators: 0, busiest_address: 2 });
}
