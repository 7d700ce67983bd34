//! One virtual IP on this host, over time: it comes, is announced for a while, is refreshed, and goes in order or at once.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_lease::boot_now;
use delphinus_topology::{BootTime, Terms};

use crate::addresses::{self, Interface, choose, full};
use crate::announce::{AT_MS, announce};
use crate::keeper::parting::Parting;
use crate::keeper::{Condition, KillOnMove, Sessions, Spec};
use crate::onward::Onward;
use crate::sessions::cut;

/// After so long without success it is told to the peers that this host cannot have an address.
const FAILS: Duration = Duration::from_millis(600);
/// So long after the last try another one may be made.
const TRY_AGAIN: Duration = Duration::from_secs(4);

/// A virtual IP on this host.
#[derive(Debug)]
pub(super) struct Place {
    spec: Spec,
    condition: Condition,
    since: Instant,
    /// Addresses that come, though the virtual IP is here: settings have added them since, or it is not known yet how they were added.
    joins: Vec<IpAddr>,
    /// When it came, or an address of it.
    came: Instant,
    /// How often it has been announced since then.
    announced: usize,
    /// How its sessions end, while it is about to leave.
    parting: Option<Parting>,
    /// What comes for it too early or too late when it leaves.
    onward: Vec<Onward>,
    error: Option<String>,
    /// Why its sessions could not be ended, as it was told last.
    not_cut: Option<String>,
    /// Since when, and when last, it could not be kept here for a reason that is this host's.
    fails: Option<(Instant, Instant)>,
    /// When the kernel removes it by itself.
    ends: Option<BootTime>,
    /// It was found in the kernel, and nothing is known of its end: so long it is tried to remove it.
    tries: Option<Duration>,
}

impl Place {
    /// An address that is in the kernel already was added by a process before this one, or by hand: perhaps without a lifetime, and on
    /// another interface, where it would stay when the lease is lost. Where it cannot be removed that is tried again for one `ttl`, as the
    /// end of its lifetime is not known: the store may be heard of much later than this process began.
    pub(super) fn new(spec: Spec, interfaces: &[Interface], ttl: Duration) -> Self {
        let is_there = |address: &IpAddr| {
            interfaces.iter().any(|one| one.addresses.contains(&(*address, full(*address))))
        };
        let is_here = spec.addresses.iter().any(is_there);
        let condition = if is_here { Condition::Here } else { Condition::Elsewhere };
        let joins = if is_here { spec.addresses.clone() } else { Vec::new() };
        Self {
            spec,
            condition,
            since: Instant::now(),
            joins,
            came: Instant::now(),
            announced: 0,
            parting: None,
            onward: Vec::new(),
            error: None,
            not_cut: None,
            fails: None,
            ends: None,
            tries: is_here.then_some(ttl),
        }
    }

    /// Settings have changed: the same place goes on with what it has, and perhaps another leaves with what is wished no more.
    pub(super) fn with(mut self, spec: Spec) -> (Self, Option<Self>) {
        let mut leaves = self.spec.clone();
        leaves.addresses.retain(|address| !spec.addresses.contains(address));
        let joins = spec.addresses.iter().filter(|address| !self.spec.addresses.contains(address));
        self.joins.extend(joins);
        self.spec = spec;
        let leaving = (!leaves.addresses.is_empty() && self.is_here()).then(|| Self {
            condition: Condition::Here,
            ends: self.ends,
            tries: self.tries,
            ..Self::new(leaves, &[], Duration::ZERO)
        });
        (self, leaving)
    }

    /// It can go on with these settings. On another interface it comes anew.
    pub(super) fn is_of(&self, spec: &Spec) -> bool {
        self.spec.vip.name == spec.vip.name
            && self.spec.interface == spec.interface
            && self.spec.addresses.iter().any(|address| spec.addresses.contains(address))
    }

    /// Another virtual IP, or the same with former settings, that has one of these addresses or the same key.
    pub(super) fn is_before(&self, next: &Spec) -> bool {
        self.spec.vip.name == next.vip.name
            || self.spec.addresses.iter().any(|address| next.addresses.contains(address))
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
        if self.condition == Condition::Failed && self.fails.is_none() {
            self.set(Condition::Elsewhere);
            self.error = None;
        }
    }

    /// Its name, if this host could not have it when that was tried last.
    pub(super) fn cannot(&mut self) -> Option<&str> {
        if self.fails.is_some_and(|(_, last)| last.elapsed() >= TRY_AGAIN) {
            self.fails = None;
        }
        let fails = self.fails.is_some_and(|(since, _)| since.elapsed() >= FAILS);
        fails.then_some(&*self.spec.vip.name)
    }

    /// It comes, or stays until then.
    pub(super) fn keep(&mut self, until: BootTime, of: &dyn Sessions) {
        let comes = !self.is_here();
        self.stays(of);
        let mut added = Vec::new();
        let kept = self.refresh(until, comes, &mut added);
        if let Err(error) | Ok(Some(error)) = &kept
            && self.error.as_ref() != Some(error)
        {
            tracing::error!(vip = &**self.name(), reason = %error, "cannot keep a virtual IP on this host safely");
        }
        let warning = match kept {
            Ok(warning) => warning,
            Err(error) => return self.has_failed(error, until, comes, &added),
        };
        (self.error, self.fails) = (warning, None);
        self.not_cut = None;
        if comes || !self.joins.is_empty() {
            (self.came, self.announced) = (Instant::now(), 0);
            self.joins.clear();
        }
        if comes {
            tracing::warn!(vip = &**self.name(), addresses = ?self.spec.addresses, "a virtual IP has come to this host");
        }
        self.set(Condition::Here);
        self.announce();
    }

    /// Where one of its addresses cannot be here, none is: the key goes to a host that can have all of them.
    fn has_failed(&mut self, error: String, until: BootTime, comes: bool, added: &[IpAddr]) {
        self.error = Some(error);
        // A lease that is about to end is not this host's fault.
        if has_time(until) {
            let now = Instant::now();
            self.fails = Some((self.fails.map_or(now, |(since, _)| since), now));
        }
        if !comes {
            return;
        }
        let gone = addresses::interfaces()
            .and_then(|all| for_each(added, |address| addresses::remove_everywhere(&all, address, None)));
        if let Err(error) = &gone {
            tracing::error!(vip = &**self.name(), %error, "cannot remove a part of a virtual IP again");
        }
        // Until it has been removed it leaves in order, and its key stays here.
        self.set(if gone.is_ok() { Condition::Failed } else { Condition::Here });
    }

    /// What has to be said of it, or why it cannot be here. Addresses that the kernel may have taken are `added`, also where others follow
    /// that it refuses.
    fn refresh(
        &mut self,
        until: BootTime,
        comes: bool,
        added: &mut Vec<IpAddr>,
    ) -> Result<Option<String>, String> {
        let mut warning = None;
        (self.ends, self.tries) = (Some(until), None);
        let all = addresses::interfaces().map_err(|error| error.to_string())?;
        for address in &self.spec.addresses {
            let interface = choose(&all, *address, self.spec.interface.as_deref())?;
            let comes = comes || self.joins.contains(address);
            // Where it is already, giving its key away would only bring a second host.
            match addresses::own_of_host(&all, *address) {
                Some(own) if comes => return Err(own),
                own => warning = warning.or(own),
            }
            let is_there = interface.addresses.iter().any(|(ip, _)| ip == address);
            if comes && !is_there {
                // Sessions of an earlier stay: their clients have been told something else since.
                if let Err(error) = cut(*address, |_| true) {
                    tracing::warn!(%address, %error, "sessions that an address had when it was here before are not ended");
                }
            }
            if comes {
                // On another interface it would stay when the lease is lost.
                addresses::remove_everywhere(&all, *address, Some(interface.index))
                    .map_err(|error| format!("{address}: {error}"))?;
            }
            added.push(*address);
            keep_until(
                until,
                boot_now,
                |left| addresses::keep(*address, interface.index, left),
                || addresses::remove(*address, interface.index),
            )
            .map_err(|error| format!("{address}: {error}"))?;
        }
        Ok(warning)
    }

    /// As often as it is time.
    fn announce(&mut self) {
        let since = u64::try_from(self.came.elapsed().as_millis()).unwrap_or(u64::MAX);
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
        for_each(&self.spec.addresses, |address| {
            let interface =
                choose(&all, address, self.spec.interface.as_deref()).map_err(io::Error::other)?;
            act(address, interface)
        })
    }

    /// It goes in order. True when it is gone, and its key can be given back. Where the server has lost the role that the address leads
    /// to, no session on it is worth waiting for.
    pub(super) fn leave(&mut self, until: BootTime, has_lost_role: bool, of: &dyn Sessions) -> bool {
        if !self.is_here() {
            return true;
        }
        let wait = match self.spec.kill_on_move {
            KillOnMove::Transactions if !has_lost_role => self.spec.drain,
            KillOnMove::Transactions | KillOnMove::None | KillOnMove::All => Duration::ZERO,
        };
        let parting = self.parting.get_or_insert_with(|| Parting::begin(wait));
        if wait.is_zero() {
            // It may have lost its role only now.
            parting.hurry();
        }
        if self.condition != Condition::Leaving {
            tracing::warn!(vip = &**self.name(), "a virtual IP leaves this host");
            self.set(Condition::Leaving);
        }
        if has_time(until) && self.has_sessions(of) && self.refresh(until, false, &mut Vec::new()).is_ok() {
            return false;
        }
        pass_on(&self.spec, &mut self.onward);
        if self.drop_at_once(of) || self.has_ended() {
            return true;
        }
        // It may still be there: until the kernel has removed it, its key is not given to another host.
        self.set(Condition::Leaving);
        self.parting = Some(Parting::begin(Duration::ZERO));
        false
    }

    /// True if sessions are waited for.
    fn has_sessions(&mut self, of: &dyn Sessions) -> bool {
        let Some(parting) = &mut self.parting else { return false };
        if self.spec.kill_on_move != KillOnMove::Transactions || parting.is_over() {
            return false;
        }
        let (spec, onward) = (&self.spec, &mut self.onward);
        let has_sessions = parting.has_sessions(spec, of, || pass_on(spec, onward));
        if !parting.is_last_call() {
            self.onward.drain(..).for_each(Onward::forget);
        }
        has_sessions
    }

    /// It does not leave, or has left.
    fn stays(&mut self, of: &dyn Sessions) {
        if let Some(mut parting) = self.parting.take() {
            parting.open(of);
        }
        self.onward.drain(..).for_each(Onward::forget);
    }

    /// When its sessions are to be looked at again.
    pub(super) fn pace(&self) -> Option<Duration> {
        self.parting.as_ref().map(Parting::pace)
    }

    /// Waits until what has come for it has been passed on.
    pub(super) fn finish(&mut self) {
        self.onward.iter_mut().for_each(Onward::finish);
    }

    /// It goes now, with its sessions. False if it may still be there.
    pub(super) fn drop_at_once(&mut self, of: &dyn Sessions) -> bool {
        if self.spec.kill_on_move != KillOnMove::None {
            for address in &self.spec.addresses {
                // While the address is still there: the other end hears of it.
                if let Err(error) = cut(*address, |_| true) {
                    let error = error.to_string();
                    // It may be tried five times a second.
                    if self.not_cut.as_ref() != Some(&error) {
                        tracing::warn!(vip = &**self.name(), %error, "cannot end the sessions on a virtual IP");
                    }
                    self.not_cut = Some(error);
                }
            }
        }
        let all = addresses::interfaces();
        let anew = all.as_ref().map(|all| come_anew(all, &self.spec.addresses)).unwrap_or_default();
        let gone = all.and_then(|all| {
            for_each(&self.spec.addresses, |address| addresses::remove_everywhere(&all, address, None))
        });
        let is_gone = gone.is_ok();
        match gone {
            Ok(()) => {
                tracing::warn!(vip = &**self.name(), "a virtual IP has left this host");
                // Why it had to leave is still to be seen.
                self.error = self.error.take().filter(|_| self.fails.is_some());
            }
            Err(error) => {
                // The kernel removes it by itself when its time is over.
                let error = error.to_string();
                if self.error.as_ref() != Some(&error) {
                    tracing::error!(vip = &**self.name(), %error, "cannot remove a virtual IP");
                }
                self.error = Some(error);
                // If it stays after all, another host may have had it in between, and neighbours send to that one.
                (self.came, self.announced) = (Instant::now(), 0);
                self.joins.extend(anew);
                self.joins.sort_unstable();
                self.joins.dedup();
                self.ends = self.tries.take().map(|tries| boot_now() + tries).or(self.ends);
            }
        }
        if let Some(mut parting) = self.parting.take() {
            parting.open(of);
        }
        self.set(match self.fails {
            // Another host may have it by now: it is tried again.
            _ if !is_gone && !self.has_ended() => Condition::Leaving,
            Some(_) => Condition::Failed,
            None => Condition::Elsewhere,
        });
        is_gone
    }

    /// The kernel has removed it by itself, if nothing else has.
    fn has_ended(&self) -> bool {
        self.ends.is_none_or(|ends| boot_now() > ends + Terms::LEAST_MARGIN)
    }
}

/// Gives an address to the kernel until then. The kernel counts from when it is told: a process that hangs just before that would bring
/// back what another host may have by now.
fn keep_until(
    until: BootTime,
    now: impl Fn() -> BootTime,
    keep: impl FnOnce(Duration) -> io::Result<()>,
    remove: impl FnOnce() -> io::Result<()>,
) -> Result<(), String> {
    let left = until.since(now());
    if left < Duration::from_secs(1) {
        return Err("the lease ends before the address could be added".to_owned());
    }
    keep(left).map_err(|error| error.to_string())?;
    if now() < until {
        return Ok(());
    }
    remove().map_err(|error| format!("the lease has ended, and the kernel does not remove it: {error}"))?;
    Err("the lease has ended while the address was added".to_owned())
}

/// The kernel counts whole seconds.
fn has_time(until: BootTime) -> bool {
    until.since(boot_now()) >= Duration::from_secs(1)
}

/// Keeps what comes from now on for the next host, if nothing does so yet.
fn pass_on(spec: &Spec, onward: &mut Vec<Onward>) {
    if !onward.is_empty() {
        return;
    }
    let Ok(all) = addresses::interfaces() else { return };
    for address in &spec.addresses {
        let Ok(interface) = choose(&all, *address, spec.interface.as_deref()) else { continue };
        match Onward::begin(*address, interface) {
            Ok(one) => onward.push(one),
            Err(error) => {
                tracing::info!(%address, %error, "clients that connect while the address moves may wait for a second");
            }
        }
    }
}

/// Those that come anew if they stay after they could not be removed. One of the host itself does not: it could only fail to come, and its key
/// would go to a second host.
fn come_anew(all: &[Interface], addresses: &[IpAddr]) -> Vec<IpAddr> {
    addresses.iter().copied().filter(|one| addresses::own_of_host(all, *one).is_none()).collect()
}

/// Does it to all of them, whatever becomes of the others; the first error.
fn for_each(addresses: &[IpAddr], act: impl FnMut(IpAddr) -> io::Result<()>) -> io::Result<()> {
    addresses.iter().copied().map(act).fold(Ok(()), io::Result::and)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use delphinus_topology::{Vip, VipRole};

    use super::*;

    fn spec(addresses: &[&str]) -> Spec {
        Spec {
            vip: Vip { name: "apps".into(), role: VipRole::Proxy },
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            interface: None,
            kill_on_move: KillOnMove::None,
            drain: Duration::ZERO,
        }
    }

    const TTL: Duration = Duration::from_mins(1);

    fn lo(address: &str) -> Interface {
        Interface {
            index: 1,
            name: "lo".into(),
            mac: None,
            is_up: true,
            is_loopback: true,
            addresses: vec![(address.parse().unwrap(), 32)],
        }
    }

    #[test]
    fn what_is_added_later_comes_and_what_was_found_may_be_anywhere() {
        let (place, leaving) =
            Place::new(spec(&["10.0.0.1"]), &[], TTL).with(spec(&["10.0.0.1", "10.0.0.2"]));
        assert_eq!(place.joins, ["10.0.0.2".parse::<IpAddr>().unwrap()]);
        assert!(leaving.is_none());
        let place = Place::new(spec(&["10.0.0.1"]), &[lo("10.0.0.1")], TTL);
        assert!(place.is_here(), "as the address may be");
        assert_eq!(place.joins, place.spec.addresses, "not where it belongs, as far as is known");
    }

    struct Nobody;

    impl Sessions for Nobody {
        fn leave(&self, _: IpAddr, _: &[SocketAddr], _: bool) -> Vec<SocketAddr> {
            Vec::new()
        }

        fn shut(&self, _: &[IpAddr], _: bool) -> bool {
            false
        }
    }

    /// Its key is another's already.
    #[test]
    fn what_cannot_be_removed_is_tried_again_until_the_kernel_has_removed_it() {
        // An address of the host itself is not removed.
        let mut place = Place::new(spec(&["127.0.0.1"]), &[lo("127.0.0.1")], TTL);
        place.joins.clear();
        assert_eq!(place.ends, None, "the store may be heard of late");
        assert!(!place.drop_at_once(&Nobody) && place.is_here(), "it was found at the start");
        let ends = place.ends;
        assert!(ends.is_some_and(|ends| ends > boot_now()) && !place.drop_at_once(&Nobody));
        assert_eq!(place.ends, ends, "it counts from the first try");
        place.ends = Some(BootTime::default());
        assert!(!place.drop_at_once(&Nobody) && !place.is_here());
    }

    /// An operator has added it by hand, with the prefix of the network, while it was here; then the tenure was lost for a moment.
    #[test]
    fn an_address_of_the_host_that_could_not_leave_stays_with_a_warning() {
        let mut place = Place::new(spec(&["127.0.0.1"]), &[lo("127.0.0.1")], TTL);
        (place.joins, place.announced) = (Vec::new(), AT_MS.len());
        assert!(!place.drop_at_once(&Nobody) && place.is_here());
        assert_eq!(place.announced, 0, "another host may have had it");
        // The lease is back. It has no time left here, so that the test changes nothing in the kernel.
        place.keep(boot_now(), &Nobody);
        let error = place.error().unwrap();
        assert!(error.contains("the lease ends before the address could be added"), "{error}");
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let own = Interface { addresses: vec![(addresses[0], 24), (addresses[1], 32)], ..lo("10.0.0.3") };
        assert_eq!(come_anew(&[own], &addresses), addresses[1..], "others come anew");
    }

    /// It hangs (SIGSTOP) between its look at the clock and its word to the kernel.
    #[test]
    fn an_address_that_comes_after_its_lease_goes_at_once() {
        let start = BootTime(Duration::from_secs(100));
        let done = |hangs: Duration| {
            let (now, is_there) = (std::cell::Cell::new(start), std::cell::Cell::new(false));
            let keep = |left| {
                assert_eq!(left, Duration::from_secs(4));
                now.set(now.get() + hangs);
                is_there.set(true);
                Ok(())
            };
            let remove = || {
                is_there.set(false);
                Ok(())
            };
            let kept = keep_until(start + Duration::from_secs(4), || now.get(), keep, remove);
            (kept.is_ok(), is_there.get())
        };
        assert_eq!(done(Duration::from_millis(3)), (true, true));
        assert_eq!(done(Duration::from_secs(4)), (false, false));
        assert_eq!(done(Duration::from_mins(1)), (false, false));
    }

    #[test]
    fn one_address_that_fails_keeps_no_other_one() {
        let all: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2"].iter().map(|text| text.parse().unwrap()).collect();
        let mut done = Vec::new();
        let outcome = for_each(&all, |address| {
            done.push(address);
            if done.len() == 1 { Err(io::Error::other("no")) } else { Ok(()) }
        });
        assert!(outcome.is_err());
        assert_eq!(done, all);
    }
}
