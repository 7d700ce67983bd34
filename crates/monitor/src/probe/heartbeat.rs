//! The heartbeat's row: the statements about it, and the connection on which one is written.
//!
//! No statement may write where writes are not wanted, whatever the monitor's user is allowed to do: each one asks for
//! `read_only` itself, so that nobody can set it in between. Replicas that are sent the statement and not the row (`binlog_format =
//! STATEMENT`) are `read_only`, and have to write all the same: they have another `server_id`.

use std::time::Duration;

use delphinus_net::Announce;
use delphinus_topology::{Beat, Kind};
use delphinus_wire::error_code;

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{Row, execute, query, receive, receive_done, send};
use crate::settings::{BackendSpec, HeartbeatSettings, Settings};

/// Without `autocommit`, which servers may have set otherwise, the row stays as it was when it was read first. Locks, which backups
/// and changes of the table hold, are waited for so many seconds.
const READING: &str = "SET SESSION autocommit = 1, lock_wait_timeout = 1, innodb_lock_wait_timeout = 1";

/// Reads wait for nothing that a member of a group has not applied yet.
const AS_IT_IS: &str = "SET SESSION group_replication_consistency = 'EVENTUAL'";

/// A value that does not fit is an error, and nobody closes the connection before the next beat.
const WRITING: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES', wait_timeout = 600";

/// Microseconds since 1970. `NOW` is the same on replicas that are sent the statement.
const MICROSECONDS: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The statements of one cluster's row.
#[derive(Debug)]
pub(crate) struct Statements {
    settings: HeartbeatSettings,
    /// Whole, in quotes.
    table: String,
    key: String,
    me: String,
    is_group: bool,
}

/// Which row may be written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    /// One's own.
    Mine,
    /// Of whom it is, if this is still the last beat.
    Last(u64),
}

/// What came of one turn.
#[derive(Debug)]
pub(crate) struct Turned {
    /// The row as it is then; `None`: there is none, because the server takes no writes.
    pub(crate) beat: Option<Beat>,
    /// What the server had against the change.
    pub(crate) written: Result<(), ProbeError>,
}

impl Statements {
    /// For the proxy that is called `me`, in letters and digits.
    pub(crate) fn new(settings: &HeartbeatSettings, me: &str, kind: Kind) -> Self {
        let HeartbeatSettings { schema, table, cluster, .. } = settings;
        let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or_default();
        let hex: String = cluster.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        Self {
            settings: settings.clone(),
            table: format!("`{schema}`.`{table}`"),
            // Its name may be any text, and this means the same in every sql_mode.
            key: format!("_utf8mb4 X'{hex}'"),
            me: me.to_owned(),
            is_group: kind == Kind::GroupReplication,
        }
    }

    fn look(&self) -> String {
        format!("SELECT beat, writer, interval_ms FROM {} WHERE cluster = {}", self.table, self.key)
    }

    /// The values of a beat of this proxy, without its number.
    fn values(&self) -> [String; 3] {
        let ms = self.settings.interval.as_millis();
        [format!("'{}'", self.me), ms.to_string(), "UTC_TIMESTAMP(6)".to_owned()]
    }

    fn write(&self, whose: Whose, server: u32) -> String {
        let (table, key, guard) = (&self.table, &self.key, guard(server));
        let [me, ms, at] = self.values();
        let condition = match whose {
            Whose::Mine => format!("writer = {me}"),
            Whose::Last(number) => format!("beat = {number}"),
        };
        format!(
            "UPDATE {table} SET beat = GREATEST(beat + 1, {MICROSECONDS}), writer = {me}, interval_ms = {ms}, written_at = {at} \
             WHERE cluster = {key} AND {condition} AND {guard}"
        )
    }

    fn insert(&self, server: u32) -> String {
        let (table, key, guard) = (&self.table, &self.key, guard(server));
        let [me, ms, at] = self.values();
        format!(
            "INSERT IGNORE INTO {table} (cluster, beat, writer, interval_ms, written_at) \
             SELECT {key}, {MICROSECONDS}, {me}, {ms}, {at} FROM DUAL WHERE {guard}"
        )
    }

    /// Leaves the row to others.
    fn leave(&self, server: u32) -> String {
        let (table, key, guard) = (&self.table, &self.key, guard(server));
        let [me, ..] = self.values();
        format!("UPDATE {table} SET writer = '' WHERE cluster = {key} AND writer = {me} AND {guard}")
    }

    fn create(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (\
             cluster VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, \
             beat BIGINT UNSIGNED NOT NULL, \
             writer VARCHAR(64) CHARACTER SET ascii NOT NULL, \
             interval_ms INT UNSIGNED NOT NULL, \
             written_at DATETIME(6) NOT NULL) ENGINE = InnoDB",
            self.table
        )
    }

    fn create_schema(&self) -> String {
        format!("CREATE DATABASE IF NOT EXISTS `{}`", self.settings.schema)
    }
}

/// True on `server` while it takes writes, and on all others. Some versions of `read_only` are words.
fn guard(server: u32) -> String {
    format!("(CONCAT(@@global.read_only) IN ('0', 'OFF') OR @@global.server_id <> {server})")
}

/// The number of the last beat that a replica has; `None` if it has no row, or no table yet.
pub(super) async fn read(
    connection: &mut Connection,
    statements: &Statements,
    is_prepared: &mut bool,
) -> Result<Option<u64>, ProbeError> {
    if !*is_prepared {
        prepare(connection, statements.is_group).await?;
        *is_prepared = true;
    }
    match query(connection, &statements.look(), 1).await {
        Ok(rows) => rows.first().map(number).transpose(),
        Err(ProbeError::Answer(error))
            if matches!(error.code, error_code::ER_BAD_DB_ERROR | error_code::ER_NO_SUCH_TABLE) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn prepare(connection: &mut Connection, is_group: bool) -> Result<(), ProbeError> {
    execute(connection, READING).await?;
    if is_group {
        match execute(connection, AS_IT_IS).await {
            // It is no member, so that it waits for nobody.
            Ok(()) | Err(ProbeError::Answer(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn text(row: &Row, column: usize) -> Result<&str, ProbeError> {
    let bytes = row.get(column).and_then(Option::as_deref);
    bytes
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .ok_or(ProbeError::Nonsense("the heartbeat's row has no such text"))
}

fn number(row: &Row) -> Result<u64, ProbeError> {
    text(row, 0)?.parse().map_err(|_| ProbeError::Nonsense("the heartbeat's beat is no number"))
}

fn beat(row: &Row) -> Result<Beat, ProbeError> {
    let ms =
        text(row, 2)?.parse().map_err(|_| ProbeError::Nonsense("the heartbeat's interval is no number"))?;
    Ok(Beat { number: number(row)?, writer: text(row, 1)?.to_owned(), every: Duration::from_millis(ms) })
}

/// The connection to the primary on which the row is looked at and written: no probe waits for it.
#[derive(Debug)]
pub(crate) struct Line {
    connection: Connection,
    server: u32,
}

impl Line {
    /// Logs in.
    pub(crate) async fn open(
        spec: &BackendSpec,
        settings: &Settings,
        statements: &Statements,
    ) -> Result<Self, ProbeError> {
        let announce = spec.place.reach().proxy_protocol.map(|version| Announce { version, client: None });
        let spot = spec.place.spot();
        let stream = delphinus_net::dial_at(&spot, announce, settings.timeout()).await?;
        let mut connection = Connection::log_in(stream, (spec, spot.host()), settings).await?;
        prepare(&mut connection, statements.is_group).await?;
        execute(&mut connection, WRITING).await?;
        let rows = query(&mut connection, "SELECT @@global.server_id", 1).await?;
        let row = rows.first().ok_or(ProbeError::Nonsense("no row"))?;
        let server = text(row, 0)?.parse().map_err(|_| ProbeError::Nonsense("a server_id is no number"))?;
        Ok(Self { connection, server })
    }

    /// Looks at the row; makes it if there is none, and its table, if it `creates` that.
    pub(crate) async fn look(
        &mut self,
        statements: &Statements,
        creates: bool,
    ) -> Result<Turned, ProbeError> {
        Ok(Turned { beat: self.find_or_make(statements, creates).await?, written: Ok(()) })
    }

    async fn find_or_make(
        &mut self,
        statements: &Statements,
        creates: bool,
    ) -> Result<Option<Beat>, ProbeError> {
        let found = match self.find(statements).await {
            Err(ProbeError::Answer(error))
                if matches!(error.code, error_code::ER_BAD_DB_ERROR | error_code::ER_NO_SUCH_TABLE)
                    && creates =>
            {
                if !self.takes_writes().await? {
                    return Ok(None);
                }
                self.create(statements).await?;
                None
            }
            found => found?,
        };
        if found.is_some() {
            return Ok(found);
        }
        if_writable(execute(&mut self.connection, &statements.insert(self.server)).await)?;
        self.find(statements).await
    }

    /// Writes the next beat, if nothing speaks against it.
    pub(crate) async fn write(
        &mut self,
        statements: &Statements,
        whose: Whose,
    ) -> Result<Turned, ProbeError> {
        // In one piece: a round trip less, and no other beat in between.
        let update = statements.write(whose, self.server);
        send(&mut self.connection, &[&update, &statements.look()]).await?;
        let written = match receive_done(&mut self.connection).await {
            Err(error) if !matches!(error, ProbeError::Answer(_)) => return Err(error),
            written => written,
        };
        let rows = receive(&mut self.connection, 1).await?;
        Ok(Turned { beat: rows.first().map(beat).transpose()?, written: if_writable(written) })
    }

    /// Leaves the row to others, who need not wait then.
    pub(crate) async fn leave(&mut self, statements: &Statements) -> Result<(), ProbeError> {
        execute(&mut self.connection, &statements.leave(self.server)).await
    }

    /// Says goodbye.
    pub(crate) async fn quit(self) {
        self.connection.quit().await;
    }

    async fn find(&mut self, statements: &Statements) -> Result<Option<Beat>, ProbeError> {
        query(&mut self.connection, &statements.look(), 1).await?.first().map(beat).transpose()
    }

    async fn takes_writes(&mut self) -> Result<bool, ProbeError> {
        let sql = format!("SELECT 1 FROM DUAL WHERE {}", guard(self.server));
        Ok(!query(&mut self.connection, &sql, 1).await?.is_empty())
    }

    async fn create(&mut self, statements: &Statements) -> Result<(), ProbeError> {
        match execute(&mut self.connection, &statements.create()).await {
            Err(ProbeError::Answer(error)) if error.code == error_code::ER_BAD_DB_ERROR => {
                if_writable(execute(&mut self.connection, &statements.create_schema()).await)?;
                if_writable(execute(&mut self.connection, &statements.create()).await)
            }
            outcome => if_writable(outcome),
        }
    }
}

/// That a server is `read_only` is no mistake of anybody's: there is just no beat.
fn if_writable(outcome: Result<(), ProbeError>) -> Result<(), ProbeError> {
    match outcome {
        // Its role moves, or has moved.
        Err(ProbeError::Answer(error)) if error.is_of_read_only_server() => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(cluster: &str) -> Statements {
        let settings = HeartbeatSettings {
            schema: "own-schema".to_owned(),
            table: "beats$".to_owned(),
            cluster: cluster.to_owned(),
            interval: Duration::from_millis(250),
        };
        Statements::new(&settings, "c0ffee", Kind::Static)
    }

    #[test]
    fn names_go_into_no_statement_as_they_are() {
        let found = statements("it's\\").look();
        let wanted = "SELECT beat, writer, interval_ms FROM `own-schema`.`beats$` WHERE cluster = _utf8mb4 X'697427735c'";
        assert_eq!(found, wanted);
    }

    #[test]
    fn whatever_changes_the_row_asks_for_read_only_itself() {
        let statements = statements("main");
        let guard = "(CONCAT(@@global.read_only) IN ('0', 'OFF') OR @@global.server_id <> 7)";
        for (sql, condition) in [
            (statements.write(Whose::Mine, 7), " AND writer = 'c0ffee' AND "),
            (statements.write(Whose::Last(12), 7), " AND beat = 12 AND "),
            (statements.leave(7), " AND writer = 'c0ffee' AND "),
            (statements.insert(7), " FROM DUAL WHERE "),
        ] {
            assert!(sql.ends_with(&format!("{condition}{guard}")), "{sql}");
        }
    }
}
