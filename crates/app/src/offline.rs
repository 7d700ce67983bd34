//! The proxy taken out of service, and back: no new clients but exempt ones, and sessions end between transactions. Load balancers see
//! that connections are refused, and go elsewhere. By `SET PROXY OFFLINE | ONLINE`, or SIGUSR1 and SIGUSR2.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::Registry;
use delphinus_net::rt::{self, Either, Signals, watch};

/// How often sessions look whether their transaction is over.
const AGAIN: Duration = Duration::from_millis(100);

/// The switch.
pub(crate) struct Service {
    registry: Arc<Registry>,
    /// True: sessions end between transactions. The end of the process tells them so, too.
    ending: watch::Sender<bool>,
    is_emptying: Cell<bool>,
}

impl Service {
    /// In service.
    pub(crate) fn new(registry: Arc<Registry>, ending: watch::Sender<bool>) -> Rc<Self> {
        Rc::new(Self { registry, ending, is_emptying: Cell::new(false) })
    }

    /// What sessions are told by.
    pub(crate) fn ending(&self) -> &watch::Sender<bool> {
        &self.ending
    }

    /// Takes the proxy out of service, or back.
    pub(crate) fn set_offline(self: &Rc<Self>, is_offline: bool) {
        self.registry.set_offline(is_offline);
        self.ending.send_replace(is_offline);
        tracing::warn!(is_offline, clients = self.registry.connected(), "the proxy was set");
        if is_offline && !self.is_emptying.replace(true) {
            rt::spawn_local(self.clone().empty());
        }
    }

    async fn empty(self: Rc<Self>) {
        while self.registry.is_offline() && self.registry.connected() > 0 {
            // Again each time: a session may have come to its end of a transaction in between.
            self.registry.list().iter().for_each(|session| session.disturb());
            rt::sleep(AGAIN).await;
        }
        self.is_emptying.set(false);
        if self.registry.is_offline() {
            tracing::warn!("the proxy is offline, and the last client has left");
        }
    }

    /// Does what signals say, and notes each, until no more can come.
    pub(crate) async fn follow_signals(
        self: Rc<Self>,
        [mut offline, mut online]: [Signals; 2],
        note: impl Fn(&str),
    ) {
        loop {
            let is_offline = match rt::either(offline.next(), online.next()).await {
                Either::First(true) => true,
                Either::Second(true) => false,
                Either::First(false) | Either::Second(false) => return,
            };
            self.set_offline(is_offline);
            note(if is_offline { "SIGUSR1: SET PROXY OFFLINE" } else { "SIGUSR2: SET PROXY ONLINE" });
        }
    }
}
