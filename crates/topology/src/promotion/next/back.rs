//! The old primary is back: what is done to it beside what is done to every server that does not take the role. Must not know how the role
//! moves.

use crate::promotion::errant::refused_as_it_is;
use crate::promotion::plan::{Move, Plan};
use crate::promotion::standing::Server;
use crate::promotion::step::Step;

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
}
