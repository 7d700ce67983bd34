//! A few questions to a server out of turn, by whichever user: for who wants to know more of it than a probe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::{Announce, NetError, Place, rt};
use delphinus_wire::auth::Password;
use delphinus_wire::error_code;

use crate::probe::connection::Connection;
use crate::probe::error::ProbeError;
use crate::probe::query::{receive_done, receive_named, send};

/// More rows than any answer that is asked for has.
const MOST_ROWS: usize = 20_000;

/// A row, by the names of its columns in small letters. NULL is left out.
pub type NamedValues = BTreeMap<String, String>;

/// Why something was not done. It may have been done all the same where the server has not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// There is no such schema or table.
    #[error("there is no such table")]
    NoTable,
    /// The server takes no writes now, or has taken the change back.
    #[error("{0}")]
    NotNow(String),
    /// The server says no.
    #[error("{0}")]
    Refused(String),
    /// No answer, or none that makes sense.
    #[error("{0}")]
    NoAnswer(String),
}

impl From<ProbeError> for Trouble {
    fn from(error: ProbeError) -> Self {
        let text = error.to_string();
        let ProbeError::Answer(answer) = error else { return Self::NoAnswer(text) };
        match answer.code {
            error_code::ER_BAD_DB_ERROR | error_code::ER_NO_SUCH_TABLE => Self::NoTable,
            error_code::ER_LOCK_WAIT_TIMEOUT
            | error_code::ER_LOCK_DEADLOCK
            | error_code::ER_TRANSACTION_ROLLBACK_DURING_COMMIT => Self::NotNow(text),
            _ if answer.is_of_read_only_server() => Self::NotNow(text),
            _ => Self::Refused(text),
        }
    }
}

/// A connection for questions.
#[derive(Debug)]
pub struct Inquiry {
    connection: Connection,
    limit: Duration,
}

impl Inquiry {
    /// Logs in. Each step of that, and each question, may take `limit`.
    ///
    /// # Errors
    /// Why that is not possible, in words: `error 1045: ..` where the server says so.
    pub async fn open(
        place: &Arc<Place>,
        (user, password): (&str, Password),
        limit: Duration,
    ) -> Result<Self, String> {
        let opens = async {
            let (spot, reach) = (place.spot(), place.reach());
            let announce = reach.proxy_protocol.map(|version| Announce { version, client: None });
            let stream = delphinus_net::dial_at(&spot, announce, limit).await?;
            Connection::log_in_as(stream, (place, spot.host()), (user.to_owned(), password)).await
        };
        let connection = in_time(limit, opens).await?;
        Ok(Self { connection, limit })
    }

    /// The rows of the answer to a question, each by the names of its columns in small letters. NULL is left out.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub async fn ask(&mut self, sql: &str) -> Result<Vec<BTreeMap<String, String>>, String> {
        let asks = async {
            send(&mut self.connection, &[sql]).await?;
            receive_named(&mut self.connection, MOST_ROWS).await
        };
        let named = in_time(self.limit, asks).await?;
        Ok(named.rows().map(|row| row.cells().collect()).collect())
    }

    /// Runs statements in one piece and in their order, each for itself, within `limit` for all. Those that begin with SELECT have rows for
    /// an answer. After a mistake the connection is of no more use: answers may be under way.
    ///
    /// # Errors
    /// What the first that failed has come to; those behind it may have been done.
    pub async fn run(
        &mut self,
        statements: &[&str],
        limit: Duration,
    ) -> Result<Vec<Vec<NamedValues>>, Trouble> {
        let runs = async {
            send(&mut self.connection, statements).await?;
            let mut answers = Vec::new();
            for statement in statements {
                if statement.starts_with("SELECT") {
                    let named = receive_named(&mut self.connection, MOST_ROWS).await?;
                    answers.push(named.rows().map(|row| row.cells().collect()).collect());
                } else {
                    receive_done(&mut self.connection).await?;
                }
            }
            Ok(answers)
        };
        let late = || Err(NetError::TimedOut(limit.as_millis() as u64).into());
        rt::timeout(limit, runs).await.unwrap_or_else(late).map_err(|error: ProbeError| error.into())
    }

    /// Says goodbye.
    pub async fn close(self) {
        rt::timeout(self.limit, self.connection.quit()).await;
    }
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = Result<T, ProbeError>>) -> Result<T, String> {
    let late = || Err(NetError::TimedOut(limit.as_millis() as u64).into());
    rt::timeout(limit, work).await.unwrap_or_else(late).map_err(|error| error.to_string())
}
