//! One virtual IP on this host, over time: it comes, is announced for a while, is refreshed, and goes in order or at once.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::addresses::{self, Interface, choose};
use crate::announce::{AT_MS, announce};
use crate::keeper::{Condition, KillOnMove, Sessions, Spec};
use crate::sessions::{self, Connection};

/// A virtual IP on this host.
#[derive(Debug)]
pub(super) struct Place {
    spec: Spec,
    condition: Condition,
    since: Instant,
    /// How often it has been announced since it came.
    announced: usize,
    /// When its sessions have had time enough to end.
    drained_at: Option<Instant>,
    error: Option<String>,
}

impl Place {
    /// An address that is in the kernel already was added by a process before this one.
    pub(super) fn new(spec: Spec, interfaces: &[Interface]) -> Self {
        let is_there =
            |address: &IpAddr| interfaces.iter().any(|one| one.addresses.iter().any(|(ip, _)| ip == address));
        let is_here = spec.addresses.iter().any(is_there);
        let condition = if is_here { Condition::Here } else { Condition::Elsewhere };
        Self { spec, condition, since: Instant::now(), announced: 0, drained_at: None, error: None }
    }

    /// The same place, where something else than the addresses has changed.
    pub(super) fn with(mut self, spec: Spec) -> Self {
        self.spec = spec;
        self
    }

    pub(super) fn is_of(&self, spec: &Spec) -> bool {
        self.spec.vip.name == spec.vip.name
            && self.spec.addresses == spec.addresses
            && self.spec.interface == spec.interface
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.spec.vip.name
    }

    pub(super) fn condition(&self) -> Condition {
        self.condition
    }

    pub(super) fn since(&self) -> Duration {
        self.since.elapsed()
    }

    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(super) fn is_here(&self) -> bool {
        matches!(self.condition, Condition::Here | Condition::Leaving)
    }

    fn set(&mut self, condition: Condition) {
        if self.condition != condition {
            self.condition = condition;
            self.since = Instant::now();
        }
    }

    /// Nothing of it is here, and nothing should be.
    pub(super) fn is_elsewhere(&mut self) {
        if self.condition == Condition::Failed {
            self.set(Condition::Elsewhere);
            self.error = None;
        }
    }

    /// It comes, or stays for so long.
    pub(super) fn keep(&mut self, left: Duration) {
        let comes = !self.is_here();
        self.drained_at = None;
        if let Err(error) = self.refresh(left, comes) {
            if self.error.as_deref() != Some(error.as_str()) {
                tracing::error!(vip = &**self.name(), reason = %error, "cannot keep a virtual IP on this host");
            }
            self.error = Some(error);
            if comes {
                self.set(Condition::Failed);
            }
            return;
        }
        self.error = None;
        if comes {
            self.announced = 0;
            tracing::warn!(vip = &**self.name(), addresses = ?self.spec.addresses, "a virtual IP has come to this host");
        }
        self.set(Condition::Here);
        self.announce();
    }

    fn refresh(&self, left: Duration, comes: bool) -> Result<(), String> {
        let all = addresses::interfaces().map_err(|error| error.to_string())?;
        for address in &self.spec.addresses {
            let interface = choose(&all, *address, self.spec.interface.as_deref())?;
            let is_there = interface.addresses.iter().any(|(ip, _)| ip == address);
            if comes && !is_there {
                // Sessions of an earlier stay: their clients have been told something else since.
                cut(*address, |_| true).map_err(|error| error.to_string())?;
            }
            addresses::keep(*address, interface.index, left)
                .map_err(|error| format!("{address}: {error}"))?;
        }
        Ok(())
    }

    /// As often as it is time.
    fn announce(&mut self) {
        let since = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = AT_MS.iter().take_while(|at| **at <= since).count();
        if due <= self.announced {
            return;
        }
        self.announced = due;
        let told = self.each_address(announce);
        if let Err(error) = told {
            tracing::warn!(vip = &**self.name(), %error, "cannot announce a virtual IP");
        }
    }

    fn each_address(&self, act: impl Fn(IpAddr, &Interface) -> io::Result<()>) -> io::Result<()> {
        let all = addresses::interfaces()?;
        for address in &self.spec.addresses {
            let interface =
                choose(&all, *address, self.spec.interface.as_deref()).map_err(io::Error::other)?;
            act(*address, interface)?;
        }
        Ok(())
    }

    /// It goes in order. True when it is gone, and its key can be given back. Where the server has lost the role that the address leads
    /// to, no session on it is worth waiting for.
    pub(super) fn leave(&mut self, left: Duration, has_lost_role: bool, of: &dyn Sessions) -> bool {
        if !self.is_here() {
            return true;
        }
        let wait = match self.spec.kill_on_move {
            KillOnMove::Transactions if !has_lost_role => self.spec.drain,
            KillOnMove::Transactions | KillOnMove::None | KillOnMove::All => Duration::ZERO,
        };
        let until = *self.drained_at.get_or_insert_with(|| Instant::now() + wait);
        if self.condition != Condition::Leaving {
            tracing::warn!(vip = &**self.name(), "a virtual IP leaves this host");
            self.set(Condition::Leaving);
        }
        let has_sessions = self.spec.kill_on_move == KillOnMove::Transactions && self.ask_to_end(of);
        // The kernel counts whole seconds.
        let has_time = left >= Duration::from_secs(1) && Instant::now() < until;
        if has_sessions && has_time && self.refresh(left, false).is_ok() {
            return false;
        }
        self.drop_at_once();
        true
    }

    /// True if sessions are left.
    fn ask_to_end(&self, of: &dyn Sessions) -> bool {
        let mut is_left = false;
        for address in &self.spec.addresses {
            let all = sessions::on(*address).unwrap_or_default();
            let clients: Vec<SocketAddr> = all.iter().map(Connection::peer).collect();
            let idle = of.leave(*address, &clients);
            is_left |= all.iter().any(|one| !idle.contains(&one.peer()));
            let _ = cut(*address, |one| idle.contains(&one.peer()));
        }
        is_left
    }

    /// It goes now, with its sessions.
    pub(super) fn drop_at_once(&mut self) {
        if self.spec.kill_on_move != KillOnMove::None {
            for address in &self.spec.addresses {
                // While the address is still there: the other end hears of it.
                if let Err(error) = cut(*address, |_| true) {
                    tracing::warn!(vip = &**self.name(), %error, "cannot end the sessions on a virtual IP");
                }
            }
        }
        match self.each_address(|address, interface| addresses::remove(address, interface.index)) {
            Ok(()) => {
                tracing::warn!(vip = &**self.name(), "a virtual IP has left this host");
                self.error = None;
            }
            Err(error) => {
                // The kernel removes it by itself when its time is over.
                tracing::error!(vip = &**self.name(), %error, "cannot remove a virtual IP");
                self.error = Some(error.to_string());
            }
        }
        self.drained_at = None;
        self.set(Condition::Elsewhere);
    }
}

/// Ends connections on an address.
fn cut(address: IpAddr, which: impl Fn(&Connection) -> bool) -> io::Result<()> {
    for connection in sessions::on(address)?.iter().filter(|one| which(one)) {
        sessions::destroy(connection)?;
    }
    Ok(())
}
