//! The only code that senses the backends and changes what the proxy thinks of them. One loop on the control
//! thread: probe -> decide -> act -> publish. What follows from what was seen is decided in `topology`.
//!
//! | stage | file |
//! |---|---|
//! | when one backend is probed | `watch` |
//! | what a probe does and says | `probe` |
//! | taking it all in, logging what changed | `act` |
//! | what follows for the probes of a backend | `orders` |
//! | where the names of backends lead | `names` |
//! | when all are looked at out of turn | `alarm` |
//! | the row by which the lag is told, and who writes it | `heartbeat` |
//! | questions out of turn | `inquiry` |
//! | what routines, triggers and views do to sessions that run them | `stored_code` |
//! | how the proxy moves the primary's role itself | `promotion` |
//!
//! What it knows is written into `delphinus_view`, where everybody else reads it.

mod act;
mod alarm;
mod heartbeat;
mod inquiry;
mod monitor;
mod names;
mod orders;
mod probe;
mod promotion;
mod settings;
mod stored_code;
mod table_map;
mod watch;

pub use inquiry::{Inquiry, NamedValues, Trouble};
pub use monitor::Monitor;
pub use promotion::{
    Account, Asked, Ends, Holding, Hooks, Leave, LeaveTold, Line, Local, Moment, Outcome,
    Parts as PromotionParts, Permit, Promoter, Promotion, PromotionSettings, Relays as PromotionRelays,
    Story, Told, ask_once,
};
pub use settings::{BackendSpec, HeartbeatSettings, Settings, Tuning};
