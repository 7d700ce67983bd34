//! Delphinus beside keepalived with HAProxy: the same machines, the same faults, the same clients. `cargo xtask e2e vip --peers`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::callers::{Callers, Seen};
use super::group_peers::GroupPeers;
use super::keepalived::Keepalived;
use super::proxies::{Kind, Proxies};
use super::watch::{Watch, has};
use super::world::{LIMIT, signal};
use crate::client::Login;
use crate::machines::Machines;
use crate::page_table::PageTable;
use crate::poll::until;
use crate::stage::Address;

/// Of the lease, by default.
const TTL: Duration = Duration::from_secs(6);
/// After the move, in which two holders would be seen.
const AFTERWARDS: Duration = Duration::from_secs(3);
/// What has not happened by then does not happen.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillProxy,
    KillKeeper,
    HangProxy,
    HangKeeper,
    Planned,
    CutOff,
    /// Of a Group Replication group.
    KillPrimary,
}

impl Fault {
    /// Those of a virtual IP.
    const ALL: [Self; 6] =
        [Self::KillProxy, Self::KillKeeper, Self::HangProxy, Self::HangKeeper, Self::Planned, Self::CutOff];

    /// By when another machine has to have the address, where Delphinus keeps it.
    fn limit(self) -> Option<Duration> {
        match self {
            Self::KillProxy | Self::HangProxy | Self::CutOff => Some(TTL + Duration::from_secs(1)),
            Self::Planned => Some(Duration::from_secs(1)),
            Self::KillKeeper | Self::HangKeeper | Self::KillPrimary => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KillProxy => "`kill -9` of the proxy",
            Self::KillKeeper => "`kill -9` of what holds the address",
            Self::HangProxy => "SIGSTOP of the proxy",
            Self::HangKeeper => "SIGSTOP of what holds the address",
            Self::Planned => "planned stop",
            Self::CutOff => "the machine is cut off",
            Self::KillPrimary => "`kill -9` of a group's primary, 4 clients write",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Delphinus,
    Keepalived,
    /// `MySQL` Router.
    Router,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delphinus => "Delphinus",
            Self::Keepalived => "keepalived 2.2, HAProxy 2.6",
            Self::Router => "MySQL Router 9.7",
        })
    }
}

const TABLE: PageTable = PageTable {
    begin: "<!-- Written by `cargo xtask e2e vip --peers --docs`: begin -->\n",
    head: "| what is done | by | the address is nowhere for | on two machines for | no client gets an answer for | statements that failed, of 4 clients |\n\
           |---|---|--:|--:|--:|--:|\n",
};

/// The worst of several times.
#[derive(Debug, Default, Clone)]
struct Worst {
    gap: Duration,
    double: Duration,
    /// They both still had it at the end.
    stays_double: bool,
    silence: Duration,
    errors: u32,
    texts: BTreeMap<String, u32>,
    /// After which time the other machine had it; longest of all if it never had.
    taken: Duration,
    login: Duration,
}

/// A site with either.
enum Site {
    Delphinus(Box<Proxies>),
    Keepalived(Box<Keepalived>),
}

/// Does each fault, or those with one of these parts in their names, so many times, says each row, and writes it into the page if there is one.
pub fn compare(
    (rounds, only): (u32, &[String]),
    page: Option<&Path>,
    say: impl FnMut(&str),
) -> Result<(u32, u32)> {
    crate::machines::ensure_own_network()?;
    let mut table = Table { page, say, passed: 0, failed: 0 };
    let is_wanted =
        |fault: &Fault| only.is_empty() || only.iter().any(|part| fault.to_string().contains(part));
    for peer in [Peer::Delphinus, Peer::Keepalived] {
        if !Fault::ALL.iter().any(is_wanted) {
            continue;
        }
        let mut site = Site::start(peer)?;
        for fault in Fault::ALL.into_iter().filter(is_wanted) {
            // It is one process there.
            if peer == Peer::Delphinus && matches!(fault, Fault::KillKeeper | Fault::HangKeeper) {
                continue;
            }
            let worst = (0..rounds).try_fold(Worst::default(), |worst, _| Ok(worst.with(site.trial(fault)?)));
            if worst.is_err() {
                site = Site::start(peer)?;
            }
            table.add(fault, peer, worst)?;
        }
    }
    if is_wanted(&Fault::KillPrimary) {
        match kill_primaries(rounds) {
            Ok([own, router]) => {
                table.add(Fault::KillPrimary, Peer::Delphinus, Ok(own))?;
                table.add(Fault::KillPrimary, Peer::Router, Ok(router))?;
            }
            Err(error) => table.add(Fault::KillPrimary, Peer::Router, Err(error))?,
        }
    }
    Ok((table.passed, table.failed))
}

fn kill_primaries(rounds: u32) -> Result<[Worst; 2]> {
    let mut group = GroupPeers::start()?;
    let mut worst = [Worst::default(), Worst::default()];
    for _ in 0..rounds {
        let seen = group.kill_the_primary()?;
        for (worst, seen) in worst.iter_mut().zip(seen) {
            let Seen { silence, errors, texts, .. } = seen;
            *worst = std::mem::take(worst).with(Worst { silence, errors, texts, ..Worst::default() });
        }
    }
    Ok(worst)
}

/// What is told of each row, and where it is kept.
struct Table<'a, S> {
    page: Option<&'a Path>,
    say: S,
    passed: u32,
    failed: u32,
}

impl<S: FnMut(&str)> Table<'_, S> {
    fn add(&mut self, fault: Fault, peer: Peer, worst: Result<Worst>) -> Result<()> {
        let worst = match worst {
            Ok(worst) => worst,
            Err(error) => {
                self.failed += 1;
                (self.say)(&format!("{fault}, {peer}: FAILED: {error:#}"));
                return Ok(());
            }
        };
        let row = worst.row(fault, peer);
        (self.say)(&row);
        let late = fault.limit().filter(|limit| peer == Peer::Delphinus && worst.taken > *limit);
        if peer != Peer::Router && fault != Fault::KillPrimary {
            let (took, login) = (worst.taken.as_secs_f64(), worst.login.as_secs_f64());
            let judged = late
                .map_or_else(String::new, |limit| format!(": LATE, it may take {} ms", limit.as_millis()));
            (self.say)(&format!(
                "    the other machine has the address after {took:.2} s{judged}; a login took {login:.2} s at most"
            ));
        }
        for (text, count) in &worst.texts {
            (self.say)(&format!("    {count} x {text}"));
        }
        if let Some(page) = self.page {
            TABLE.write_row(page, &row, starts())?;
        }
        // What others do is their own affair.
        let is_wrong = peer == Peer::Delphinus && (!worst.double.is_zero() || late.is_some());
        let count = if is_wrong { &mut self.failed } else { &mut self.passed };
        *count += 1;
        Ok(())
    }
}

/// The table's rows, in its order.
fn starts() -> impl Iterator<Item = String> {
    let peers = [Peer::Delphinus, Peer::Keepalived, Peer::Router];
    Fault::ALL
        .into_iter()
        .chain([Fault::KillPrimary])
        .flat_map(move |fault| peers.map(|peer| start(fault, peer)))
}

fn start(fault: Fault, peer: Peer) -> String {
    format!("| {fault} | {peer} | ")
}

impl Worst {
    fn with(self, other: Self) -> Self {
        Self {
            gap: self.gap.max(other.gap),
            double: self.double.max(other.double),
            stays_double: self.stays_double || other.stays_double,
            silence: self.silence.max(other.silence),
            errors: self.errors.max(other.errors),
            texts: other.texts,
            taken: self.taken.max(other.taken),
            login: self.login.max(other.login),
        }
    }

    fn row(&self, fault: Fault, peer: Peer) -> String {
        let seconds = |time: Duration, most: Duration| {
            if time >= most {
                format!("more than {} s", most.as_secs())
            } else {
                format!("{:.2} s", time.as_secs_f64())
            }
        };
        format!(
            "{}{} | {} | {} | {} |",
            start(fault, peer),
            if fault == Fault::KillPrimary { "-".to_owned() } else { seconds(self.gap, PATIENCE) },
            match (self.stays_double, self.double) {
                (true, _) => "for good".to_owned(),
                (false, Duration::ZERO) => "-".to_owned(),
                (false, time) => seconds(time, PATIENCE),
            },
            seconds(self.silence, PATIENCE),
            self.errors
        )
    }
}

impl Site {
    fn start(peer: Peer) -> Result<Self> {
        Ok(match peer {
            Peer::Delphinus => Self::Delphinus(Box::new(Proxies::start(Kind::Plain)?)),
            Peer::Keepalived => Self::Keepalived(Box::new(Keepalived::start()?)),
            Peer::Router => bail!("MySQL Router has no virtual IP"),
        })
    }

    fn watch(&self) -> &Watch {
        match self {
            Self::Delphinus(site) => site.watch(),
            Self::Keepalived(site) => &site.watch,
        }
    }

    fn machines(&self) -> &Machines {
        match self {
            Self::Delphinus(site) => site.machines(),
            Self::Keepalived(site) => &site.machines,
        }
    }

    fn address(&self) -> Address {
        match self {
            Self::Delphinus(site) => site.address(),
            Self::Keepalived(site) => site.address(),
        }
    }

    /// One fault, from a site that works to one that works again.
    fn trial(&mut self, fault: Fault) -> Result<Worst> {
        self.mend()?;
        let address = self.address();
        let callers = Callers::begin(&Login::new(&address).over_tcp(&address), "SELECT 1");
        until(LIMIT, "clients that work", || Ok(callers.are_answered()))?;
        let holder = self.watch().holder().context("no machine has the address")?;
        let ip: IpAddr = address.host.parse()?;
        let (since, double_before) = (Instant::now(), self.watch().double_for());
        callers.forget();
        self.strike(fault, holder)?;
        let other = self.machines().process(1 - holder);
        // Where the address stays where it is, that is what is to be seen.
        let _ = until(PATIENCE, "a move", || Ok(has(other, ip) && callers.are_answered()));
        std::thread::sleep(AFTERWARDS);
        let seen = callers.seen();
        let found = Worst {
            gap: self.watch().gap_since(since),
            double: self.watch().double_for().saturating_sub(double_before),
            stays_double: has(other, ip) && has(self.machines().process(holder), ip),
            silence: seen.silence,
            errors: seen.errors,
            texts: seen.texts,
            login: seen.login,
            taken: self.watch().taken_from(holder, since).unwrap_or(PATIENCE),
        };
        drop(callers);
        self.heal(fault, holder)?;
        Ok(found)
    }

    fn strike(&mut self, fault: Fault, holder: usize) -> Result<()> {
        if fault == Fault::CutOff {
            return self.machines().cut_off(holder);
        }
        match self {
            Self::Delphinus(site) => {
                let how = match fault {
                    Fault::HangProxy | Fault::HangKeeper => Signal::STOP,
                    Fault::Planned => Signal::TERM,
                    _ => Signal::KILL,
                };
                signal(site.process(holder)?, how)
            }
            Self::Keepalived(site) => match fault {
                Fault::Planned => site.stop(holder),
                Fault::KillProxy | Fault::KillKeeper => {
                    site.signal(holder, fault == Fault::KillProxy, Signal::KILL)
                }
                _ => site.signal(holder, fault == Fault::HangProxy, Signal::STOP),
            },
        }
    }

    fn heal(&mut self, fault: Fault, holder: usize) -> Result<()> {
        if fault == Fault::CutOff {
            self.machines().join(holder)?;
        }
        match self {
            Self::Delphinus(site) => match fault {
                Fault::HangProxy => signal(site.process(holder)?, Signal::CONT),
                Fault::CutOff => Ok(()),
                _ => {
                    site.kill(holder);
                    Ok(())
                }
            },
            Self::Keepalived(site) => {
                match fault {
                    Fault::HangProxy | Fault::HangKeeper => {
                        site.signal(holder, fault == Fault::HangProxy, Signal::CONT)?;
                    }
                    Fault::KillProxy => site.bury(holder, true),
                    Fault::KillKeeper | Fault::Planned => site.bury(holder, false),
                    Fault::CutOff | Fault::KillPrimary => {}
                }
                Ok(())
            }
        }
    }

    /// Everything runs, and one machine has the address.
    fn mend(&mut self) -> Result<()> {
        match self {
            Self::Delphinus(site) => site.settle(),
            Self::Keepalived(site) => {
                site.mend()?;
                // Who has come back does not take it, and both know each other by then.
                std::thread::sleep(Duration::from_secs(6));
                site.mend()
            }
        }
    }
}
