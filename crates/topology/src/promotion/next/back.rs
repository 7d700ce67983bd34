//! The old primary is back: what is done to it beside what is done to every server that does not take the role. Must not know how the role
//! moves.

use crate::facts::Flavor;
use crate::promotion::errant::refused_as_it_is;
use crate::promotion::plan::{Move, Plan};
use crate::promotion::standing::{Server, Standing};
use crate::promotion::step::Step;

/// `MariaDB`: an event writes on a read-only server, too, if its definer may. A lost primary has not been told that they end, and
/// another one runs them by now. MySQL keeps them from writing, and refuses to change them while it is read-only.
pub(super) fn runs_events(plan: &Plan, from: &Server) -> bool {
    let any = |own: &Standing| own.events.as_ref().is_ok_and(|events| !events.enabled.is_empty());
    let runs = |own: &Standing| own.flavor == Flavor::MariaDb && any(own);
    let is_lost = matches!(plan.kind, Move::Failover | Move::Rejoin);
    is_lost && !plan.leaves_out(from) && from.standing().is_some_and(runs)
}

/// The old primary follows the new one already: its channel has started by itself, before anybody has looked at what it has. It is looked
/// at now. Where the new one gets something from others, that would be found, too.
pub(super) fn send_away(plan: &mut Plan, server: &Server, aim: &Server) -> Option<Step> {
    let comes_back = matches!(plan.kind, Move::Failover | Move::Rejoin) && plan.undoing.is_none();
    let is_alone = aim.standing().is_some_and(|own| own.sources.is_empty());
    if server.id != plan.from || !comes_back || !is_alone || !server.follows_plainly() {
        return None;
    }
    let why = refused_as_it_is(server, aim, !plan.relays.is_empty())?;
    plan.leave_out(server, why);
    Some(Step::Detach(server.id))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use delphinus_wire::gtid::GtidSet;

    use super::*;
    use crate::backend::BackendId;
    use crate::promotion::candidate::tests::server;
    use crate::promotion::standing::Guard;
    use crate::promotion::{Limits, Next, next};

    /// `db0` was the primary, is back, and is read-only; `db1` is the new one.
    fn servers() -> Vec<Server> {
        let mut servers = vec![server(0, 9, 9), server(1, 9, 9)];
        servers[0].seen.as_mut().unwrap().guard = Guard::Closed;
        let new = servers[1].seen.as_mut().unwrap();
        new.guard = Guard::Open;
        new.sources.clear();
        servers
    }

    fn rejoin(servers: &[Server]) -> Plan {
        let mut plan = Plan::rejoin(BackendId(0), BackendId(1), Limits::default());
        plan.taken_over = servers.iter().map(|server| server.id).collect();
        plan
    }

    /// Its channel has started by itself: the two were a pair, or it was promoted once and kept what it followed before.
    #[test]
    fn an_old_primary_that_follows_already_is_looked_at_all_the_same() {
        let (now, own) = (Instant::now(), "4e11fa47-71ca-11e1-9e33-c80aa9429562:1");
        let mut servers = servers();
        let mut sources = server(1, 9, 9).standing().unwrap().sources.clone();
        sources[0].host = "db1".into();
        servers[0].seen.as_mut().unwrap().sources = sources;
        let first = |servers: &[Server]| {
            let mut plan = Plan { cleared: vec![BackendId(0)], ..rejoin(servers) };
            let first = next(&mut plan, servers, now);
            (first, plan.left_out.first().map(|(_, why)| why.to_string()))
        };
        assert_eq!(first(&servers), (Next::Done, None));
        let executed = &mut servers[0].seen.as_mut().unwrap().executed;
        Arc::make_mut(executed).merge(&GtidSet::parse(own).unwrap());
        let why = format!("it has transactions of its own: {own}");
        assert_eq!(first(&servers), (Next::Do(vec![Step::Detach(BackendId(0))]), Some(why)));
        // The new primary has written since it was asked.
        servers[0].seen.as_mut().unwrap().executed = server(0, 9, 9).standing().unwrap().executed.clone();
        let new = servers[1].seen.as_mut().unwrap();
        new.executed = server(0, 7, 7).standing().unwrap().executed.clone();
        new.identity.uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562".into();
        servers[0].seen.as_mut().unwrap().identity.uuid = "5e11fa47-71ca-11e1-9e33-c80aa9429562".into();
        assert_eq!(first(&servers), (Next::Done, None));
    }

    /// It has started again, perhaps without the end of its log, or an operator has closed it.
    #[test]
    fn a_server_that_takes_no_writes_any_more_is_not_opened_for_one_that_returns() {
        let mut servers = servers();
        let mut plan = Plan { cleared: vec![BackendId(0)], ..rejoin(&servers) };
        servers[1].seen.as_mut().unwrap().guard = Guard::Closed;
        let stuck = Next::Stuck("db1 takes no writes any more".to_owned());
        assert_eq!(next(&mut plan, &servers, Instant::now()), stuck);
        assert!(!plan.is_unfinished(), "another move may begin at once");
    }

    #[test]
    fn events_of_a_lost_primary_end_when_it_is_back() {
        let (mut servers, now) = (servers(), Instant::now());
        let change = |server: &mut Server, guard, events: &[&str]| {
            let own = server.seen.as_mut().unwrap();
            (own.flavor, own.guard) = (Flavor::MariaDb, guard);
            own.events.as_mut().unwrap().enabled = events.iter().map(|event| Arc::from(*event)).collect();
        };
        let mut plan = rejoin(&servers);
        change(&mut servers[0], Guard::Open, &["app.purge"]);
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Close(BackendId(0))]));
        change(&mut servers[0], Guard::Closed, &["app.purge"]);
        let disable = Step::DisableEvents(BackendId(0));
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![disable.clone()]));
        let mut cannot = plan.clone();
        let ends = Next::Do(vec![Step::EndSessions(BackendId(0))]);
        servers[0].seen.as_mut().unwrap().flavor = Flavor::MySql;
        assert_eq!(next(&mut plan, &servers, now), ends, "none of them can write");
        change(&mut servers[0], Guard::Closed, &[]);
        assert_eq!(next(&mut plan, &servers, now), ends);
        // One whose events cannot be disabled does not begin to follow, and the new primary goes on.
        change(&mut servers[0], Guard::Closed, &["app.purge"]);
        cannot.failed(&disable, "no right", now);
        cannot.failed(&disable, "no right", now + cannot.limits.others);
        assert_eq!(cannot.left_out[0], (BackendId(0), "disable events: no right".into()));
        cannot.done(&Step::EndPredecessor(BackendId(0)), now);
        cannot.done(&Step::EndSessions(BackendId(0)), now);
        assert_eq!(next(&mut cannot, &servers, now), Next::Done);
    }
}
