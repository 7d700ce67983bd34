//! Moving the primary's role by the proxy itself: what is wanted, what each server said last, and what has been done give the next
//! steps, or why there are none. Pure: whoever acts asks the servers, calls [`next()`], carries the steps out, and asks again.
//!
//! | question | file |
//! |---|---|
//! | what a server says to whoever moves roles | `standing` |
//! | what is wanted, and what cannot be seen at the servers | `plan` |
//! | which steps there are | `step` |
//! | what is to be done next | `next` |
//! | which replica takes the role | `candidate` |
//! | may something that was acknowledged be lost | `proof` |
//! | what a server has that no other has | `errant` |
//! | what would go wrong, before anything is done | `check` |
//! | is a primary lost, and may a proxy act by itself | `detect` |
//! | what follows from a step that was done, or failed | `outcome` |
//! | the plan as a text, for another actor | `journal` |
//!
//! Nothing here remembers what was done where a server can tell it: a step that was done and not answered is seen to be done, and
//! another actor goes on from the same servers.

mod candidate;
mod check;
mod detect;
mod errant;
mod journal;
mod next;
mod outcome;
mod plan;
mod proof;
mod standing;
mod step;

pub use candidate::{Choice, choose, choose_next, unfit};
pub use check::{Check, Verdict as CheckVerdict, checks};
pub use detect::{Alert, Detection, Loss};
pub use errant::{Errant, errant};
pub use journal::BadJournal;
pub use next::{Next, Waiting, next};
pub use plan::{Limits, Move, OnLoss, Part, Plan, Wanted};
pub use proof::{Calm, Proof, prove};
pub use standing::{AsSource, Events, Guard, SemiSync, Server, Source, Standing};
pub use step::Step;
