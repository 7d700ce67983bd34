//! Moving the primary's role by the proxy itself: what is wanted, what each server said last, and what has been done give the next
//! steps, or why there are none. Pure: whoever acts asks the servers, calls [`next()`], carries the steps out, and asks again.
//!
//! | question | file |
//! |---|---|
//! | what a server says to whoever moves roles | `standing` |
//! | what a relay says that acknowledges | `relay` |
//! | what is wanted, and what cannot be seen at the servers | `plan` |
//! | which relays the proxy turns to the primary by itself | `admit` |
//! | which steps there are | `step` |
//! | what is to be done next | `next` |
//! | which replica takes the role | `candidate` |
//! | may something that was acknowledged be lost | `proof` |
//! | what a server has that no other has | `errant` |
//! | what a server wrote, lacks, and others have | `tail` |
//! | what would go wrong, before anything is done | `check` |
//! | is a primary lost, and may a proxy act by itself | `detect` |
//! | has it started again, or has somebody closed it | `again` |
//! | what follows from a step that was done, or failed | `outcome` |
//! | the plan as a text, for another actor | `journal` |
//! | who has the role and who has lost it, as a text for all proxies | `known` |
//!
//! Nothing here remembers what was done where a server can tell it: a step that was done and not answered is seen to be done, and
//! another actor goes on from the same servers.

mod admit;
mod again;
mod candidate;
mod check;
mod detect;
mod errant;
mod journal;
mod known;
mod next;
mod outcome;
mod plan;
mod proof;
mod ran;
mod relay;
mod standing;
mod step;
mod tail;

pub use admit::Admission;
pub use again::{Runs, may_reopen};
pub use candidate::{Choice, choose, choose_next, unfit};
pub use check::{Check, Verdict as CheckVerdict, checks, checks_before};
pub use detect::{Alert, Detection, Loss};
pub use errant::{Errant, errant, refused, refused_as_it_is};
pub use journal::BadJournal;
pub use known::Known;
pub use next::{Next, Waiting, next};
pub use plan::{Limits, Move, OnLoss, Part, Plan, Wanted};
pub use proof::{Calm, Proof, prove};
pub use ran::{events_of_text, events_text};
pub use relay::{Relay, RelayId, RelayStanding, identity_of};
pub use standing::{AsSource, Events, Guard, SemiSync, Server, Source, Standing, StartsReadOnly};
pub use step::Step;
