//! Permits: how many, for whom, and when what the server allows changes.

use super::*;

fn budget(max: u32, reserved: u32) -> Arc<Budget> {
    let of_users = HashMap::from([("few".to_owned(), 1)]);
    Budget::new(BackendLimits { max, reserved, of_users }, vec![Arc::default(), Arc::default()])
}

fn server(max_connections: u32, max_user_connections: Option<u32>) -> ServerLimits {
    ServerLimits {
        max_connections,
        max_user_connections: max_user_connections.and_then(std::num::NonZeroU32::new),
        wait_timeout_s: 60,
        interactive_timeout_s: 28_800,
        reads_uncommitted: false,
    }
}

#[test]
fn permits_are_bounded_and_come_back() {
    let budget = budget(2, 0);
    assert_eq!(budget.share(), 1);
    let (count, app) = (Rc::default(), budget.claim("app", false));
    let first = budget.take(&count, &app);
    let second = budget.take(&count, &app);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::All(2));
    drop(first);
    assert_eq!((budget.open(), count.get()), (1, 1));
    assert!(budget.take(&count, &app).is_ok());
}

#[test]
fn what_is_reserved_is_never_anybody_elses() {
    let budget = budget(5, 2);
    let count = Rc::default();
    let (app, ops) = (budget.claim("app", false), budget.claim("ops", true));
    let apps: Vec<_> = (0..3).map(|_| budget.take(&count, &app).unwrap()).collect();
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::Unreserved(3));
    let mut first = budget.take(&count, &ops).unwrap();
    let second = budget.take(&count, &ops).unwrap();
    assert_eq!(budget.take(&count, &ops).unwrap_err(), Full::All(5));
    // A connection of theirs that is closed makes no room for others.
    assert!(!first.may_pass_to(&app) && !first.pass_to(&app));
    drop(second);
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::Unreserved(3));
    // The other way round it does.
    drop(first);
    let mut one = apps.into_iter().next().unwrap();
    assert!(one.may_pass_to(&ops) && one.pass_to(&ops));
    assert_eq!((budget.open(), count.get()), (1, 1));
    let again: Vec<_> = (0..3).map(|_| budget.take(&count, &app).unwrap()).collect();
    drop((one, again));
    assert_eq!((budget.open(), count.get()), (0, 0));
}

#[test]
fn more_administrators_than_reserved_take_from_all() {
    let budget = budget(3, 1);
    let count = Rc::default();
    let (app, ops) = (budget.claim("app", false), budget.claim("ops", true));
    let mut all: Vec<_> = (0..3).map(|_| budget.take(&count, &ops).unwrap()).collect();
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::Unreserved(2));
    assert!(all[0].pass_to(&app) && all[1].pass_to(&app) && !all[2].pass_to(&app));
}

#[test]
fn users_have_limits_of_their_own() {
    let budget = budget(5, 0);
    let count = Rc::default();
    let (app, few) = (budget.claim("app", false), budget.claim("few", false));
    let one = budget.take(&count, &few).unwrap();
    assert_eq!(budget.take(&count, &few).unwrap_err(), Full::User(1));
    let mut other = budget.take(&count, &app).unwrap();
    assert!(!other.may_pass_to(&few) && !other.pass_to(&few));
    drop(one);
    assert!(other.pass_to(&few));
    assert_eq!(budget.take(&count, &budget.claim("few", false)).unwrap_err(), Full::User(1), "one account");
    drop(other);
    assert_eq!(budget.open(), 0);
    assert!(budget.take(&count, &few).is_ok());
}

#[test]
fn the_servers_limits_hold_as_soon_as_they_are_known() {
    let budget = budget(100, 2);
    let (count, app) = (Rc::default(), budget.claim("app", false));
    let open: Vec<_> = (0..20).map(|_| budget.take(&count, &app).unwrap()).collect();
    budget.learn(&server(15, None));
    assert_eq!((budget.max(), budget.configured(), budget.reserved()), (10, 100, 2));
    assert!(budget.is_over());
    drop(open);
    let open: Vec<_> = (0..8).map(|_| budget.take(&count, &app).unwrap()).collect();
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::Unreserved(8));
    drop(open);
    budget.learn(&server(500, Some(4)));
    assert_eq!(budget.max(), 100);
    let open: Vec<_> = (0..3).map(|_| budget.take(&count, &app).unwrap()).collect();
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::User(3));
    assert!(budget.take(&count, &budget.claim("other", false)).is_ok());
    drop(open);
    // So few that nothing would be left: one connection at least.
    budget.learn(&server(2, None));
    assert_eq!((budget.max(), budget.reserved(), budget.share()), (1, 0, 1));
}

#[test]
fn idle_connections_go_before_the_server_closes_them() {
    let budget = budget(1, 0);
    assert_eq!(budget.idle_limit(false), None);
    budget.learn(&server(100, None));
    assert_eq!(budget.idle_limit(false), Some(Duration::from_secs(54)));
    assert_eq!(budget.idle_limit(true), Some(Duration::from_mins(432)));
    assert_eq!([10, 4, 3, 1].map(|limit| below(limit).as_millis()), [8000, 2000, 1500, 500]);
}

#[test]
fn who_waits_for_his_own_user_takes_nothing_from_others() {
    let budget = budget(5, 1);
    let count = Rc::default();
    let [app, few, ops] =
        [("app", false), ("few", false), ("ops", true)].map(|(user, is_admin)| budget.claim(user, is_admin));
    let [apps, own, admins] = [&app, &few, &ops].map(|claim| budget.take(&count, claim).unwrap());
    budget.begin_waiting(&few, Full::User(1));
    assert!(!budget.is_wanted_beyond(0));
    assert!(own.is_users_wanted_beyond(|_| 0) && !own.is_users_wanted_beyond(|_| 1));
    assert!(!apps.is_users_wanted_beyond(|_| 0) && !admins.is_users_wanted_beyond(|_| 0));
    budget.end_waiting(&few, Full::User(1));
    assert!(!own.is_users_wanted_beyond(|_| 0));

    // All that is everybody's is taken: what an administrator gives up helps nobody.
    let rest: Vec<_> = std::iter::from_fn(|| budget.take(&count, &app).ok()).collect();
    budget.begin_waiting(&app, Full::Unreserved(4));
    assert!(budget.is_wanted_beyond(0) && apps.helps_others() && !admins.helps_others());
    drop(own);
    assert!(admins.helps_others());
    drop(rest);
}

/// Whatever one user runs, others get connections.
#[test]
fn a_user_without_a_limit_of_its_own_leaves_some_to_others() {
    let budget = budget(100, 10);
    let count = Rc::default();
    let (app, other, ops) =
        (budget.claim("app", false), budget.claim("other", false), budget.claim("ops", true));
    let apps: Vec<_> = (0..81).map(|_| budget.take(&count, &app).unwrap()).collect();
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::User(81));
    let others: Vec<_> = (0..9).map(|_| budget.take(&count, &other).unwrap()).collect();
    assert_eq!(budget.take(&count, &other).unwrap_err(), Full::Unreserved(90));
    assert!((0..10).map(|_| budget.take(&count, &ops)).collect::<Vec<_>>().iter().all(Result::is_ok));
    drop((apps, others));
    // What the server allows counts: 20 less 5.
    budget.learn(&server(20, None));
    let few: Vec<_> = (0..5).map(|_| budget.take(&count, &app).unwrap()).collect();
    assert_eq!(budget.take(&count, &app).unwrap_err(), Full::Unreserved(5));
    drop(few);
}

#[test]
fn limits_change_while_connections_are_open() {
    let budget = Budget::new(BackendLimits { max: 10, ..BackendLimits::default() }, vec![Arc::default()]);
    let (count, app, few) = (Rc::default(), budget.claim("app", false), budget.claim("few", false));
    let open: Vec<_> = (0..5).map(|_| budget.take(&count, &app).unwrap()).collect();
    let own = budget.take(&count, &few).unwrap();
    // Smaller than what is open: nothing new, and what is over is closed when it comes back.
    let of_users = HashMap::from([("few".to_owned(), 1)]);
    budget.set(BackendLimits { max: 4, reserved: 1, of_users });
    assert!(budget.is_over());
    assert_eq!((budget.max(), budget.reserved(), budget.configured()), (4, 1, 4));
    assert!(budget.take(&count, &app).is_err());
    drop(open);
    assert!(!budget.is_over());
    assert_eq!(budget.take(&count, &few).unwrap_err(), Full::User(1), "also for one that was known before");
    drop(own);
    // And larger again.
    budget.set(BackendLimits { max: 20, ..BackendLimits::default() });
    let again: Vec<_> = (0..15).map(|_| budget.take(&count, &few).unwrap()).collect();
    assert_eq!(again.len(), 15);
}
