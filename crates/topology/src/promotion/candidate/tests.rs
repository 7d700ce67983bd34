//! Who takes the role, and who never does.

use std::sync::Arc;
use std::time::Duration;

use delphinus_wire::gtid::GtidSet;

use super::*;
use crate::identity::Identity;
use crate::promotion::relay::{RelayId, RelayStanding};
use crate::promotion::standing::{Events, SemiSync, StartsReadOnly};

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

pub(in crate::promotion) fn server(id: u16, executed: u64, received: u64) -> Server {
    let name: Arc<str> = format!("db{id}").into();
    let set = |last: u64| Arc::new(GtidSet::parse(&format!("{A}:1-{last}")).unwrap());
    let source = Source {
        channel: "".into(),
        host: "db0".into(),
        port: 3306,
        identity: Identity::default(),
        receiver: Receiver::Running,
        misses_it: false,
        applier_stopped: None,
        delay: Duration::ZERO,
        is_filtered: false,
        by_gtid: true,
        lag: None,
    };
    let standing = Standing {
        flavor: Flavor::MySql,
        version: 80_400,
        identity: Identity { number: u32::from(id) + 1, uuid: if id == 0 { A.into() } else { name.clone() } },
        guard: if id == 0 { Guard::Open } else { Guard::Closed },
        executed: set(executed),
        received: set(received),
        written: None,
        sources: if id == 0 { Vec::new() } else { vec![source] },
        semi_sync: SemiSync::default(),
        logs: true,
        logs_applied: true,
        events: Ok(Events::default()),
        group: None,
        followers: None,
        missing_rights: Arc::default(),
        lacks_system_user: false,
        starts_read_only: StartsReadOnly::Yes,
        uptime: Duration::from_secs(1_000),
    };
    Server { id: BackendId(id), name: name.clone(), host: name, port: 3306, seen: Ok(standing) }
}

/// One that acknowledges to `db0` and has so much of its log.
pub(in crate::promotion) fn relay(last: u64) -> Relay {
    let own = RelayStanding {
        source: Some(A.into()),
        follows: Some("db0".into()),
        is_receiving: true,
        is_acknowledging: true,
        has: Arc::new(GtidSet::parse(&format!("{A}:1-{last}")).unwrap()),
        ..RelayStanding::default()
    };
    Relay { id: RelayId(0), name: "r".into(), host: "r".into(), port: 3306, number: 999, seen: Ok(own) }
}

fn change(server: &mut Server, what: impl FnOnce(&mut Standing)) {
    if let Ok(standing) = &mut server.seen {
        what(standing);
    }
}

#[test]
fn those_that_can_never_take_it_say_why() {
    type Change = fn(&mut Standing);
    let cases: [(Change, &str); 10] = [
        (|one| one.sources[0].delay = Duration::from_secs(5), "delayed by 5 s"),
        (|one| one.sources[0].is_filtered = true, "filters"),
        (|one| one.sources[0].by_gtid = false, "does not follow by GTIDs"),
        (|one| one.logs = false, "no binary log"),
        (|one| one.logs_applied = false, "log_replica_updates is off"),
        (|one| one.version = 90_000, "newer than db0"),
        (|one| one.sources.clear(), "follows no server"),
        (|one| one.sources[0].host = "db9".into(), "follows db9:3306"),
        (|one| one.guard = Guard::Open, "takes writes"),
        (
            |one| one.executed = Arc::new(GtidSet::parse("4e11fa47-71ca-11e1-9e33-c80aa9429562:7").unwrap()),
            "transactions of its own",
        ),
    ];
    for (what, why) in cases {
        let mut servers = [server(0, 9, 9), server(1, 9, 9), server(2, 9, 9)];
        assert_eq!(unfit(&servers[1], &servers[0], (&servers, &[])), None);
        change(&mut servers[1], what);
        let found = unfit(&servers[1], &servers[0], (&servers, &[])).unwrap_or_default();
        assert!(found.contains(why), "{why}: {found}");
    }
    // What the primary has written since it was asked is no transaction of the replica's own.
    let servers = [server(0, 9, 9), server(1, 12, 12)];
    assert_eq!(unfit(&servers[1], &servers[0], (&servers, &[])), None);
}

#[test]
fn of_a_lost_primary_whoever_has_received_most_comes_first() {
    let lost = |servers: &mut Vec<Server>| servers[0].seen = Err("gone".into());
    let mut servers = vec![server(0, 9, 9), server(1, 5, 8), server(2, 6, 7), server(3, 8, 8)];
    lost(&mut servers);
    let choose =
        |servers: &[Server], wanted: &Wanted| choose(&servers[0], (servers, &[]), wanted, &Proof::default());
    let wanted = Wanted::default();
    // Two have all: the one that has applied it.
    assert_eq!(choose(&servers, &wanted), Ok(Choice { to: BackendId(3), lost: None }));
    let preferred = Wanted { prefer: vec![BackendId(2), BackendId(1)], ..Wanted::default() };
    assert_eq!(choose(&servers, &preferred).unwrap().to, BackendId(1));
    // One that has less is not taken because somebody wants it, without a word.
    let named = Wanted { to: Some(BackendId(2)), ..Wanted::default() };
    assert!(choose(&servers, &named).unwrap().lost.unwrap().contains("has received more than db2"));
    let never = Wanted { never: vec![BackendId(1), BackendId(2), BackendId(3)], ..Wanted::default() };
    assert!(choose(&servers, &never).unwrap_err().contains("never names it"));
    change(&mut servers[1], |one| {
        one.received = Arc::new(GtidSet::parse(&format!("{A}:1-7:20")).unwrap());
    });
    assert!(choose(&servers, &wanted).unwrap_err().contains("that another one lacks"));
}

#[test]
fn one_that_has_transactions_of_its_own_is_taken_only_by_an_operators_word() {
    const OWN: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562:1";
    let mut servers = vec![server(0, 9, 9), server(1, 9, 9), server(2, 8, 8)];
    change(&mut servers[2], |one| {
        Arc::make_mut(&mut one.executed).merge(&GtidSet::parse(OWN).unwrap());
        one.received = one.executed.clone();
    });
    let mut proof = Proof::default();
    let now = std::time::Instant::now();
    (0..2).for_each(|_| proof.watch(&servers[0], (&servers, &[]), now));
    servers[0].seen = Err("gone".into());
    let choose = |servers: &[Server], wanted: &Wanted| choose(&servers[0], (servers, &[]), wanted, &proof);
    // It lags, and neither of the two would have all.
    assert_eq!(choose(&servers, &Wanted::default()), Ok(Choice { to: BackendId(1), lost: None }));
    change(&mut servers[1], |one| one.received = server(1, 7, 7).standing().unwrap().received.clone());
    let told = choose(&servers, &Wanted::default()).unwrap().lost.unwrap();
    assert!(told.contains("db2 has received more than db1"), "{told}");
    // It would be the only one that has all.
    change(&mut servers[1], |one| one.received = server(1, 8, 8).standing().unwrap().received.clone());
    assert_eq!(choose(&servers, &Wanted::default()), Ok(Choice { to: BackendId(1), lost: None }));
    let mut named = Wanted { to: Some(BackendId(2)), ..Wanted::default() };
    let refused = choose(&servers, &named).unwrap_err();
    assert!(refused.contains(&format!("db2: it has transactions of its own: {OWN}")), "{refused}");
    named.on_loss = OnLoss::Proceed;
    let choice = choose(&servers, &named).unwrap();
    assert!(choice.to == BackendId(2) && choice.lost.unwrap().contains(OWN));
}

#[test]
fn a_switchover_takes_a_preferred_one_and_else_the_furthest() {
    let mut servers = vec![server(0, 9, 9), server(1, 5, 8), server(2, 8, 8)];
    let next = |servers: &[Server], wanted: &Wanted| choose_next(&servers[0], (servers, &[]), wanted);
    assert_eq!(next(&servers, &Wanted::default()), Ok(BackendId(2)));
    let preferred = Wanted { prefer: vec![BackendId(1)], ..Wanted::default() };
    assert_eq!(next(&servers, &preferred), Ok(BackendId(1)));
    change(&mut servers[1], |one| one.sources[0].applier_stopped = Some("1062".into()));
    assert_eq!(next(&servers, &preferred), Ok(BackendId(2)));
    servers[2].seen = Err("gone".into());
    let refused = next(&servers, &preferred).unwrap_err();
    assert!(
        refused.contains("db1: its applier is stopped: 1062") && refused.contains("db2: it does not answer")
    );
}
