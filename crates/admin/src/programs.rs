//! Programs that ask by another way than MySQL's protocol: their login, answers with types, and whether the proxy is ready. What they
//! ask is an operator's command like any other: rights, audit, turns and bounds are the same. Must not know how they ask.

use delphinus_clients::{LoginAttempt, Visitor};
use delphinus_memory::{Owner, Permit};
use delphinus_net::{LoginEnd, rt};
use delphinus_tables::{Cell, Kind, Table};
use delphinus_wire::auth::Password;
use delphinus_wire::error_code;
use delphinus_wire::handshake::server::Refusal;

use crate::answer::{Answer, Refused};
use crate::command::{self, Caller};
use crate::connection::{MAX_COMMAND, statements};
use crate::console::Console;
use crate::source::{Source, catalog};
use crate::users::AdminRole;

/// What a program logs in with.
#[derive(Debug, Clone)]
pub enum Login {
    /// A token.
    Token(Password),
    /// An operator's password.
    Operator {
        /// The operator's name.
        name: String,
        /// The password.
        password: Password,
    },
}

/// A program that has logged in.
#[derive(Debug, Clone)]
pub struct Program(Caller);

/// An answer.
#[derive(Debug)]
pub enum Told {
    /// It is done.
    Done,
    /// Rows.
    Rows {
        /// The columns with their types.
        columns: Vec<(String, Kind)>,
        /// The rows.
        rows: Vec<Vec<Cell>>,
        /// Leave to keep them.
        permit: Permit,
    },
}

/// A table that can be read.
#[derive(Debug, Clone, Copy)]
pub struct TableInfo {
    /// What it is.
    pub table: &'static Table,
    /// Who may read it; of a view: what it is over decides.
    pub role: Option<AdminRole>,
}

/// Whether statements of clients can be served; in a process that has only relays, whether replicas can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Why they cannot; empty: they can.
    pub reasons: Vec<String>,
    /// Each cluster by itself.
    pub clusters: Vec<ClusterReadiness>,
    /// Each relay by itself.
    pub relays: Vec<RelayReadiness>,
}

/// Whether a relay has something for replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayReadiness {
    /// Its name.
    pub name: String,
    /// What it does: receiving, retrying, ..
    pub state: &'static str,
    /// It has a log, which replicas are sent. Before that they have to come again.
    pub has_log: bool,
}

/// Whether statements of a cluster's clients can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterReadiness {
    /// Its name.
    pub name: String,
    /// Why they cannot; `None`: they can.
    pub reason: Option<&'static str>,
    /// Writes, too.
    pub is_writable: bool,
}

/// All tables and views, in the order of the reference.
pub fn tables() -> Vec<TableInfo> {
    let role = |table: &'static Table| Source::of(table).map(|source| source.role);
    catalog().iter().map(|table| TableInfo { table, role: role(table) }).collect()
}

impl Console {
    /// Lets a program in. Failed logins are delayed as on the admin listener, for at most half of `limit`.
    pub async fn admit(
        &self,
        login: Login,
        (visitor, host): (Visitor, &str),
        limit: std::time::Duration,
    ) -> Result<Program, Refused> {
        let attempt = LoginAttempt::new(&self.failed_logins, &(), (visitor, host), limit);
        let (known, refusal) = match login {
            Login::Token(token) => {
                let known = self.by_token(&token);
                if known.is_none() {
                    // The right token never waits: nobody guesses one.
                    wait(&attempt, "").await?;
                }
                let refusal = Refusal::access_denied("", host, true, "unknown token");
                let message = "Access denied; the token is not known".to_owned();
                (known, Refusal { message, ..refusal })
            }
            Login::Operator { name, password } => {
                wait(&attempt, &name).await?;
                let known = self.by_password(&name, password).await;
                if known.is_some() {
                    attempt.succeeded();
                }
                (known, Refusal::access_denied(&name, host, true, "wrong password"))
            }
        };
        let Some((user, role)) = known else {
            return Err(deny(&attempt, refusal, host).await);
        };
        let id = self.parts.registry.next_id().0;
        Ok(Program(Caller { id, user, host: host.to_owned(), role }))
    }

    fn by_token(&self, token: &Password) -> Option<(String, AdminRole)> {
        let users = self.users.borrow();
        users.token(token).map(|known| (format!("token:{}", known.name), known.role))
    }

    async fn by_password(&self, name: &str, password: Password) -> Option<(String, AdminRole)> {
        let credential = self.users.borrow().record(name).credential;
        let is_right = if credential.is_slow() {
            rt::compute(move || credential.verify_clear(password).is_some()).await?
        } else {
            credential.verify_clear(password).is_some()
        };
        // Of a name that nobody has, the password is never right.
        let role = self.users.borrow().role(name)?;
        is_right.then(|| (name.to_owned(), role))
    }

    /// Runs one statement.
    pub async fn answer(
        &self,
        Program(caller): &Program,
        text: &str,
        parameters: &[Cell],
    ) -> Result<Told, Refused> {
        if text.len() > MAX_COMMAND {
            let text = format!("Delphinus: the statement is longer than {} KiB", MAX_COMMAND >> 10);
            return Err(Refused { code: error_code::ER_NET_PACKET_TOO_LARGE, state: *b"08S01", text });
        }
        if statements(text).len() > 1 {
            return Err(Refused::syntax("there is more than one statement; send one at a time"));
        }
        let (columns, rows) = match command::run(self, caller, text, parameters).await? {
            Answer::Done => return Ok(Told::Done),
            Answer::Rows(table) => table.into_parts(),
        };
        let bytes = rows.iter().flatten().map(Cell::bytes).sum();
        let no_room = || Refused {
            code: error_code::ER_OUT_OF_SORTMEMORY,
            state: *b"HY001",
            text: "Delphinus: memory_limit leaves no room for the answer; ask for less, or later".to_owned(),
        };
        let permit = self.parts.memory.take(Owner::Buffers, bytes).ok_or_else(no_room)?;
        Ok(Told::Rows { columns, rows, permit })
    }

    /// Whether clients, or replicas, can be served. Says nothing that a login would be needed for.
    pub fn readiness(&self) -> Readiness {
        let clusters: Vec<_> = self.clusters().map(|(_, cluster)| of_cluster(cluster)).collect();
        let mut reasons = Vec::new();
        if self.parts.registry.is_offline() {
            reasons.push("the proxy is set OFFLINE: SET PROXY ONLINE brings it back".to_owned());
        } else if self.parts.proxy.is_ending() {
            reasons.push("the proxy stops: no new clients are let in".to_owned());
        }
        if clusters.iter().all(|cluster| cluster.reason.is_some()) {
            let told =
                clusters.iter().filter_map(|one| Some(format!("cluster {}: {}", one.name, one.reason?)));
            reasons.extend(told);
        }
        let relays = self.parts.proxy.relay_readiness();
        if clusters.is_empty() && !relays.is_empty() && relays.iter().all(|relay| !relay.has_log) {
            let told = relays.iter().map(|one| {
                format!("relay {}: it has no log of its source yet, and is {}", one.name, one.state)
            });
            reasons.extend(told);
        }
        Readiness { reasons, clusters, relays }
    }

    /// What answers on their way take room of.
    pub fn memory(&self) -> &delphinus_memory::Account {
        &self.parts.memory
    }
}

fn of_cluster(cluster: &crate::ClusterView) -> ClusterReadiness {
    let snapshot = cluster.reader.load();
    let is_writable = snapshot.writer().is_ok();
    let is_usable = is_writable || snapshot.readable_replicas().next().is_some();
    let reason = match () {
        () if snapshot.facts.is_some() && is_usable => None,
        () if !snapshot.settled => Some("its backends have not been probed yet"),
        () if snapshot.facts.is_none() => Some("no backend has answered yet"),
        () => Some("no backend can be used: SHOW BACKENDS says why"),
    };
    ClusterReadiness { name: cluster.name.to_string(), reason, is_writable }
}

/// Where logins have failed, the next one waits before its secret is looked at.
async fn wait(attempt: &LoginAttempt<'_>, user: &str) -> Result<(), Refused> {
    match attempt.pause(user) {
        Some(pause) => pause.await.map_err(refused),
        None => Ok(()),
    }
}

/// The login has failed; comes back when the program may be told.
async fn deny(attempt: &LoginAttempt<'_>, refusal: Refusal, host: &str) -> Refused {
    tracing::warn!(client.host = %host, code = refusal.code, reason = refusal.reason, "program's login refused");
    let told = refused(refusal.clone());
    attempt.failed(&LoginEnd::Refused(refusal)).await;
    told
}

fn refused(refusal: Refusal) -> Refused {
    Refused { code: refusal.code, state: refusal.state, text: refusal.message }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command::tests::console;

    fn local() -> (Visitor, &'static str) {
        (Visitor::of(Some([127, 0, 0, 1].into()), None), "127.0.0.1")
    }

    fn operator(password: &str) -> Login {
        Login::Operator { name: "ops".to_owned(), password: Password::new(password) }
    }

    #[test]
    fn tokens_and_passwords_let_in_with_their_roles() {
        rt::block_on(async {
            let console = console();
            let admit = |login| console.admit(login, local(), Duration::from_secs(10));
            let token = admit(Login::Token(Password::new("0123456789abcdef"))).await.unwrap();
            assert_eq!((token.0.user.as_str(), token.0.role), ("token:metrics", AdminRole::Viewer));
            let ops = admit(operator("s3cret")).await.unwrap();
            assert_eq!((ops.0.user.as_str(), ops.0.role), ("ops", AdminRole::Admin));
            let wrong = Login::Token(Password::new("0123456789abcdeX"));
            assert_eq!(admit(wrong).await.unwrap_err().code, error_code::ER_ACCESS_DENIED_ERROR);
            assert_eq!(admit(operator("wrong")).await.unwrap_err().code, error_code::ER_ACCESS_DENIED_ERROR);
            let nobody = Login::Operator { name: "x".to_owned(), password: Password::new(".") };
            assert_eq!(admit(nobody).await.unwrap_err().code, error_code::ER_ACCESS_DENIED_ERROR);
            let refused = console.answer(&token, "KILL 1", &[]).await.unwrap_err();
            assert_eq!(refused.code, error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR);
        })
        .unwrap();
    }

    #[test]
    fn failed_logins_are_delayed_and_the_right_token_is_not() {
        rt::block_on(async {
            let console = console();
            let admit = |login| console.admit(login, local(), Duration::from_secs(10));
            let begun = rt::now();
            for _ in 0..5 {
                admit(Login::Token(Password::new("nonsense"))).await.unwrap_err();
            }
            assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
            let begun = rt::now();
            admit(Login::Token(Password::new("0123456789abcdef"))).await.unwrap();
            assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
        })
        .unwrap();
    }

    #[test]
    fn answers_have_types_and_room() {
        rt::block_on(async {
            let console = console();
            let token = Login::Token(Password::new("0123456789abcdef"));
            let program = console.admit(token, local(), Duration::from_secs(10)).await.unwrap();
            let text = "SELECT ? AS a, 2.5 AS b, NULL AS c";
            let told = console.answer(&program, text, &[Cell::Integer(7)]).await.unwrap();
            let Told::Rows { columns, rows, permit } = told else { panic!("no rows") };
            let kinds: Vec<_> = columns.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
            assert_eq!(kinds, [("a", Kind::Integer), ("b", Kind::Real), ("c", Kind::Text)]);
            assert_eq!(rows, [[Cell::Integer(7), Cell::Real(2.5), Cell::Null]]);
            assert!(permit.bytes() > 0);
            let two = console.answer(&program, "SHOW BACKENDS; SHOW POOLS", &[]).await.unwrap_err();
            assert_eq!(two.code, error_code::ER_PARSE_ERROR);
            let long = format!("SELECT '{}'", "x".repeat(MAX_COMMAND));
            let long = console.answer(&program, &long, &[]).await.unwrap_err();
            assert_eq!(long.code, error_code::ER_NET_PACKET_TOO_LARGE);
        })
        .unwrap();
    }

    #[test]
    fn without_backends_the_proxy_is_not_ready_and_says_why() {
        rt::block_on(async {
            let console = console();
            let told = console.readiness();
            assert!(told.reasons[0].starts_with("cluster main: "), "{told:?}");
            console.parts.registry.set_offline(true);
            assert!(console.readiness().reasons[0].contains("OFFLINE"));
        })
        .unwrap();
    }
}
