//! A few questions to a server out of turn, by whichever user: for who wants to know more of it than a probe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::{Announce, NetError, Place, rt};
use delphinus_wire::auth::Password;

use crate::probe::connection::Connection;
use crate::probe::error::ProbeError;
use crate::probe::query::{receive_named, send};

/// More rows than any answer that is asked for has.
const MOST_ROWS: usize = 20_000;

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

    /// Says goodbye.
    pub async fn close(self) {
        rt::timeout(self.limit, self.connection.quit()).await;
    }
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = Result<T, ProbeError>>) -> Result<T, String> {
    let late = || Err(NetError::TimedOut(limit.as_millis() as u64).into());
    rt::timeout(limit, work).await.unwrap_or_else(late).map_err(|error| error.to_string())
}
