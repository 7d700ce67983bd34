//! What would go wrong with a switchover, before anything is done: a table for operators.

use std::time::Duration;

use super::candidate::{stands, unfit};
use super::standing::{Guard, Server, Standing};
use crate::backend::BackendId;

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
pub fn checks(from: &Server, to: &Server, servers: &[Server], detection: Duration) -> Vec<Check> {
    let mut looks = Looks::default();
    for server in servers {
        look_at(&mut looks, server);
    }
    let takes = unfit(to, from, servers).or_else(|| stands(to));
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
        looks.add("replicas", Some(from.id), replicas(from, to, servers));
        looks.add("semi-sync", Some(from.id), semi_sync(from, primary, servers, detection));
        events(&mut looks, from, primary);
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
    if standing.group.is_none() {
        looks.add(
            "starts read-only",
            Some(server.id),
            if standing.starts_read_only {
                Ok("after a restart it takes no writes".to_owned())
            } else {
                Err(warn(
                    "after a restart it takes writes, also when another one is the primary by then",
                    "write read_only = ON into its option file (MySQL: super_read_only = ON, too)",
                ))
            },
        );
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

fn replicas(from: &Server, to: &Server, servers: &[Server]) -> Result<String, Bad> {
    let others = || servers.iter().filter(|server| server.id != from.id && server.id != to.id);
    let missing: Vec<_> =
        others().filter(|server| !server.is_attached_to(from)).map(|one| &*one.name).collect();
    if !missing.is_empty() {
        let what = format!("{} follow the primary not, or not at the moment", missing.join(", "));
        return Err(warn(what, "they are told to follow the new primary; look at their replication"));
    }
    Ok(format!("{} beside the candidate follow the primary", others().count()))
}

fn semi_sync(
    from: &Server,
    primary: &Standing,
    servers: &[Server],
    detection: Duration,
) -> Result<String, Bad> {
    let Some(source) = primary.semi_sync.source else {
        return Err(warn(
            "off: a primary that dies takes with it what no replica has got",
            "enable semi-sync (AFTER_SYNC) where no acknowledged write may be lost",
        ));
    };
    if !source.is_lossless {
        return Err(warn(
            "the wait point is not AFTER_SYNC: others may read what is lost",
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
    if ackers < source.count as usize {
        let what = format!("{ackers} replicas acknowledge, and {} are wanted", source.count);
        return Err(fail(what, "enable it on more replicas, or wait for fewer"));
    }
    Ok(format!("waits for {} of {ackers} replicas, AFTER_SYNC", source.count))
}

fn events(looks: &mut Looks, from: &Server, primary: &Standing) {
    let count = primary.events.enabled.len();
    looks.add(
        "events",
        Some(from.id),
        Ok(match count {
            0 => "none runs".to_owned(),
            count => format!("{count} are disabled here and enabled on the new primary"),
        }),
    );
    if primary.guard == Guard::Closed {
        looks.add("primary", Some(from.id), Err(fail("it takes no writes", "see SHOW BACKENDS")));
    }
}
