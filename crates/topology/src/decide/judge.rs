//! Which of several writable backends is right, where that can be told for sure: the one that has all that the others have,
//! and more, and whose past fits. Otherwise nobody is: to stop the writes is better than to write where they get lost.
//!
//! | who was the primary | it is right if |
//! |---|---|
//! | the one that has more | the others still replicate: somebody has made a replica writable by mistake |
//! | another | it replicates from no server any more: it was promoted, went on from where the old one had stopped, and nobody told that one |
//! | nobody knows | never |

use delphinus_wire::gtid::GtidSet;

use crate::backend::{Backend, BackendId};
use crate::replication::Replication;

/// The right one of `several`; `holder`: who was the primary last.
pub(super) fn judge(several: &[&Backend], holder: Option<BackendId>) -> Option<BackendId> {
    let holder = holder.filter(|holder| several.iter().any(|one| one.id == *holder))?;
    let is_right = |one: &Backend| {
        let mut others = several.iter().filter(|other| other.id != one.id);
        (one.id == holder || one.replication == Replication::Off)
            && others
                .all(|other| (other.id == holder || other.replication.runs()) && has_all_and_more(one, other))
    };
    several.iter().find(|one| is_right(one)).map(|one| one.id)
}

/// True if `one` has executed all that `other` has, and something else.
fn has_all_and_more(one: &Backend, other: &Backend) -> bool {
    // What `one` had a moment ago it still has; what `other` had then says nothing of what it has now.
    if one.tally.heard_at > other.tally.heard_at {
        return false;
    }
    let (Some(all), Some(part)) = (&one.position, &other.position) else { return false };
    let has_all = match (&**all, &**part) {
        // Sequence numbers say nothing of which server's transaction has them: it has to be the same, or the other's last one
        // was the last one here, too, before this one wrote for itself.
        (GtidSet::MariaDb(own), GtidSet::MariaDb(theirs)) => {
            let was_even = one.tally.followed.as_ref().is_some_and(|followed| followed == part);
            own.continues(theirs) || was_even && own.contains(theirs)
        }
        (all, part) => all.contains(part),
    };
    has_all && !part.contains(all)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Following, Member, Receiver, Role, Snapshot};

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    /// Two that take writes. `followed`: where the second one was when it followed.
    struct Case {
        positions: [&'static str; 2],
        follows: bool,
        followed: &'static str,
        holder: Option<u16>,
        second_heard_first: bool,
    }

    fn judged(case: &Case) -> Option<u16> {
        let set = |text: &str| Some(GtidSet::parse(text).unwrap().into());
        let member = |name: &str| Member { name: name.into(), role: Role::Replica, weight: 1 };
        let mut backends = Snapshot::new(vec![member("one"), member("two")]).backends;
        let now = Instant::now();
        for (backend, position) in backends.iter_mut().zip(case.positions) {
            backend.position = set(position);
            backend.replication = Replication::Off;
            backend.tally.heard_at = Some(now);
        }
        let earlier = usize::from(case.second_heard_first);
        backends[earlier].tally.heard_at = now.checked_sub(Duration::from_millis(1));
        if case.follows {
            let following = Following {
                receiver: Receiver::Running,
                applier_stopped: None,
                lag: None,
                sources: std::sync::Arc::default(),
            };
            backends[1].replication = Replication::On(following);
        }
        backends[1].tally.followed = set(case.followed);
        let several: Vec<_> = backends.iter().collect();
        judge(&several, case.holder.map(BackendId)).map(|id| id.0)
    }

    #[test]
    fn a_replica_made_writable_by_mistake_is_wrong() {
        let case = |one: &'static str, two: &'static str| Case {
            positions: [one, two],
            follows: true,
            followed: "",
            holder: Some(0),
            second_heard_first: false,
        };
        let (a, b) = (format!("{A}:1-9").leak() as &str, format!("{A}:1-8").leak() as &str);
        let own = format!("{A}:1-8,{B}:1").leak() as &str;
        assert_eq!(judged(&case(a, b)), Some(0));
        assert_eq!(judged(&case("0-1-9", "0-1-8")), Some(0));
        for (one, two, why) in [
            (a, a, "it is even: who takes the next write is not known"),
            (a, own, "it has written for itself"),
            ("0-1-9", "0-2-8", "its last transaction is its own"),
            ("0-1-9", "0-1-8,1-2-1", "it has a domain of its own"),
            ("0-1-9", "0-1-10", "it has more"),
        ] {
            assert_eq!(judged(&case(one, two)), None, "{why}");
        }
        assert_eq!(judged(&Case { follows: false, ..case(a, b) }), None, "it may have been promoted");
        assert_eq!(judged(&Case { holder: None, ..case(a, b) }), None, "nobody knows who was the primary");
        assert_eq!(
            judged(&Case { second_heard_first: true, ..case(a, b) }),
            None,
            "it may have got more since"
        );
    }

    #[test]
    fn one_that_was_promoted_goes_on_from_where_the_old_one_stopped() {
        let case = |one: &'static str, two: &'static str, followed: &'static str| Case {
            positions: [one, two],
            follows: false,
            followed,
            holder: Some(0),
            second_heard_first: true,
        };
        let (a, b) = (format!("{A}:1-9").leak() as &str, format!("{A}:1-9,{B}:1-2").leak() as &str);
        assert_eq!(judged(&case(a, b, "")), Some(1));
        assert_eq!(judged(&case("0-1-9", "0-2-11", "0-1-9")), Some(1));
        for (one, two, followed, why) in [
            (b, a, "", "it has less, and may have been promoted"),
            (a, a, "", "it is even"),
            ("0-1-9", "0-2-11", "0-1-8", "it had not got the last one"),
            ("0-1-9", "0-2-11", "", "nobody knows what it had got"),
        ] {
            assert_eq!(judged(&case(one, two, followed)), None, "{why}");
        }
        assert_eq!(
            judged(&Case { follows: true, ..case(a, b, "") }),
            None,
            "a replica that has been written to"
        );
        assert_eq!(
            judged(&Case { second_heard_first: false, ..case(a, b, "") }),
            None,
            "the old one may have got more"
        );
    }
}
