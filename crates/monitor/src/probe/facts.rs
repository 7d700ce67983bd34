//! What is asked of a server: a few variables with each probe, its collations once for each connection.

use std::borrow::Cow;
use std::num::NonZeroU32;

use delphinus_topology::{Collation, Collations, Flavor, ServerFacts, ServerLimits};

use super::connection::Connection;
use super::error::ProbeError;
use super::position;
use super::query::{Row, query, receive, send};

/// Works on every server since MySQL 5.5. `super_read_only` is not asked for: MariaDB does not have it, and where
/// it is on `read_only` is on too.
const VARIABLES: &str = "SELECT @@global.read_only, @@version, @@version_comment, @@global.collation_server, \
     @@global.max_connections, @@global.max_user_connections, @@global.wait_timeout, @@global.interactive_timeout, \
     @@global.sql_mode";

/// Since MariaDB 10.10 one collation goes with several character sets, under one id and full name with each.
const APPLICABILITY: &str = "SELECT FULL_COLLATION_NAME, CHARACTER_SET_NAME, ID, IS_DEFAULT \
     FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY";

const COLLATIONS: &str =
    "SELECT COLLATION_NAME, CHARACTER_SET_NAME, ID, IS_DEFAULT FROM information_schema.COLLATIONS";

/// More rows than any server has collations (MariaDB 10.11: 1,242).
const MOST_COLLATIONS: usize = 20_000;

/// The answer to the probe query.
#[derive(Debug)]
pub(super) struct Variables {
    pub(super) is_read_only: bool,
    pub(super) limits: ServerLimits,
    pub(super) sql_mode: String,
    version: String,
    comment: String,
    collation: String,
    /// What the server has executed.
    pub(super) position: Told,
}

/// The server's words for its position.
#[derive(Debug)]
pub(super) enum Told {
    /// It is not known yet how to ask this server.
    NotAsked,
    /// What it said; `None` if it has no words for it.
    Answered(Option<Vec<u8>>),
}

impl Variables {
    /// True if `facts` are those of a server with these variables.
    pub(super) fn match_facts(&self, facts: &ServerFacts) -> bool {
        facts.version == self.version
            && facts
                .collations
                .by_name(&self.collation)
                .is_some_and(|found| found.id == facts.default_collation)
    }
}

/// Asks for the variables and, if it is `known` what server it is, for its position with the same query.
///
/// `also` is sent with it, and its answer is left to be received.
pub(super) async fn read_variables(
    connection: &mut Connection,
    known: Option<&ServerFacts>,
    also: Option<&str>,
) -> Result<Variables, ProbeError> {
    let columns = known.map(position::columns);
    let isolation = known.map(isolation);
    let sql = match (isolation, columns) {
        (Some(isolation), Some(Some(columns))) => Cow::Owned(format!("{VARIABLES}, {isolation}, {columns}")),
        (Some(isolation), _) => Cow::Owned(format!("{VARIABLES}, {isolation}")),
        (None, _) => Cow::Borrowed(VARIABLES),
    };
    let statements = [&*sql, also.unwrap_or_default()];
    send(connection, &statements[..=usize::from(also.is_some())]).await?;
    let rows = receive(connection, 1).await?;
    let row = rows.first().ok_or(ProbeError::Nonsense("no row"))?;
    let position = match columns {
        None => Told::NotAsked,
        Some(None) => Told::Answered(None),
        Some(Some(_)) => Told::Answered(position::told(row.get(10..).unwrap_or_default())),
    };
    // MySQL says 0 or 1; MariaDB 12 has words for more than two states, of which only OFF allows writes.
    let is_read_only = !matches!(text(row, 0)?.as_str(), "0" | "OFF");
    let limits = ServerLimits {
        max_connections: number(row, 4)?,
        max_user_connections: NonZeroU32::new(number(row, 5)?),
        wait_timeout_s: number(row, 6)?,
        interactive_timeout_s: number(row, 7)?,
        reads_uncommitted: isolation.is_some() && text(row, 9)?.eq_ignore_ascii_case("READ-UNCOMMITTED"),
    };
    let [version, comment, collation] = [text(row, 1)?, text(row, 2)?, text(row, 3)?];
    let sql_mode = text(row, 8)?;
    Ok(Variables { is_read_only, limits, sql_mode, version, comment, collation, position })
}

/// The isolation level of sessions that set none, by the name that this server has for it.
fn isolation(facts: &ServerFacts) -> &'static str {
    let since = match facts.flavor {
        Flavor::MySql => 50_720,
        Flavor::MariaDb => 110_101,
    };
    if facts.version_number >= since { "@@global.transaction_isolation" } else { "@@global.tx_isolation" }
}

fn number(row: &Row, column: usize) -> Result<u32, ProbeError> {
    // MariaDB's max_user_connections is -1 where users that have no SUPER are kept out: no limit that counts.
    let number: i64 = text(row, column)?.parse().map_err(|_| ProbeError::Nonsense("a limit is no number"))?;
    Ok(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

pub(super) async fn read_facts(
    connection: &mut Connection,
    variables: &Variables,
) -> Result<ServerFacts, ProbeError> {
    let version_number = ServerFacts::number_of(&variables.version);
    let flavor = Flavor::of(&variables.version, &variables.comment);
    let has_applicability = flavor == Flavor::MariaDb && version_number >= 101_000;
    let sql = if has_applicability { APPLICABILITY } else { COLLATIONS };
    let rows = query(connection, sql, MOST_COLLATIONS).await?;
    let collations = Collations::new(rows.iter().filter_map(collation).collect());
    let default_collation = collations
        .by_name(&variables.collation)
        .map(|collation| collation.id)
        .ok_or(ProbeError::Nonsense("its default collation is not in its own table"))?;
    let version = variables.version.clone();
    let is_delphinus = connection.is_delphinus();
    Ok(ServerFacts { version, version_number, flavor, default_collation, collations, is_delphinus })
}

/// A row of the table. Rows without an id or a character set stand for nothing that can be on the wire.
fn collation(row: &Row) -> Option<Collation> {
    let id = text(row, 2).ok()?.parse().ok()?;
    let is_default = text(row, 3).is_ok_and(|word| word.eq_ignore_ascii_case("yes"));
    let (name, charset) = (text(row, 0).ok()?.into(), text(row, 1).ok()?.into());
    Some(Collation { id, name, charset, is_default, is_confirmed: true })
}

fn text(row: &Row, column: usize) -> Result<String, ProbeError> {
    let value = row.get(column).and_then(Option::as_ref).ok_or(ProbeError::Nonsense("a value is missing"))?;
    Ok(String::from_utf8_lossy(value).into_owned())
}
