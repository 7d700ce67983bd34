//! Moves the primary's role: asks the servers, has `topology` decide on the next steps, carries them out, and tells. A task of the
//! control plane with connections of its own; the monitor sees the result like anybody's work.
//!
//! | question | file |
//! |---|---|
//! | what operators ask for, and when a lost primary is noticed | `promotion` |
//! | one move from its begin to its end | `drive` |
//! | relays that acknowledge | `relays` |
//! | may this process act, and where is the plan kept | `leave` |
//! | what operators are told of a server that may not come back | `rejoin` |
//! | programs of the operators | `hooks` |
//! | the connection to one server | `hand` |
//! | what a server is asked | `look` |
//! | one look by a process that does not act | `once` |
//! | what a step says to a server | `act` |
//! | the time line | `story` |

mod act;
mod door;
mod drive;
mod hand;
mod hooks;
mod leave;
mod look;
mod once;
mod rejoin;
mod relays;
mod settings;
mod story;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use delphinus_net::rt::{self, Either, mpsc, watch};
use delphinus_topology::BackendId;
use delphinus_view::SnapshotReader;

use crate::settings::Settings;
use drive::Driver;

pub use door::{Asked, Outcome, Promotion};
pub use hooks::{Hooks, Moment};
pub use leave::{Leave, Local, Permit, Told as LeaveTold};
pub use once::ask_once;
pub use relays::Relays;
pub use settings::{Account, PromotionSettings};
pub use story::{Ends, Line, Story, Told};

/// The proxy's own sessions, as far as a move is about them.
pub trait Holding {
    /// Transactions that are open on a backend, and statements that run there.
    fn open(&self, backend: BackendId) -> usize;
    /// Waits until every worker knows whether a backend is taken out of use.
    fn followed(&self, backend: BackendId, is_offline: bool) -> Pin<Box<dyn Future<Output = bool> + '_>>;
}

/// What a promoter is made from.
pub struct Parts {
    /// How it acts, by now; `None`: it does not.
    pub settings: watch::Receiver<Option<PromotionSettings>>,
    /// The proxy's sessions.
    pub holding: Rc<dyn Holding>,
    /// The right to act.
    pub leave: Rc<dyn Leave>,
    /// Relays that acknowledge.
    pub relays: Rc<dyn Relays>,
    /// Programs of the operators.
    pub hooks: Rc<dyn Hooks>,
    /// Rings when something has changed where `leave` looks.
    pub news: watch::Receiver<()>,
}

/// How many requests may wait; while a move runs there are none.
const QUEUE: usize = 8;

/// The task.
pub struct Promoter {
    requests: mpsc::Receiver<door::Request>,
    driver: Driver,
}

/// The task, and the door to it.
pub(crate) fn promoter(
    settings: Rc<Settings>,
    reader: SnapshotReader,
    parts: Parts,
) -> (Promoter, Promotion) {
    let (sender, requests) = mpsc::channel(QUEUE);
    let story = Rc::<RefCell<Story>>::default();
    let driver = Driver::new(settings, reader, parts, story.clone());
    (Promoter { requests, driver }, Promotion::new(sender, story))
}

impl Promoter {
    /// Does what it is asked for until `stop` is ready.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let work = async {
            loop {
                match rt::either(self.requests.recv(), self.driver.watch()).await {
                    Either::First(Some(request)) => request.serve(&mut self.driver).await,
                    Either::First(None) => std::future::pending().await,
                    Either::Second(due) => self.driver.do_by_itself(due).await,
                }
            }
        };
        let _: Either<(), ()> = rt::either(stop, work).await;
        self.driver.quit().await;
    }
}
