//! What follows from a step that was done, or failed. A failed one is tried again for a while: a lock may be in the way. After that the
//! move is undone; what only serves comfort is left out.

use std::sync::Arc;
use std::time::Instant;

use super::plan::Plan;
use super::step::Step;
use crate::backend::BackendId;

impl Plan {
    /// It was done, as far as the server says.
    pub fn done(&mut self, step: &Step, now: Instant) {
        self.failures.retain(|(failed, _)| failed != step);
        match step {
            Step::EndPredecessor(on) => self.taken_over.push(*on),
            Step::EndSessions(on) => self.cleared.push(*on),
            // Whoever came in between has to go, too.
            Step::Close(on) => self.cleared.retain(|id| id != on),
            Step::Hold(_) | Step::GiveUp(_) => self.held = Some(now),
            Step::Release(_) => self.is_released = true,
            Step::EnableEvents { .. } => self.has_events = true,
            _ => {}
        }
    }

    /// It was not done, or nobody knows.
    pub fn failed(&mut self, step: &Step, why: &str, now: Instant) {
        let known = self.failures.iter().find(|(failed, _)| failed == step).map(|(_, since)| *since);
        let since = known.unwrap_or_else(|| {
            self.failures.push((step.clone(), now));
            now
        });
        if now.saturating_duration_since(since) < self.limits.others {
            return;
        }
        self.failures.retain(|(failed, _)| failed != step);
        let text: Arc<str> = format!("{}: {why}", step.name()).into();
        match step {
            Step::EndPredecessor(on) => self.taken_over.push(*on),
            Step::EnableEvents { .. } => self.has_events = true,
            Step::Release(_) => self.is_released = true,
            Step::Attach { on, .. } | Step::StartReplica(on) if !self.needs(*on) => {
                self.left_out.push((*on, text));
            }
            _ => {
                if !self.undo(text.clone()) {
                    self.stuck = Some(text);
                }
            }
        }
    }

    /// True if nothing goes on without this one.
    fn needs(&self, id: BackendId) -> bool {
        self.aim() == Some(id)
    }
}
