//! Something goes wrong under a statement: what has happened, and in which situation the session is. Decides nothing, changes
//! nothing but where a connection has broken last.

use delphinus_clients::ListenerMode;
use delphinus_route::{
    Ends, Harm, Holds, NextPrimary, Parts, Reached, Side, Situation, Suspicion, Transaction, Trouble,
};
use delphinus_state::Response;
use delphinus_topology::BackendId;
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use super::Sent;
use crate::hold::Held;
use crate::io::{Cut, Relayed};
use crate::planner::Planner;
use crate::settings::Failover;
use crate::state::Wanted;

/// A read that has run for so long when its connection breaks may be one that somebody wanted to end. By a clock that ticks once a
/// second: one that has run for less than a second never is.
const LONG_S: u32 = 2;

/// True for an answer that nothing has to be done about.
#[inline]
pub(crate) fn is_usual(response: &Response) -> bool {
    response.error.is_none() || !is_trouble(response)
}

#[cold]
fn is_trouble(response: &Response) -> bool {
    response.takes_no_writes() || says_goodbye(response)
}

/// True for an error by which a server says that it closes the connection.
pub(crate) fn says_goodbye(response: &Response) -> bool {
    let says = |code| ends(code).is_some() || code == error_code::ER_NET_PACKET_TOO_LARGE;
    response.error.is_some_and(says)
}

/// True for such an error if the session ends with it, as on a server: it has lost more than the connection, or a part of the answer
/// has reached the client, or its command was too large and would be so on each connection.
pub(crate) fn is_last(relayed: &Relayed, holds: Holds) -> bool {
    let is_too_large = relayed.response.error == Some(error_code::ER_NET_PACKET_TOO_LARGE);
    says_goodbye(&relayed.response) && (is_too_large || !relayed.is_untouched || holds == Holds::More)
}

/// What a server says that it ends, if this is such an error.
fn ends(code: u16) -> Option<Ends> {
    match code {
        error_code::ER_SERVER_SHUTDOWN => Some(Ends::Itself),
        error_code::ER_CLIENT_INTERACTION_TIMEOUT => Some(Ends::Connection),
        _ => error_code::OF_NETWORK.contains(&code).then_some(Ends::Connection),
    }
}

pub(super) fn trouble(forwarded: &Result<Relayed, Cut>) -> Option<Trouble> {
    let relayed = match forwarded {
        Ok(relayed) => relayed,
        Err(Cut::Client(_)) => return None,
        Err(Cut::Backend { is_repeatable, .. }) => {
            let reached = if *is_repeatable { Reached::Nothing } else { Reached::APart };
            return Some(Trouble::Cut(reached));
        }
    };
    let code = relayed.response.error.filter(|_| relayed.is_untouched)?;
    if relayed.response.takes_no_writes() && relayed.response.result_sets == 0 {
        return Some(Trouble::Refused);
    }
    ends(code).map(Trouble::BrokenOff)
}

/// What the session is in, when something goes wrong with what it has sent.
pub(super) fn situation(planner: Planner<'_>, sent: Sent<'_>, harm: Harm, suspicion: Suspicion) -> Situation {
    let (held, state) = (planner.around.held, planner.around.state);
    let transaction = state.transaction();
    Situation {
        harm,
        parts: if sent.has_rows { Parts::Rows } else { Parts::of(sent.statement) },
        is_at_hand: sent.input.is_whole() && !held.activity.is_killed(),
        holds: state.holds(),
        transaction,
        side: side(planner),
        next: next_primary(held.source.failover.get()),
        suspicion,
        may_have_committed: planner.causality.may_have_committed(transaction != Transaction::None),
        attempt: sent.attempt,
    }
}

/// What a command may have done that was sent.
pub(super) fn harm(sent: Sent<'_>, state: &Wanted) -> Harm {
    if sent.runs { Harm::of(sent.statement, state.status.contains(Status::IN_TRANS)) } else { Harm::None }
}

fn side(planner: Planner<'_>) -> Side {
    if planner.steering.replica.is_there {
        Side::Replica { may_leave: planner.around.login.listener.mode == ListenerMode::Split }
    } else {
        Side::Primary
    }
}

fn next_primary(settings: Failover) -> NextPrimary {
    match (settings.roles_move, settings.wait.is_zero()) {
        (false, _) => NextPrimary::Never,
        (true, true) => NextPrimary::NotAwaited,
        (true, false) => NextPrimary::Awaited,
    }
}

/// Why a read does not run again. Servers say nothing of who closes a connection, or why. `ran_s`: for how long it has run.
pub(super) fn suspicion(trouble: Trouble, backend: BackendId, ran_s: u32, held: &Held) -> Suspicion {
    let is_second = matches!(trouble, Trouble::Cut(_))
        && held.broke_on.replace(Some(backend)).is_some_and(|first| first != backend);
    if ran_s >= LONG_S && !held.source.outlook.is_hung(backend) {
        return Suspicion::Killed;
    }
    if is_second { Suspicion::Deadly } else { Suspicion::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_killed_is_not_broken_off() {
        for code in [1053, 1158, 1159, 1160, 1161, 4031] {
            assert!(ends(code).is_some(), "{code}");
        }
        // KILL QUERY, MariaDB's KILL, time limits, deadlock, an aborted connection, too many connections.
        for code in [1317, 1927, 1969, 3024, 1213, 1152, 1184, 1040] {
            assert_eq!(ends(code), None, "{code}");
        }
    }
}
