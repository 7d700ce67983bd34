//! How the sessions on a virtual IP come to their ends before it leaves in order: between transactions, and without keeping new clients
//! waiting for longer than a moment.
//!
//! First those that were there when it began; whoever comes meanwhile is served. When they are gone, all others are asked to end; where this
//! process lets the clients in, it lets no more in then. If some are in transactions that take longer than that moment, clients are let in again,
//! and those few are waited for. The second time the moment is twice as long. If that does not help, either, those who have come since are left in
//! peace: only at the end of the time all are asked once more.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use delphinus_topology::VipRole;

use super::{Sessions, Spec};
use crate::sessions::{self, Connection, cut};

/// So long new clients may wait while the last sessions end. What they wait for the address's next host comes on top.
const SHUT: Duration = Duration::from_millis(150);
/// The same where others let clients in, so that none waits.
const OPEN: Duration = Duration::from_millis(500);

/// So often all sessions are asked to end in vain, each time for twice as long. Each time costs the newest clients a connection.
const CALLS: u32 = 2;

/// Between two looks at the sessions: most end at once.
const SOON: Duration = Duration::from_millis(10);
/// When it takes longer: to look at them costs time, too.
const LATER: Duration = Duration::from_millis(100);

/// A virtual IP that is about to leave.
#[derive(Debug)]
pub(super) struct Parting {
    begun: Instant,
    time: Duration,
    /// The clients whose sessions are waited for.
    waits_for: Option<HashSet<SocketAddr>>,
    /// When all others were asked to end.
    last_call: Option<Instant>,
    /// How often that was in vain.
    in_vain: u32,
    /// The addresses that no new client is let in by: settings may change meanwhile.
    shut: Vec<IpAddr>,
    /// The kernel has not said which sessions there are, when it was asked last.
    is_blind: bool,
    /// That was said: it is asked up to a hundred times a second.
    has_warned: bool,
    /// Asks the kernel.
    on: On,
}

/// Finds the connections on an address.
type On = fn(IpAddr) -> io::Result<Vec<Connection>>;

/// What is left of the sessions that are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Nothing,
    /// Clients that have not finished connecting.
    Coming,
    Sessions,
}

impl Parting {
    /// Its sessions get so much time.
    pub(super) fn begin(time: Duration) -> Self {
        Self {
            begun: Instant::now(),
            time,
            waits_for: None,
            last_call: None,
            in_vain: 0,
            shut: Vec::new(),
            is_blind: false,
            has_warned: false,
            on: sessions::on,
        }
    }

    /// The time is over.
    pub(super) fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.time
    }

    /// Nothing is waited for any more.
    pub(super) fn hurry(&mut self) {
        self.time = Duration::ZERO;
    }

    /// When to look again.
    pub(super) fn pace(&self) -> Duration {
        let is_soon = self.last_call.is_some() || self.begun.elapsed() < LATER * 5;
        if is_soon { SOON } else { LATER }
    }

    /// True while the last sessions are asked to end.
    pub(super) fn is_last_call(&self) -> bool {
        self.last_call.is_some()
    }

    /// How often it was in vain to ask all. While the kernel does not show sessions those that come are asked at the end: nobody sees when the
    /// others are gone.
    fn in_vain(&self) -> u32 {
        if self.is_blind { CALLS } else { self.in_vain }
    }

    /// True if sessions are waited for.
    /// `before_last` is called before clients may be kept out.
    pub(super) fn has_sessions(
        &mut self,
        spec: &Spec,
        of: &dyn Sessions,
        before_last: impl FnOnce(),
    ) -> bool {
        let Some(called) = self.last_call else {
            let begins = self.waits_for.is_none();
            let on = self.on;
            self.waits_for.get_or_insert_with(|| peers(spec, on));
            let left = self.ask_to_end(spec, of, begins);
            let rest = self.time.saturating_sub(self.begun.elapsed());
            let moment = if spec.vip.role == VipRole::Proxy { SHUT } else { OPEN };
            if !calls_all(left, (self.in_vain(), moment), rest, || peers(spec, on).is_empty()) {
                return true;
            }
            before_last();
            self.last_call = Some(Instant::now());
            if spec.vip.role == VipRole::Proxy && of.shut(&spec.addresses, true) {
                self.shut.clone_from(&spec.addresses);
            }
            self.waits_for = Some(peers(spec, on));
            return self.ask_to_end(spec, of, true) != Left::Nothing;
        };
        let is_shut = !self.shut.is_empty();
        if is_shut {
            // Whoever was on the way in meanwhile.
            self.waits_for = Some(peers(spec, self.on));
        }
        let left = self.ask_to_end(spec, of, is_shut);
        if called.elapsed() < lasts(if is_shut { SHUT } else { OPEN }, self.in_vain()) {
            return left != Left::Nothing;
        }
        if left != Left::Sessions {
            return false;
        }
        // Long transactions: others are let in meanwhile.
        self.open(of);
        self.last_call = None;
        self.in_vain += 1;
        true
    }

    /// What is left of those that are waited for. Where the kernel does not say, there may be sessions as long as their time lasts.
    fn ask_to_end(&mut self, spec: &Spec, of: &dyn Sessions, begins: bool) -> Left {
        let (mut left, mut is_blind) = (Left::Nothing, false);
        for address in &spec.addresses {
            match self.ask_on(*address, of, begins) {
                Ok(what) => left = left.max(what),
                Err(error) => {
                    (left, is_blind) = (Left::Sessions, true);
                    if !std::mem::replace(&mut self.has_warned, true) {
                        tracing::warn!(
                            vip = &*spec.vip.name, %error,
                            "cannot see the sessions on a virtual IP: unless that changes, it leaves when their time is over"
                        );
                    }
                }
            }
        }
        self.is_blind = is_blind;
        left
    }

    fn ask_on(&self, address: IpAddr, of: &dyn Sessions, begins: bool) -> io::Result<Left> {
        let mut all = match (self.on)(address) {
            Ok(all) => all,
            Err(error) => {
                // This process knows its own sessions without the kernel.
                of.leave(address, &[], begins);
                return Err(error);
            }
        };
        all.retain(|one| self.waits_for.as_ref().is_some_and(|them| them.contains(&one.peer())));
        let clients: Vec<SocketAddr> = all.iter().map(Connection::peer).collect();
        let idle = of.leave(address, &clients, begins);
        let busy = all.iter().filter(|one| !idle.contains(&one.peer()));
        let what = busy.map(|one| match (one.is_open(), one.is_coming()) {
            (true, _) => Left::Sessions,
            (false, true) => Left::Coming,
            (false, false) => Left::Nothing,
        });
        let left = what.max().unwrap_or(Left::Nothing);
        // Those that are not cut are there at the next look.
        let _ = cut(address, |one| idle.contains(&one.peer()));
        Ok(left)
    }

    /// Clients are let in again.
    pub(super) fn open(&mut self, of: &dyn Sessions) {
        let shut = std::mem::take(&mut self.shut);
        if !shut.is_empty() {
            of.shut(&shut, false);
        }
    }
}

/// How long all sessions are asked to end, after so many times in vain.
fn lasts(moment: Duration, in_vain: u32) -> Duration {
    moment * 2_u32.pow(in_vain.min(CALLS))
}

/// Whether all sessions are asked to end now, also the newest ones, with so much time left.
fn calls_all(
    left: Left,
    (in_vain, moment): (u32, Duration),
    rest: Duration,
    is_empty: impl FnOnce() -> bool,
) -> bool {
    if in_vain < CALLS {
        return left != Left::Sessions;
    }
    // At the end the rest is cut: what can end in order does so before.
    rest <= lasts(moment, in_vain) || left != Left::Sessions && is_empty()
}

fn peers(spec: &Spec, on: On) -> HashSet<SocketAddr> {
    // What cannot be seen is told where it is asked to end.
    let all = spec.addresses.iter().flat_map(|address| on(*address).unwrap_or_default());
    all.map(|one| one.peer()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use delphinus_topology::Vip;

    use super::*;
    use crate::keeper::KillOnMove;

    /// What was shut and opened, in order.
    #[derive(Default)]
    struct Door {
        shut: RefCell<Vec<(Vec<IpAddr>, bool)>>,
        asked: RefCell<Vec<IpAddr>>,
    }

    impl Sessions for Door {
        fn leave(&self, address: IpAddr, _: &[SocketAddr], _: bool) -> Vec<SocketAddr> {
            self.asked.borrow_mut().push(address);
            Vec::new()
        }

        fn shut(&self, addresses: &[IpAddr], is_shut: bool) -> bool {
            self.shut.borrow_mut().push((addresses.to_vec(), is_shut));
            true
        }
    }

    fn spec(addresses: &[IpAddr]) -> Spec {
        Spec {
            vip: Vip { name: "apps".into(), role: VipRole::Proxy },
            addresses: addresses.to_vec(),
            interface: None,
            kill_on_move: KillOnMove::Transactions,
            drain: Duration::from_secs(20),
        }
    }

    /// The kernel has no `tcp_diag`.
    #[test]
    fn where_the_kernel_does_not_show_sessions_they_have_their_time() {
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let (spec, door) = (spec(&[address]), Door::default());
        let mut parting = Parting::begin(spec.drain);
        parting.on = |_| Err(io::ErrorKind::NotFound.into());
        for _ in 0..3 {
            assert!(parting.has_sessions(&spec, &door, || {}));
        }
        assert!(!parting.is_last_call(), "new clients are served");
        assert_eq!(
            door.asked.borrow().as_slice(),
            [address; 3],
            "the process's own sessions are asked to end"
        );
        parting.time = lasts(SHUT, CALLS);
        assert!(
            parting.has_sessions(&spec, &door, || {}) && parting.is_last_call(),
            "all are asked at the end"
        );
    }

    /// One error of the kernel's, as for want of memory.
    #[test]
    fn what_the_kernel_does_not_show_once_costs_no_call() {
        let (spec, door) = (spec(&["192.0.2.1".parse().unwrap()]), Door::default());
        let mut parting = Parting::begin(spec.drain);
        parting.on = |_| Err(io::ErrorKind::OutOfMemory.into());
        assert!(parting.has_sessions(&spec, &door, || {}) && parting.in_vain() == CALLS);
        parting.on = |_| Ok(Vec::new());
        assert!(!parting.has_sessions(&spec, &door, || {}) && parting.is_last_call());
        assert_eq!(parting.in_vain(), 0, "the first call is as short as ever");
    }

    /// A reload takes an address out of the settings at that moment.
    #[test]
    fn what_was_shut_is_opened_whatever_the_settings_say_by_then() {
        let addresses = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().unwrap()).to_vec();
        let mut spec = spec(&addresses);
        let (door, mut parting) = (Door::default(), Parting::begin(spec.drain));
        parting.on = |_| Ok(Vec::new());
        parting.has_sessions(&spec, &door, || {});
        spec.addresses.pop();
        parting.has_sessions(&spec, &door, || {});
        parting.open(&door);
        parting.open(&door);
        assert_eq!(door.shut.into_inner(), [(addresses.clone(), true), (addresses, false)]);
    }

    /// One client's long transaction must not cost others their connections again and again.
    #[test]
    fn all_are_asked_twice_and_then_only_at_the_end() {
        let long = Duration::from_secs(20);
        let calls = |left, in_vain, rest, is_empty| calls_all(left, (in_vain, SHUT), rest, || is_empty);
        for in_vain in 0..CALLS {
            assert!(calls(Left::Nothing, in_vain, long, false) && calls(Left::Coming, in_vain, long, false));
            assert!(!calls(Left::Sessions, in_vain, Duration::ZERO, false), "first those of the beginning");
        }
        assert!(!calls(Left::Nothing, CALLS, long, false), "the newest are served");
        assert!(calls(Left::Nothing, CALLS, long, true), "there is nobody");
        assert!(calls(Left::Sessions, CALLS, lasts(SHUT, CALLS), false), "the rest is about to be cut");
    }

    #[test]
    fn the_moment_doubles() {
        let all = [0, 1, 2, 3].map(|in_vain| lasts(SHUT, in_vain).as_millis());
        assert_eq!(all, [150, 300, 600, 600]);
    }
}
