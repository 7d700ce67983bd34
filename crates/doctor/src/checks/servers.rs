//! What each server has to have: that it answers, lets users in, reports what changes, and has a clock that is right.

use delphinus_wire::error_code;

use crate::{Answer, Facts, Finding, Server, Severity};

/// A clock that is off by more than this is.
const SKEW_MS: u64 = 1000;

/// By which sessions are followed from statement to statement.
const TRACKERS: [&str; 3] =
    ["session_track_schema", "session_track_system_variables", "session_track_state_change"];

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for server in &facts.servers {
        match &server.answer {
            Err(error) => found.push(unreachable(facts, server, error)),
            Ok(answer) => {
                found.extend(tracking(facts, server, answer));
                found.extend(clock(facts, server, answer));
                found.extend(init_connect(facts, server, answer));
            }
        }
        found.extend(refused(facts, server));
    }
    found
}

fn unreachable(facts: &Facts<'_>, server: &Server, error: &str) -> Finding {
    let user = &facts.cluster(server).monitor.user;
    let number = error.strip_prefix("error ").and_then(|rest| rest.split(':').next()?.parse::<u16>().ok());
    let is_full = number.is_some_and(error_code::is_full);
    let is_login = number.is_some_and(error_code::is_login_denied);
    Finding {
        severity: Severity::Serious,
        check: "backend_unreachable",
        object: facts.name(server),
        found: format!("the monitor's user {user} gets no answer: {error}"),
        why: if is_full || is_login {
            "the proxy knows that the server lives and nothing else of it; one that starts now lets no clients in where it is so on all"
        } else {
            "the proxy considers the server down, and sends it nothing"
        },
        fix: match () {
            () if is_full => format!(
                "SHOW PROCESSLIST on the server says who has its connections: end some, or raise max_connections and the limits of {user}"
            ),
            () if is_login => format!(
                "on the server: CREATE USER '{user}'@'%' IDENTIFIED BY '..', or correct [monitor] user and password"
            ),
            () => {
                "start the server, let the proxy's host through to it, or correct address of [[cluster.backend]]"
                    .to_owned()
            }
        },
    }
}

fn refused<'a>(facts: &'a Facts<'_>, server: &'a Server) -> impl Iterator<Item = Finding> + 'a {
    server.users.iter().filter_map(|login| {
        let why = login.refused.as_ref()?;
        let user = &login.user;
        let of_file = facts.config.users.iter().find(|one| one.name == *user);
        let is_home = of_file.is_none_or(|one| facts.config.home_of(one) == server.cluster);
        let belongs_elsewhere = of_file.is_some_and(|one| one.cluster.is_some_and(|own| own != server.cluster));
        let mend = format!(
            "on the server: ALTER USER '{user}'@'%' IDENTIFIED BY '..' (or CREATE USER), with the password of [[user]] \"{user}\""
        );
        Some(Finding {
            severity: match () {
                () if is_home => Severity::Serious,
                // The file says where the user belongs: that may be what is wanted.
                () if belongs_elsewhere => Severity::Note,
                () => Severity::Warning,
            },
            check: "user_refused",
            object: format!("user {user}, {}", facts.name(server)),
            found: format!("the server does not let {user} in: {why}"),
            why: if is_home {
                "the proxy logs in to servers as its clients: their statements fail where the server refuses that"
            } else {
                "clients of this user can get to this cluster by a listener or by naming a schema, and their statements fail there"
            },
            fix: match () {
                () if is_home => mend,
                () if belongs_elsewhere => format!("nothing, if no client of {user} connects to a listener of this cluster; else {mend}"),
                () => format!("{mend}; or cluster = \"..\" in [[user]] \"{user}\", which says where it belongs"),
            },
        })
    })
}

fn tracking(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let missing: Vec<_> = TRACKERS.iter().filter(|name| !answer.variables.contains_key(**name)).collect();
    let first = missing.first()?;
    Some(Finding {
        severity: Severity::Serious,
        check: "session_tracking",
        object: facts.name(server),
        found: format!(
            "the server has no {first}: it does not report what statements change of their session"
        ),
        why: "state of sessions would be lost when they share connections: the proxy cannot use such a server",
        fix: "MySQL from 5.7, MariaDB from 10.3 on: upgrade the server".to_owned(),
    })
}

/// By the server's own default the proxy reads what its clients send; what a session begins with otherwise it is not told.
fn init_connect(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let text = answer.variable(&["init_connect"])?.to_ascii_lowercase();
    text.contains("sql_mode").then(|| Finding {
        severity: Severity::Serious,
        check: "init_connect_sql_mode",
        object: facts.name(server),
        found: "init_connect sets the sql_mode of sessions".to_owned(),
        why: "the proxy reads statements by the server's own sql_mode: it may miss tables that they write, and send writes to replicas",
        fix: "set sql_mode itself, by SET GLOBAL and in the server's option file, and take it out of init_connect".to_owned(),
    })
}

fn clock(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let off_ms = answer.clock_ahead_ms.unsigned_abs();
    (off_ms > SKEW_MS + answer.clock_known_to_ms).then(|| Finding {
        severity: Severity::Warning,
        check: "clock_skew",
        object: facts.name(server),
        found: format!(
            "its clock is {}.{:03} s {} the proxy's",
            off_ms / 1000,
            off_ms % 1000,
            if answer.clock_ahead_ms > 0 { "ahead of" } else { "behind" }
        ),
        why: "lag by performance_schema is wrong by as much, and times in logs of both cannot be compared",
        fix: "run chrony or systemd-timesyncd on both machines".to_owned(),
    })
}
