//! The backend for a text: of all that may take it, the one with the highest score (weighted rendezvous). A backend that is lost gives
//! away its own texts, and nothing else moves. Two proxies with the same names and weights agree.

use std::hash::{DefaultHasher, Hash, Hasher};

use delphinus_topology::{Backend, BackendId};

/// A number made from a text and what is bound to it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "half of it tells texts apart well enough, and each session has room for one"
)]
pub fn number_of_text(parts: &[&[u8]]) -> u32 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish() as u32
}

/// The same of a statement's text as it was sent: what stands before it makes no other one.
pub fn number_of_statement(sql: &[u8]) -> u32 {
    number_of_text(&[sql.trim_ascii_start()])
}

/// Of those, the one for this text.
pub(super) fn by_text<'s>(text: u32, backends: impl Iterator<Item = &'s Backend>) -> Option<BackendId> {
    let scored = backends.map(|backend| (score(text, backend), backend.id));
    scored.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, id)| id)
}

/// Of each text the share of a backend is that of its weight: <https://www.snia.org/sites/default/files/SDC15_presentations/dist_sys/Jason_Resch_New_Consistent_Hashings_Rev.pdf>.
fn score(text: u32, backend: &Backend) -> f64 {
    const STEPS: f64 = 9_007_199_254_740_992.0;
    let mut hasher = DefaultHasher::new();
    (text, &*backend.name).hash(&mut hasher);
    #[expect(clippy::cast_precision_loss, reason = "it has 53 bits")]
    let part = ((hasher.finish() >> 11) as f64 + 0.5) / STEPS;
    -f64::from(backend.weight) / part.ln()
}

#[cfg(test)]
mod tests {
    use delphinus_topology::{Member, Role, Snapshot};

    use super::*;

    fn backends(weights: &[u32]) -> Vec<Backend> {
        let member = |(at, weight): (usize, &u32)| Member {
            name: format!("db{at}").into(),
            role: Role::Replica,
            weight: *weight,
        };
        Snapshot::new(weights.iter().enumerate().map(member).collect()).backends
    }

    fn shares(backends: &[Backend]) -> Vec<BackendId> {
        (0..10_000).map(|text| by_text(text, backends.iter()).unwrap()).collect()
    }

    #[test]
    fn each_has_its_share_and_a_loss_moves_nothing_else() {
        let all = backends(&[100, 100, 200]);
        let before = shares(&all);
        let count = |id: u16| before.iter().filter(|one| **one == BackendId(id)).count();
        let found = [count(0), count(1), count(2)];
        assert!((2300..2700).contains(&found[0]) && (4700..5300).contains(&found[2]), "{found:?}");
        let after = shares(&all[..2]);
        for (before, after) in before.iter().zip(&after) {
            assert!(*before == BackendId(2) || before == after, "only what was lost moves");
        }
        let moved = before.iter().zip(&after).filter(|(one, other)| one != other).count();
        assert_eq!(moved, found[2]);
    }
}
