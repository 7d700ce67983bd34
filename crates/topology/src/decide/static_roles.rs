//! Roles as the configuration gives them: nothing moves, but a primary that cannot be written to is shown.

use crate::backend::{Fault, Role};
use crate::observation::Answer;

/// What is wrong with a backend that answered and has this role.
pub(super) fn fault(role: Role, answer: &Answer) -> Option<Fault> {
    (role == Role::Primary && answer.read_only).then_some(Fault::ReadOnlyPrimary)
}
