//! Statement, session and snapshot to a plan with its reason. Pure, and made once for each command: nothing
//! looks at the SQL again afterwards.
//!
//! | question | file |
//! |---|---|
//! | what is asked | `intent` |
//! | what is answered, and why | `plan` |
//! | in which order the rules apply | `router` |
//! | who wants it elsewhere | `wish` |
//! | what an operator sets | `policy`, `rules` |
//! | what is refused because it is dangerous | `filters` |
//! | what may run on a replica beside reads | `scope` |
//! | which of several replicas | `balance` |
//! | how people are told | `explain` |
//! | to which cluster a session belongs | `choice` |
//! | what becomes of a statement under which something goes wrong | `rescue` |

mod balance;
mod causality;
mod choice;
mod explain;
mod filters;
mod intent;
mod plan;
mod policy;
mod rescue;
mod router;
mod rules;
mod scope;
mod wish;

pub use balance::{Balance, number_of_statement, number_of_text};
pub use causality::{Behind, Demand, behind};
pub use choice::{Arriving, ClusterChoice, Home};
pub use explain::{Asker, Cluster, Demanded, Explanation, Question, Row, Usual, Way, explain};
pub use filters::{Filter, FilterAction, Filtered, Filters, Guard};
pub use intent::Intent;
pub use plan::{Plan, Reason, Target};
pub use policy::{Policy, ReadBalance};
pub use rescue::{
    Ends, Harm, Holds, Loss, NextPrimary, Parts, READ_ATTEMPTS, REFUSALS, Reached, Side, Situation,
    Suspicion, Transaction, Trouble, Verdict, attempts, lost, rescue,
};
pub use router::{obstacle, plan};
pub use rules::{Action, CacheTerms, Copies, Facts, Kind, Mirror, MirrorGroup, Rule, RulePlace, Rules, When};
pub use scope::{
    InReadOnly, Progress, Scope, begins_read_only, in_read_only, is_for_readers, runs_behind_last,
};
pub use wish::{Place, Wish};
