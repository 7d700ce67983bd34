//! Which place each backend and each mirror of a cluster has, while the configuration changes. Everything that is numbered by
//! `BackendId` has its size from the start, so that there are places to spare:
//!
//! | places | for |
//! |---|---|
//! | the first | the backends of the configuration at the start |
//! | the next | servers that the cluster names (`topology::decide::discovery`) |
//! | [`ROOMS`] more | backends that are added later |
//! | the last, [`MIRRORS`] more than at the start | mirrors, which only the pools know |
//!
//! A place that was once a backend's is never another's: whatever remembers its number means that server. One that is removed and
//! comes back under its name and address gets its place again. Mirrors leave nothing to be remembered: theirs are given again.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use delphinus_config as config;
use delphinus_config::{Cluster, Config};
use delphinus_monitor::BackendSpec;
use delphinus_net::rt::Notify;
use delphinus_net::{Place, Reach, Spot};
use delphinus_pool::Budget;
use delphinus_topology::{BackendId, Member, Role};
use delphinus_wire::handshake::client::{NamedBy, Trust};

use crate::error::Error;
use crate::limits;
use crate::settings::{address, reach};

/// How many backends can be added to a cluster while the process lives.
const ROOMS: usize = 64;
/// How many more mirrors there can be than at the start.
const MIRRORS: usize = 16;

/// The places of one cluster. Only the control plane has it.
#[derive(Debug)]
pub(crate) struct Places {
    all: Vec<(Arc<Place>, Arc<Budget>)>,
    /// What each has, or had.
    known: RefCell<Vec<Option<config::Backend>>>,
    at_start: usize,
    spares: usize,
    mirrors: Range<usize>,
}

/// What a configuration puts where. Nothing is changed yet.
#[derive(Debug)]
pub(crate) struct Seating {
    backends: Vec<Seat>,
    mirrors: Vec<Seat>,
    /// How backends that are found are reached.
    spares: Option<Reach>,
}

#[derive(Debug)]
struct Seat {
    index: usize,
    backend: config::Backend,
    /// `None`: as before.
    reach: Option<Reach>,
}

impl Places {
    /// With what the configuration has at the start; `bells` are those of the workers.
    pub(crate) fn new(config: &Config, cluster: &Cluster, bells: &[Arc<Notify>]) -> Result<Self, Error> {
        let (at_start, spares) = (cluster.backends.len(), cluster.spares());
        let first_mirror = at_start + spares + ROOMS;
        let mirrors = first_mirror..first_mirror + config.mirrors.len() + MIRRORS;
        let like = match cluster.backends.first() {
            Some(first) => of_found(reach(first)?),
            None => Reach::default(),
        };
        let budget = || Budget::new(delphinus_pool::BackendLimits::default(), bells.to_vec());
        let all = (0..mirrors.end).map(|_| (Place::spare(like.clone()), budget())).collect();
        let known = RefCell::new(vec![None; mirrors.end]);
        let places = Self { all, known, at_start, spares, mirrors };
        let seating = places.seat(config, cluster)?;
        places.take(config, cluster, seating);
        Ok(places)
    }

    /// All places with the limits of their connections, for the pools.
    pub(crate) fn for_pools(&self) -> Vec<(Arc<Place>, Arc<Budget>)> {
        self.all.clone()
    }

    /// The places of backends, for the monitor: those of the configuration, spare ones, and room.
    pub(crate) fn for_monitor(&self, cluster: &Cluster) -> [Vec<BackendSpec>; 3] {
        let weight = cluster.backends.first().map_or(0, |first| first.weight);
        let spec = |index: usize| match cluster.backends.get(index) {
            Some(backend) => {
                BackendSpec { place: self.all[index].0.clone(), role: role(backend), weight: backend.weight }
            }
            None => BackendSpec { place: self.all[index].0.clone(), role: Role::Replica, weight },
        };
        let found = self.at_start + self.spares;
        [0..self.at_start, self.at_start..found, found..self.mirrors.start]
            .map(|range| range.map(spec).collect())
    }

    /// Where the backends and mirrors of a configuration would be.
    ///
    /// # Errors
    /// A file of certificates that cannot be read, or too many backends since the start.
    pub(crate) fn seat(&self, config: &Config, cluster: &Cluster) -> Result<Seating, Error> {
        let known = self.known.borrow();
        let mut taken: Vec<usize> = Vec::new();
        let mut backends = Vec::new();
        for backend in &cluster.backends {
            let index = self.index_of(&known, &taken, backend).ok_or(Error::TooManyBackends(ROOMS))?;
            taken.push(index);
            backends.push(Seat::new(index, backend, known[index].as_ref())?);
        }
        let mut mirrors = Vec::new();
        for mirror in &config.mirrors {
            let is_it = |index: &usize| {
                known[*index].as_ref().is_some_and(|one| one.address == mirror.backend.address)
                    && !taken.contains(index)
            };
            let former = self.mirrors.clone().find(is_it);
            let is_free = |index: &usize| {
                let is_wanted =
                    |one: &config::Backend| config.mirrors.iter().any(|it| it.backend.address == one.address);
                !taken.contains(index) && !known[*index].as_ref().is_some_and(is_wanted)
            };
            let index = former
                .or_else(|| self.mirrors.clone().find(is_free))
                .ok_or(Error::TooManyMirrors(MIRRORS))?;
            taken.push(index);
            mirrors.push(Seat::new(index, &mirror.backend, known[index].as_ref())?);
        }
        let first = backends.first().filter(|_| self.spares > 0).filter(|first| first.reach.is_some());
        let spares = first.map(|first| reach(&first.backend).map(of_found)).transpose()?;
        Ok(Seating { backends, mirrors, spares })
    }

    /// The place of a backend: the one that it has or had, or a new one.
    fn index_of(
        &self,
        known: &[Option<config::Backend>],
        taken: &[usize],
        backend: &config::Backend,
    ) -> Option<usize> {
        let found = self.at_start + self.spares;
        let all = || (0..self.at_start).chain(found..self.mirrors.start);
        let is_it = |one: &config::Backend| (&one.name, &one.address) == (&backend.name, &backend.address);
        let former = all().find(|index| known[*index].as_ref().is_some_and(is_it));
        former.or_else(|| all().find(|index| known[*index].is_none() && !taken.contains(index)))
    }

    /// Moves everybody there: who asks for an address, or a limit, finds the new one.
    pub(crate) fn take(&self, config: &Config, cluster: &Cluster, seating: Seating) {
        let mut known = self.known.borrow_mut();
        for seat in &seating.backends {
            self.all[seat.index].1.set(limits::of_backend(config, cluster, &seat.backend));
        }
        for seat in &seating.mirrors {
            self.all[seat.index].1.set(limits::of_mirror(cluster, &seat.backend));
        }
        for index in self.at_start..self.at_start + self.spares {
            if let Some(first) = cluster.backends.first() {
                self.all[index].1.set(limits::of_backend(config, cluster, first));
            }
            if let Some(reach) = &seating.spares {
                self.all[index].0.reach_by(reach.clone());
            }
        }
        for Seat { index, backend, reach } in seating.backends.into_iter().chain(seating.mirrors) {
            let place = &self.all[index].0;
            if let Some(reach) = reach {
                place.reach_by(reach);
            }
            let spot =
                Spot { name: backend.name.as_str().into(), address: Some(address(&backend)), ip: None };
            let now = place.spot();
            // Where its name leads is the monitor's affair.
            if (&now.name, &now.address) != (&spot.name, &spot.address) {
                place.move_to(spot);
            }
            known[index] = Some(backend);
        }
    }

    /// What the monitor has to know of a configuration whose backends have their places: of each place that has, or had, one. Those that are
    /// removed come first: a server that comes back to its former place must not count as a second one beside the primary that it is.
    pub(crate) fn roster(&self, cluster: &Cluster) -> Vec<(BackendId, Option<Member>)> {
        let known = self.known.borrow();
        let found = self.at_start + self.spares;
        let of_backends = (0..self.at_start).chain(found..self.mirrors.start);
        let listed = of_backends.filter_map(|index| Some((index, known[index].as_ref()?)));
        let member = |(index, had): (usize, &config::Backend)| {
            let backend =
                cluster.backends.iter().find(|one| (&one.name, &one.address) == (&had.name, &had.address));
            let member = backend.map(|backend| Member {
                name: backend.name.as_str().into(),
                role: role(backend),
                weight: backend.weight,
            });
            (id(index), member)
        };
        let (removed, there): (Vec<_>, Vec<_>) = listed.map(member).partition(|(_, member)| member.is_none());
        [removed, there].concat()
    }

    /// The places of those members of a group that the configuration has, and of all that may be found, which are like the first.
    pub(crate) fn of_group(&self, cluster: &Cluster, group: &str) -> Vec<BackendId> {
        let known = self.known.borrow();
        let has = |backend: &config::Backend| backend.groups.iter().any(|one| one == group);
        let is_it = |index: &usize, backend: &config::Backend| {
            known[*index]
                .as_ref()
                .is_some_and(|one| (&one.name, &one.address) == (&backend.name, &backend.address))
        };
        let of =
            |backend: &config::Backend| (0..self.mirrors.start).find(|index| is_it(index, backend)).map(id);
        let mut members: Vec<_> = cluster.backends.iter().filter(|one| has(one)).filter_map(of).collect();
        if cluster.backends.first().is_some_and(has) {
            members.extend((self.at_start..self.at_start + self.spares).map(id));
        }
        members
    }

    /// The place of a mirror.
    pub(crate) fn of_mirror(&self, mirror: &config::Mirror) -> Option<BackendId> {
        let known = self.known.borrow();
        let is_it =
            |index: &usize| known[*index].as_ref().is_some_and(|one| one.address == mirror.backend.address);
        self.mirrors.clone().find(is_it).map(id)
    }
}

impl Seat {
    fn new(index: usize, backend: &config::Backend, before: Option<&config::Backend>) -> Result<Self, Error> {
        let is_same = before.is_some_and(|before| is_reached_alike(before, backend));
        let reach = if is_same { None } else { Some(reach(backend)?) };
        Ok(Self { index, backend: backend.clone(), reach })
    }
}

fn is_reached_alike(one: &config::Backend, other: &config::Backend) -> bool {
    let way = |backend: &config::Backend| {
        (
            (backend.address.clone(), backend.tls, backend.tls_ca.clone(), backend.trust.clone()),
            (backend.compression, backend.zstd_compression_level, backend.send_proxy_protocol),
        )
    };
    way(one) == way(other)
}

/// How servers are reached that other servers name.
fn of_found(like: Reach) -> Reach {
    let trust = Trust { named_by: NamedBy::Servers, ..like.trust };
    Reach { trust, ..like }
}

fn role(backend: &config::Backend) -> Role {
    match backend.role {
        Some(config::Role::Primary) => Role::Primary,
        Some(config::Role::Replica) | None => Role::Replica,
    }
}

fn id(index: usize) -> BackendId {
    BackendId(u16::try_from(index).expect("invariant: a file cannot hold so many backends"))
}
