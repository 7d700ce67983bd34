//! What would go wrong with a switchover, before anything is done: a table for operators.

use std::time::Duration;

use super::candidate::{stands, unfit};
use super::errant::whole_history;
use super::proof::ENDLESS;
use super::relay::Relay;
use super::standing::{AsSource, Guard, Server, Source, Standing, StartsReadOnly};
use crate::backend::BackendId;
use crate::facts::Flavor;

/// One look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// On which server, if on one.
    pub backend: Option<BackendId>,
    /// What came of it.
    pub verdict: Verdict,
    /// In words.
    pub result: String,
    /// What to do; empty where there is nothing.
    pub advice: String,
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// In order.
    Ok,
    /// It works, and something may be lost or late.
    Warn,
    /// It cannot work.
    Fail,
}

impl Verdict {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warning",
            Self::Fail => "failed",
        }
    }
}

/// The looks at one move, as they are collected.
#[derive(Default)]
struct Looks(Vec<Check>);

impl Looks {
    fn add(&mut self, name: &'static str, backend: Option<BackendId>, found: Result<String, Bad>) {
        let (verdict, result, advice) = match found {
            Ok(text) => (Verdict::Ok, text, String::new()),
            Err(Bad(verdict, text, advice)) => (verdict, text, advice),
        };
        self.0.push(Check { name, backend, verdict, result, advice });
    }
}

/// How bad, what, and what to do.
struct Bad(Verdict, String, String);

fn fail(what: impl Into<String>, advice: impl Into<String>) -> Bad {
    Bad(Verdict::Fail, what.into(), advice.into())
}

fn warn(what: impl Into<String>, advice: impl Into<String>) -> Bad {
    Bad(Verdict::Warn, what.into(), advice.into())
}

/// The looks at a move from `from` to `to`. `detection`: how long it takes until a lost primary is known to be lost.
pub fn checks(
    from: &Server,
    to: &Server,
    (servers, relays): (&[Server], &[Relay]),
    detection: Duration,
) -> Vec<Check> {
    let mut looks = Looks::default();
    for server in servers {
        look_at(&mut looks, server);
        look_at_sources(&mut looks, server, servers);
    }
    let takes = unfit(to, from, (servers, relays)).or_else(|| stands(to));
    looks.add(
        "candidate",
        Some(to.id),
        match takes {
            None => Ok("it can take the role".to_owned()),
            Some(why) => Err(fail(why, "choose another backend, or put this right first")),
        },
    );
    if let (Some(primary), Some(candidate)) = (from.standing(), to.standing())
        && primary.group.is_none()
    {
        looks.add("lag", Some(to.id), lag(candidate));
        if candidate.flavor == Flavor::MariaDb {
            looks.add("history", Some(to.id), history(candidate, primary));
        }
        looks.add("replicas", Some(from.id), replicas(from, to, (servers, relays)));
        let semi_sync = semi_sync(from, primary, (servers, relays.len()), detection);
        looks.add("semi-sync", Some(from.id), semi_sync);
        for relay in relays {
            looks.add("relay", Some(from.id), relay_of(relay, from));
        }
        events(&mut looks, from, primary);
    }
    if let Some(Err(why)) = from.standing().map(|primary| &primary.events) {
        let what = format!("it does not tell which events run there: {why}");
        let advice = "SELECT STATUS FROM information_schema.EVENTS has to work there for the account of [cluster.failover]";
        looks.add("events", Some(from.id), Err(fail(what, advice)));
    }
    looks.0
}

/// The looks that need no move in mind: at each server, and at how commits wait on the one that takes writes. `relays`: so many acknowledge;
/// they are not asked.
pub fn checks_before(servers: &[Server], relays: usize, detection: Duration) -> Vec<Check> {
    let mut looks = Looks::default();
    for server in servers {
        look_at(&mut looks, server);
    }
    if servers.iter().filter_map(Server::standing).any(|own| own.group.is_some()) {
        return looks.0;
    }
    let answered = servers.iter().filter_map(|server| Some((server, server.standing()?)));
    let mut open = answered.filter(|(_, own)| own.guard == Guard::Open);
    match (open.next(), open.next()) {
        (Some((primary, own)), None) => {
            let semi_sync = semi_sync(primary, own, (servers, relays), detection);
            looks.add("semi-sync", Some(primary.id), semi_sync);
        }
        (Some(_), Some(_)) => {
            let what = "more than one server takes writes";
            looks.add("primary", None, Err(fail(what, "set read_only on all but one")));
        }
        (None, _) => {
            let what = "no server that answers takes writes";
            looks.add("primary", None, Err(fail(what, "look again when there is a primary")));
        }
    }
    looks.0
}

fn look_at(looks: &mut Looks, server: &Server) {
    let Ok(standing) = &server.seen else {
        let why = server.seen.as_ref().err().map(ToString::to_string).unwrap_or_default();
        looks.add(
            "connection",
            Some(server.id),
            Err(fail(why, "see that [cluster.failover] user can log in there")),
        );
        return;
    };
    looks.add(
        "rights",
        Some(server.id),
        match &*standing.missing_rights {
            [] => Ok("the account has all rights that are needed".to_owned()),
            missing => {
                let rights = missing.join(", ");
                Err(fail(
                    format!("missing: {rights}"),
                    format!("GRANT {rights} ON *.* TO the account of [cluster.failover]"),
                ))
            }
        },
    );
    if standing.lacks_system_user {
        let what = "SYSTEM_USER is missing: sessions of accounts that have it, such as root, stay. If one has an open transaction, or has \
             defined an event, the move is undone";
        let advice = "GRANT SYSTEM_USER ON *.* TO the account of [cluster.failover]";
        looks.add("administrators", Some(server.id), Err(warn(what, advice)));
    }
    if standing.group.is_none() {
        looks.add("starts read-only", Some(server.id), starts_read_only(standing.starts_read_only));
    }
}

fn starts_read_only(known: StartsReadOnly) -> Result<String, Bad> {
    match known {
        StartsReadOnly::Yes => Ok("after a restart it takes no writes".to_owned()),
        StartsReadOnly::No => Err(warn(
            "after a restart it takes writes, also when another one is the primary by then",
            "write read_only = ON into its option file (MySQL: super_read_only = ON, too)",
        )),
        StartsReadOnly::Unknown => Err(warn(
            "it is not known whether it takes writes after a restart: read_only was set since its start, which hides its option file",
            "see that read_only = ON is in its option file (MySQL: super_read_only = ON, too)",
        )),
    }
}

/// What a move leaves alone, or does not find again.
fn look_at_sources(looks: &mut Looks, server: &Server, servers: &[Server]) {
    let Some(own) = server.standing() else { return };
    if !server.follows_plainly() {
        let what = "it follows several sources, or by a channel with a name: a move leaves it as it is";
        looks.add(
            "channels",
            Some(server.id),
            Err(warn(what, "set up its replication yourself after a move")),
        );
    }
    let is_known =
        |source: &&Source| servers.iter().any(|one| *one.host == *source.host && one.port == source.port);
    for source in own.sources.iter().filter(|source| !is_known(source)) {
        let what = format!("it follows {}:{}, which is the address of no backend", source.host, source.port);
        let advice = "use the same address in the configuration and on the replicas: the proxy recognises the \
         primary by it";
        looks.add("source", Some(server.id), Err(warn(what, advice)));
    }
}

fn lag(candidate: &Standing) -> Result<String, Bad> {
    let behind = candidate.sources.iter().filter_map(|source| source.lag).max().unwrap_or_default();
    if behind <= Duration::from_secs(1) {
        return Ok(format!("{} s behind", behind.as_secs()));
    }
    Err(warn(
        format!("{} s behind", behind.as_secs()),
        "writes wait until it has everything; choose a time with less to do, or another backend",
    ))
}

/// A copy takes along no binary log.
fn history(candidate: &Standing, primary: &Standing) -> Result<String, Bad> {
    let Some(whole) = whole_history(candidate, primary) else {
        return Ok("its binary log names all servers that the primary's names".to_owned());
    };
    Err(warn(
        "its binary log does not name servers whose transactions it has, as it was made from a copy: after a move to it, other servers \
         would be refused for transactions of their own",
        format!("there: STOP SLAVE; RESET MASTER; SET GLOBAL gtid_binlog_state = '{whole}'; START SLAVE"),
    ))
}

fn replicas(from: &Server, to: &Server, (servers, relays): (&[Server], &[Relay])) -> Result<String, Bad> {
    let others = || servers.iter().filter(|server| server.id != from.id && server.id != to.id);
    let missing: Vec<_> = others()
        .filter(|server| !server.is_attached_to(from) && server.relay(relays).is_none())
        .map(|one| &*one.name)
        .collect();
    if !missing.is_empty() {
        let what = format!("{}: they do not follow the primary, or not at the moment", missing.join(", "));
        return Err(warn(what, "a move tells them to follow the new primary; check their replication"));
    }
    Ok(format!("{} servers beside the candidate follow the primary", others().count()))
}

fn semi_sync(
    from: &Server,
    primary: &Standing,
    (servers, relays): (&[Server], usize),
    detection: Duration,
) -> Result<String, Bad> {
    let Some(source) = primary.semi_sync.source else {
        return Err(warn(
            "off: if the primary is lost, so is everything that no replica has received",
            "enable semi-sync (AFTER_SYNC) where no acknowledged write may be lost",
        ));
    };
    if !source.is_lossless {
        return Err(warn(
            "the wait point is not AFTER_SYNC: other sessions can read what a failover then loses",
            "set it to AFTER_SYNC",
        ));
    }
    if source.timeout <= detection {
        let what = format!(
            "it falls back after {} s, before a lost primary is replaced",
            source.timeout.as_secs_f32()
        );
        return Err(warn(what, format!("set its time-out above {} s", detection.as_secs_f32())));
    }
    if primary.semi_sync.gives_up_alone {
        return Err(warn(
            "it falls back at once when its replicas lose it, and then nothing can be proved",
            "set rpl_semi_sync_source_wait_no_replica = ON (MariaDB: rpl_semi_sync_master_wait_no_slave)",
        ));
    }
    if !primary.semi_sync.is_on {
        return Err(warn(
            "the primary has fallen back to asynchronous replication",
            "see that replicas acknowledge",
        ));
    }
    // After the switch the old primary acknowledges in the place of the new one.
    let ackers = servers
        .iter()
        .filter(|server| {
            server.id != from.id && server.standing().is_some_and(|one| one.semi_sync.acknowledges)
        })
        .count();
    if relays > 0 {
        return relayed(source, ackers, relays);
    }
    if ackers < source.count as usize {
        let what = format!("{ackers} replicas acknowledge, and {} are wanted", source.count);
        return Err(fail(what, "enable it on more replicas, or wait for fewer"));
    }
    Ok(format!("waits for {} of {ackers} replicas, AFTER_SYNC", source.count))
}

/// Where relays acknowledge: they alone do, and are waited for without end.
fn relayed(source: AsSource, replicas: usize, relays: usize) -> Result<String, Bad> {
    if source.timeout < ENDLESS {
        let what = format!("it falls back after {} s without a relay", source.timeout.as_secs_f32());
        return Err(warn(
            what,
            "set its time-out without end: rpl_semi_sync_source_timeout = 4294967295 (MariaDB: 18446744073709551615)",
        ));
    }
    if replicas > 0 {
        return Err(warn(
            format!(
                "{replicas} servers acknowledge, too: cutting the relays alone does not fence the primary"
            ),
            "set rpl_semi_sync_replica_enabled = OFF on all servers (MariaDB: rpl_semi_sync_slave_enabled)",
        ));
    }
    Ok(format!("waits for {} of {relays} relays without end, AFTER_SYNC", source.count))
}

fn relay_of(relay: &Relay, primary: &Server) -> Result<String, Bad> {
    let name = &relay.name;
    let own = match &relay.seen {
        Ok(own) => own,
        Err(why) => {
            let what = format!("{name} cannot be asked: {why}");
            let advice = "see that its process runs; of one elsewhere [[cluster.failover.remote_relay]] says where and as whom it is asked";
            return Err(fail(what, advice));
        }
    };
    if own.is_cut {
        let what = format!("{name} is cut off, and acknowledges to no source");
        return Err(fail(what, format!("RELAY START {name} ADMIT the primary's uuid, if it is the primary")));
    }
    if !relay.goes_for(primary) || !own.is_acknowledging {
        let what = format!("{name} does not acknowledge to {}", primary.name);
        return Err(fail(what, "see SHOW RELAY STATUS there"));
    }
    Ok(format!("{name} acknowledges to {}", primary.name))
}

fn events(looks: &mut Looks, from: &Server, primary: &Standing) {
    if let Ok(events) = &primary.events {
        let text = match events.enabled.len() {
            0 => "none runs".to_owned(),
            count => format!("{count} are disabled here and enabled on the new primary"),
        };
        looks.add("events", Some(from.id), Ok(text));
    }
    if primary.guard == Guard::Closed {
        looks.add("primary", Some(from.id), Err(fail("it takes no writes", "see SHOW BACKENDS")));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use delphinus_wire::gtid::{GtidSet, GtidState};

    use super::*;
    use crate::promotion::candidate::tests::server;

    fn found(servers: &[Server], name: &str) -> Vec<(Verdict, String)> {
        let all = checks(&servers[0], &servers[1], (servers, &[]), Duration::from_secs(4));
        let all = all.into_iter().filter(|check| check.name == name && check.verdict != Verdict::Ok);
        all.map(|check| (check.verdict, check.result)).collect()
    }

    #[test]
    fn what_a_move_cannot_rely_on_is_said_before_it() {
        let mut servers: Vec<_> = (0..3).map(|id| server(id, 5, 5)).collect();
        let looks = ["channels", "source", "candidate"];
        assert!(looks.iter().all(|name| found(&servers, name).is_empty()));
        let change = |server: &mut Server, channel: &str, host: &str| {
            let source = &mut server.seen.as_mut().unwrap().sources[0];
            (source.channel, source.host) = (channel.into(), host.into());
        };
        change(&mut servers[2], "", "10.0.0.1");
        let (verdict, text) = found(&servers, "source").remove(0);
        assert!(verdict == Verdict::Warn && text.contains("10.0.0.1:3306"), "{text}");
        change(&mut servers[1], "one", "db0");
        assert_eq!(found(&servers, "channels").len(), 1);
        assert_eq!(found(&servers, "candidate")[0].0, Verdict::Fail);
    }

    #[test]
    fn a_primary_that_does_not_tell_its_events_keeps_its_role() {
        let mut servers: Vec<_> = (0..2).map(|id| server(id, 5, 5)).collect();
        assert!(found(&servers, "events").is_empty());
        servers[1].seen.as_mut().unwrap().events = Err("error 3024".into());
        assert!(found(&servers, "events").is_empty());
        servers[0].seen.as_mut().unwrap().events = Err("error 3024".into());
        let (verdict, text) = found(&servers, "events").remove(0);
        assert!(verdict == Verdict::Fail && text.contains("error 3024"), "{text}");
    }

    #[test]
    fn a_copy_that_does_not_know_earlier_primaries_is_named() {
        let mut servers: Vec<_> = (0..2).map(|id| server(id, 5, 5)).collect();
        for (server, written) in servers.iter_mut().zip(["0-1-5,0-9-4", "0-1-5"]) {
            let own = server.seen.as_mut().unwrap();
            own.flavor = Flavor::MariaDb;
            own.executed = Arc::new(GtidSet::parse("0-1-5").unwrap());
            own.written = Some(Arc::new(GtidState::parse(written).unwrap()));
        }
        let (verdict, text) = found(&servers, "history").remove(0);
        assert!(verdict == Verdict::Warn && text.contains("made from a copy"), "{text}");
        servers[1].seen.as_mut().unwrap().written = servers[0].standing().unwrap().written.clone();
        assert!(found(&servers, "history").is_empty());
    }

    #[test]
    fn a_server_whose_option_file_is_hidden_is_no_one_that_starts_read_only() {
        let mut servers: Vec<_> = (0..2).map(|id| server(id, 5, 5)).collect();
        let mut says = |known| {
            servers[1].seen.as_mut().unwrap().starts_read_only = known;
            found(&servers, "starts read-only").pop()
        };
        assert_eq!(says(StartsReadOnly::Yes), None);
        let (verdict, text) = says(StartsReadOnly::Unknown).unwrap();
        assert!(verdict == Verdict::Warn && text.contains("not known"), "{text}");
        assert!(says(StartsReadOnly::No).unwrap().1.contains("after a restart it takes writes"));
    }

    #[test]
    fn before_a_move_the_primary_is_the_one_that_takes_writes() {
        let bad = |servers: &[Server]| -> Vec<(&'static str, String)> {
            let all = checks_before(servers, 0, Duration::from_secs(4)).into_iter();
            all.filter(|one| one.verdict != Verdict::Ok).map(|one| (one.name, one.result)).collect()
        };
        let mut servers: Vec<_> = (0..2).map(|id| server(id, 5, 5)).collect();
        assert!(bad(&servers)[0].1.starts_with("off"));
        for (seconds, expected) in [(4, 1), (5, 0)] {
            let timeout = Duration::from_secs(seconds);
            let own = &mut servers[0].seen.as_mut().unwrap().semi_sync;
            (own.source, own.is_on) = (Some(AsSource { count: 1, timeout, is_lossless: true }), true);
            servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
            let found = bad(&servers);
            assert_eq!(found.len(), expected, "{found:?}");
            assert!(found.iter().all(|(name, text)| *name == "semi-sync" && text.contains("after 4 s")));
        }
        servers[1].seen.as_mut().unwrap().guard = Guard::Open;
        assert!(bad(&servers)[0].1.contains("more than one"));
        servers[1].seen.as_mut().unwrap().guard = Guard::Closed;
        servers[0].seen = Err("gone".into());
        let names: Vec<_> = bad(&servers).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["connection", "primary"]);
    }

    #[test]
    fn a_primary_that_gives_up_alone_is_no_proof() {
        let mut servers: Vec<_> = (0..2).map(|id| server(id, 5, 5)).collect();
        let of_primary = &mut servers[0].seen.as_mut().unwrap().semi_sync;
        let source = AsSource { count: 1, timeout: Duration::from_mins(1), is_lossless: true };
        (of_primary.source, of_primary.clients, of_primary.is_on) = (Some(source), 1, true);
        servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
        let calm = |servers: &[Server]| {
            let mut proof = super::super::Proof::default();
            proof.watch(&servers[0], (servers, &[]), std::time::Instant::now());
            proof.calm.is_some()
        };
        assert!(found(&servers, "semi-sync").is_empty() && calm(&servers));
        servers[0].seen.as_mut().unwrap().semi_sync.gives_up_alone = true;
        assert_eq!(found(&servers, "semi-sync").len(), 1);
        assert!(!calm(&servers), "it has fallen back the moment its replicas have gone");
    }
}
