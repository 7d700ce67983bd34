//! What operators are told of a move while it goes on, and in the end.

use std::time::{Duration, Instant};

use delphinus_topology::promotion::{Move, Plan, Server, Waiting};
use tracing::{error, warn};

use super::super::rejoin;
use super::super::story::{Line, Told};
use super::{Driver, PACE};

/// What is known of a move when it ends.
pub(super) struct Known<'a> {
    /// As they were seen last.
    pub servers: &'a [Server],
    /// Whose rights the proxy has on them.
    pub user: &'a str,
    /// Which move of this process it is.
    pub number: u64,
}

impl Driver {
    pub(super) fn tell_wait(&self, what: Waiting, (since, began): (Instant, Instant)) {
        let took = since.elapsed();
        if took < PACE {
            return;
        }
        let line = Line {
            after: since.saturating_duration_since(began),
            took,
            backend: String::new(),
            step: "wait".to_owned(),
            result: format!("for {}", what.what()),
        };
        self.story.borrow_mut().tell(line);
    }

    pub(super) fn tell_what_was_left_out(
        &self,
        plan: &Plan,
        servers: &[Server],
        (known, began): (&mut usize, Instant),
    ) {
        if plan.left_out.len() < *known {
            *known = 0;
        }
        for (id, why) in plan.left_out.iter().skip(*known) {
            let name = servers.iter().find(|one| one.id == *id).map(|one| one.name.to_string());
            let line = Line {
                after: began.elapsed(),
                took: Duration::ZERO,
                backend: name.unwrap_or_default(),
                step: "not waited for".to_owned(),
                result: why.to_string(),
            };
            warn!(backend = line.backend, why = line.result, "a server is left as it is");
            self.story.borrow_mut().tell(line);
        }
        *known = plan.left_out.len();
    }

    /// Writes the end of the time line.
    pub(super) fn end(
        &self,
        plan: &Plan,
        ended: &Result<(), String>,
        Known { servers, user, number }: Known<'_>,
    ) -> Result<Told, String> {
        let mut story = self.story.borrow_mut();
        let gone = || "there is no such move".to_owned();
        let (state, reason) = match (ended, &plan.undoing) {
            (Ok(()), None) if plan.kind == Move::Rejoin && !plan.left_out.is_empty() => {
                // Not what the time line has of it: that is cut.
                let refused = plan.left_out.last();
                let find = |wanted| servers.iter().find(|server| Some(server.id) == wanted);
                let why = refused.map_or("", |(_, why)| why);
                let server = find(refused.map(|(id, _)| *id));
                ("refused", Some(rejoin::advice(server, find(plan.to), (why, user))))
            }
            (Ok(()), None) => ("done", None),
            (Ok(()), Some(why)) => ("undone", Some(why.to_string())),
            (Err(why), _) => ("failed", Some(why.clone())),
        };
        let told = story.end(state, reason).ok_or_else(gone)?;
        let to = told.to.clone().unwrap_or_default();
        match &told.reason {
            None => warn!(number, kind = told.kind, to, "the move is done"),
            Some(why) => {
                error!(number, kind = told.kind, to, state = told.state, why, "the move is not done");
            }
        }
        match told.state {
            "done" => Ok(told.clone()),
            "refused" => Err(told.reason.clone().unwrap_or_default()),
            "undone" => {
                let why = told.reason.clone().unwrap_or_default();
                Err(format!(
                    "it was undone: {why}; {} is the primary as before. SHOW SWITCHOVERS has the time line",
                    told.from
                ))
            }
            _ => Err(format!(
                "it has failed: {}. SHOW SWITCHOVERS has the time line",
                told.reason.clone().unwrap_or_default()
            )),
        }
    }
}

/// What operators have to know when nothing more can be done.
pub(super) fn state_of(servers: &[Server]) -> String {
    let one = |server: &Server| match &server.seen {
        Err(why) => format!("{} does not answer ({why})", server.name),
        Ok(standing) => {
            let guard = if server.is_open() { "takes writes" } else { "is read-only" };
            let follows = standing.sources.first().map_or_else(
                || ", follows no server".to_owned(),
                |source| format!(", follows {}:{}", source.host, source.port),
            );
            format!("{} {guard}{follows}", server.name)
        }
    };
    servers.iter().map(one).collect::<Vec<_>>().join("; ")
}
