//! What is done before a server takes writes, and where that fails.

use super::*;
use crate::promotion::candidate::{choose, tests::server};
use crate::promotion::standing::AsSource;
use crate::promotion::{Limits, Next, Wanted, next};

/// All have been taken over, and sessions wait.
fn plan(kind: Move, servers: &[Server]) -> Plan {
    let mut plan = Plan::new(kind, BackendId(0), Wanted::default(), Limits::default());
    plan.taken_over = servers.iter().map(|server| server.id).collect();
    (plan.to, plan.held) = (Some(BackendId(1)), Some(Instant::now()));
    plan
}

fn close(server: &mut Server) {
    server.seen.as_mut().unwrap().guard = Guard::Closed;
}

#[test]
fn what_was_written_by_hand_before_the_new_primary_is_open_is_fetched() {
    let (mut servers, now) = (vec![server(0, 9, 9), server(1, 5, 5)], Instant::now());
    servers[1].seen.as_mut().unwrap().sources.clear();
    let mut plan = plan(Move::Switchover, &servers);
    (plan.is_opening, plan.frozen) = (true, Some(servers[1].standing().unwrap().executed.clone()));
    // Somebody has opened the old one again, and written there.
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Close(BackendId(0))]));
    close(&mut servers[0]);
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::EndSessions(BackendId(0))]));
    plan.done(&Step::EndSessions(BackendId(0)), now);
    let fetch = Step::Attach { on: BackendId(1), to: BackendId(0) };
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![fetch]));
}

#[test]
fn a_move_ends_where_both_have_something_that_the_other_has_not() {
    let (mut servers, now) = (vec![server(0, 9, 9), server(1, 10, 10)], Instant::now());
    let mut plan = plan(Move::Switchover, &servers);
    plan.is_opening = true;
    let told = next(&mut plan, &servers, now);
    assert!(matches!(&told, Next::Stuck(why) if why.contains("check which of the two")), "{told:?}");
    assert_eq!(plan.is_overtaken(&servers).map(|one| one.id), Some(BackendId(0)));
    close(&mut servers[0]);
    assert!(plan.is_overtaken(&servers).is_none(), "nobody has opened it");
}

#[test]
fn a_lost_primary_that_was_closed_is_opened_again_when_the_move_is_undone() {
    let (mut servers, now) = (vec![server(0, 9, 9), server(1, 5, 5)], Instant::now());
    let mut plan = plan(Move::Failover, &servers);
    plan.to = None;
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Close(BackendId(0))]));
    assert!(plan.has_closed);
    close(&mut servers[0]);
    plan.done(&Step::EndSessions(BackendId(0)), now);
    assert!(plan.undo("the candidate is late"));
    let gone = Err("no answer".into());
    let back = std::mem::replace(&mut servers[0].seen, gone);
    assert_eq!(next(&mut plan, &servers, now), Next::Wait(Waiting::Closed));
    let late = now + plan.limits.others;
    assert!(matches!(next(&mut plan, &servers, late), Next::Stuck(_)), "whoever goes on opens it");
    assert!(plan.is_unfinished());
    servers[0].seen = back;
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Open(BackendId(0))]));
}

#[test]
fn an_actor_that_has_not_seen_the_primary_wants_to_see_all_replicas_shut() {
    let now = Instant::now();
    let mut servers: Vec<_> = (0..3).map(|id| server(id, 5, 5)).collect();
    servers[0].seen = Err("no answer".into());
    let stopped = |server: &mut Server| {
        server.seen.as_mut().unwrap().sources[0].receiver = Receiver::Stopped("".into());
    };
    servers[1..].iter_mut().for_each(stopped);
    let goes_on = |servers: &[Server]| {
        let mut plan = plan(Move::Failover, servers);
        next(&mut plan, servers, now);
        plan.undoing
    };
    assert_eq!(goes_on(&servers), None);
    let mut more = servers.clone();
    more[2].seen = server(2, 6, 6).seen;
    stopped(&mut more[2]);
    assert!(goes_on(&more).unwrap().contains("db2 has received more"));
    servers[2].seen = Err("no answer".into());
    assert!(goes_on(&servers).unwrap().contains("db2 cannot be asked"));
}

#[test]
fn the_new_primary_waits_as_one_did_that_had_fallen_back() {
    let (mut servers, now) = (vec![server(0, 9, 9), server(1, 9, 9)], Instant::now());
    let source = AsSource { count: 1, timeout: std::time::Duration::from_secs(9), is_lossless: true };
    servers[0].seen.as_mut().unwrap().semi_sync.source = Some(source);
    let mut plan = plan(Move::Failover, &servers);
    plan.proof.watch(&servers[0], (&servers, &[]), now);
    assert_eq!(plan.proof.calm, None, "nothing is proved");
    servers[0].seen = Err("no answer".into());
    plan.note_semi_sync(&servers[0], &servers[1]);
    let (on, (waits, _)) = plan.semi_sync_wanted()[1];
    assert_eq!((on, waits), (BackendId(1), Some(source)));
}

#[test]
fn a_primary_that_has_forgotten_how_it_waited_is_told_before_it_takes_writes() {
    let (mut servers, now) = (vec![server(0, 9, 9), server(1, 9, 9)], Instant::now());
    close(&mut servers[0]);
    let source = AsSource { count: 1, timeout: std::time::Duration::from_secs(9), is_lossless: true };
    let reopening = |waited| {
        let mut plan = Plan::reopening(BackendId(0), Limits::default());
        plan.taken_over = servers.iter().map(|server| server.id).collect();
        plan.waited = waited;
        next(&mut plan, &servers, now)
    };
    let waits = Step::SetSemiSync { on: BackendId(0), source: Some(source), acknowledges: false };
    assert_eq!(reopening(Some(source)), Next::Do(vec![waits]));
    assert_eq!(reopening(None), Next::Do(vec![Step::Open(BackendId(0))]), "it did not wait");
}

/// `db1` has all of `db0`, follows nobody, and waits for an acknowledgement, which `db0` is to give.
fn given_up() -> (Plan, Vec<Server>) {
    let mut servers = vec![server(0, 9, 9), server(1, 9, 9)];
    let mut plan = plan(Move::Switchover, &servers);
    let source = AsSource { count: 1, timeout: std::time::Duration::from_secs(9), is_lossless: true };
    plan.semi_sync = Some([(Some(source), false), (None, true)]);
    close(&mut servers[0]);
    plan.cleared = vec![BackendId(0)];
    (plan.has_closed, plan.frozen) = (true, Some(servers[0].standing().unwrap().executed.clone()));
    let own = servers[1].seen.as_mut().unwrap();
    own.sources.clear();
    own.semi_sync.source = Some(source);
    servers[0].seen.as_mut().unwrap().semi_sync.acknowledges = true;
    (plan, servers)
}

#[test]
fn the_new_primary_is_opened_when_the_old_one_dies_before_it_follows() {
    let (mut plan, mut servers) = given_up();
    let now = Instant::now();
    let follow = Step::Attach { on: BackendId(0), to: BackendId(1) };
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![follow]));
    servers[0].seen = Err("gone".into());
    assert_eq!(next(&mut plan, &servers, now), Next::Wait(Waiting::Ackers));
    let late = now + plan.limits.ackers;
    assert_eq!(next(&mut plan, &servers, late), Next::Do(vec![Step::Open(BackendId(1))]));
    assert!(plan.left_out[0].1.contains("0 of the 1 replicas"), "{:?}", plan.left_out);
    // One that answers takes its role back.
    let (mut plan, servers) = given_up();
    let mut attached = servers.clone();
    attached[0].seen.as_mut().unwrap().sources = server(1, 9, 9).seen.unwrap().sources;
    attached[0].seen.as_mut().unwrap().sources[0].host = "db1".into();
    assert_eq!(next(&mut plan, &attached, now), Next::Wait(Waiting::Ackers));
    next(&mut plan, &attached, late);
    assert!(plan.undoing.unwrap().contains("0 of the 1 replicas"));
}

#[test]
fn a_failover_finds_a_candidate_when_the_old_primary_dies_while_a_switchover_is_undone() {
    let (mut plan, mut servers) = given_up();
    let now = Instant::now();
    servers[0].seen = Err("gone".into());
    assert!(plan.undo("the move has used up its time"));
    let (on, to) = (BackendId(1), BackendId(0));
    let acknowledges = Step::SetSemiSync { on, source: None, acknowledges: true };
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![acknowledges]));
    let own = &mut servers[1].seen.as_mut().unwrap().semi_sync;
    (own.source, own.acknowledges) = (None, true);
    assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Attach { on, to }]));
    servers[1] = server(1, 9, 9);
    servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
    assert_eq!(next(&mut plan, &servers, now), Next::Wait(Waiting::Closed));
    let late = now + plan.limits.others;
    let told = next(&mut plan, &servers, late);
    assert!(matches!(&told, Next::Stuck(why) if why.contains("does not answer")), "{told:?}");
    assert!(plan.is_unfinished());
    let choice = choose(&servers[0], (&servers, &[]), &Wanted::default(), &plan.proof);
    assert_eq!(choice.map(|choice| choice.to), Ok(on));
}

#[test]
fn a_primary_keeps_its_link_to_another_cluster() {
    let now = Instant::now();
    let open = Next::Do(vec![Step::Open(BackendId(0))]);
    let reopened = |channel: &str, host: &str| {
        let mut servers = vec![server(0, 9, 12), server(1, 9, 9)];
        close(&mut servers[0]);
        let mut source = server(1, 9, 9).seen.unwrap().sources.remove(0);
        (source.channel, source.host) = (channel.into(), host.into());
        source.delay = std::time::Duration::from_hours(1);
        servers[0].seen.as_mut().unwrap().sources = vec![source];
        let mut plan = Plan::reopening(BackendId(0), Limits::default());
        plan.taken_over = servers.iter().map(|server| server.id).collect();
        next(&mut plan, &servers, now)
    };
    assert_eq!(reopened("", "db9.elsewhere"), open);
    assert_eq!(reopened("elsewhere", "db9.elsewhere"), open);
    // A move has had it follow.
    assert_eq!(reopened("", "db1"), Next::Wait(Waiting::Apply));
}

#[test]
fn one_that_followed_the_candidate_before_stays_behind_it_when_the_move_is_undone() {
    let now = Instant::now();
    let behind = |id: u16, host: &str| {
        let mut follows = server(id, 9, 9);
        let own = follows.seen.as_mut().unwrap();
        own.sources = server(1, 9, 9).seen.unwrap().sources;
        own.sources[0].host = host.into();
        follows
    };
    let mut servers = vec![server(0, 9, 9), server(1, 9, 9), server(2, 9, 9), behind(3, "db1")];
    close(&mut servers[0]);
    for kind in [Move::Switchover, Move::Failover] {
        let mut plan = plan(kind, &servers);
        (plan.has_closed, plan.frozen) = (true, Some(servers[0].standing().unwrap().executed.clone()));
        plan.cleared = vec![BackendId(0)];
        let attach = |on, to| Step::Attach { on: BackendId(on), to: BackendId(to) };
        let steps = vec![attach(0, 1), attach(2, 1), Step::Detach(BackendId(1))];
        assert_eq!(next(&mut plan, &servers, now), Next::Do(steps));
        let mut moved = servers.clone();
        moved[0] = behind(0, "db1");
        close(&mut moved[0]);
        moved[1].seen.as_mut().unwrap().sources.clear();
        moved[2] = behind(2, "db1");
        assert!(plan.undo("a look has failed"));
        let steps = vec![attach(1, 0), attach(2, 0), Step::Detach(BackendId(0))];
        assert_eq!(next(&mut plan, &moved, now), Next::Do(steps), "{kind:?}");
        // The same where the old primary does not answer.
        moved[0].seen = Err("gone".into());
        assert_eq!(next(&mut plan, &moved, now), Next::Do(vec![attach(1, 0), attach(2, 0)]), "{kind:?}");
    }
}

#[test]
fn events_that_slept_before_sleep_when_the_move_is_undone() {
    let now = Instant::now();
    let mut servers = vec![server(0, 9, 9), server(1, 9, 9)];
    let events = |server: &mut Server, enabled: &[&str], asleep: &[&str]| {
        let own = server.seen.as_mut().unwrap().events.as_mut().unwrap();
        let list = |names: &[&str]| names.iter().map(|name| std::sync::Arc::from(*name)).collect();
        (own.enabled, own.asleep) = (list(enabled), list(asleep));
    };
    let undone = |runs: &[&str], is_begun: bool| {
        events(&mut servers[0], runs, &["app.old"]);
        let mut plan = plan(Move::Switchover, &servers);
        plan.is_begun = is_begun;
        next(&mut plan, &servers, now);
        assert!(plan.undo("a look has failed"));
        (plan.is_released, plan.limits.others) = (true, std::time::Duration::ZERO);
        let all: Vec<_> = runs.iter().copied().chain(["app.old"]).collect();
        let mut undone = servers.clone();
        events(&mut undone[0], &[], &all);
        next(&mut plan, &undone, now)
    };
    let enable = |names: &[&str]| {
        let events = names.iter().map(|name| std::sync::Arc::from(*name)).collect();
        Next::Do(vec![Step::EnableEvents { on: BackendId(0), events }])
    };
    let mut undone = undone;
    assert_eq!(undone(&["app.purge"], false), enable(&["app.purge"]));
    assert_eq!(undone(&[], false), Next::Done);
    assert_eq!(undone(&[], true), enable(&["app.old"]), "an earlier actor may have disabled it");
}

#[test]
fn a_server_that_does_not_tell_its_events_is_not_one_without_any() {
    let now = Instant::now();
    let mut servers = vec![server(0, 9, 9), server(1, 9, 9)];
    for server in &mut servers {
        server.seen.as_mut().unwrap().events = Err("error 3024".into());
    }
    let mut plan = plan(Move::Switchover, &servers);
    assert_eq!(next(&mut plan, &servers, now), Next::Wait(Waiting::Closed));
    assert_eq!((&plan.events, plan.enable_events(&servers[1])), (&None, None));
    let late = now + plan.limits.others;
    next(&mut plan, &servers, late);
    let why = plan.undoing.as_deref().unwrap();
    assert!(why.contains("error 3024"), "{why}");
    // The new one is told all the same, and what ran before is put back.
    for (ran, on_old) in [(&["app.purge"][..], true), (&[][..], false)] {
        plan.events = Some(ran.iter().map(|name| std::sync::Arc::from(*name)).collect());
        assert!(plan.enable_events(&servers[1]).is_some());
        assert_eq!(plan.enable_events(&servers[0]).is_some(), on_old);
    }
}

/// Its waiting commits are ended without a word only where another server has the role.
#[test]
fn a_lost_primary_is_replaced_from_when_the_new_one_is_opened() {
    let mut plan = plan(Move::Failover, &[]);
    let [old, new] = [BackendId(0), BackendId(1)];
    assert!(!plan.is_replaced(old), "the move may still be undone");
    plan.is_opening = true;
    assert!(plan.is_replaced(old) && !plan.is_replaced(new));
    assert!(Plan::rejoin(old, new, Limits::default()).is_replaced(old));
    plan.kind = Move::Switchover;
    assert!(!plan.is_replaced(old));
    let earlier = BackendId(2);
    plan.deposed = vec![earlier, new];
    assert!(plan.is_replaced(earlier), "an earlier move has replaced it");
    assert!(!plan.is_replaced(new), "it gets the role again");
}
