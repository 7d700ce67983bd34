//! What a replica says before a dump, and the dumps.
//! Source: captured conversations of MySQL 9.7 and MariaDB 10.11 and 11.8;
//! <https://mariadb.com/kb/en/5-slave-registration/>.

use std::time::Duration;

use delphinus_net::{NetError, rt};
use delphinus_wire::binlog::dump::{Dump, DumpGtid, Register};
use delphinus_wire::binlog::{Event, Kind, MAGIC, Rotate};
use delphinus_wire::gtid::{GtidIntervals, GtidSet, uuid_text};

use super::{Connection, Facts, SourceError};
use crate::intake::Packets;
use crate::log::Flavor;

/// The user variable that tells a relay that a relay asks; servers do not know it.
pub(crate) const RELAY: &str = "delphinus_relay";

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica {
    pub(crate) server_id: u32,
    pub(crate) uuid: u128,
    pub(crate) heartbeat: Duration,
    /// It acknowledges.
    pub(crate) semi_sync: bool,
}

/// Where a dump begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From<'a> {
    /// All that is not in this set.
    Set(&'a GtidSet),
    /// A file, and a position in it.
    File(&'a str, u32),
}

/// What a replica says before it asks for a dump.
pub(crate) async fn prepare(
    connection: &mut Connection,
    facts: &Facts,
    replica: Replica,
) -> Result<(), SourceError> {
    let nanoseconds = replica.heartbeat.as_nanos();
    match facts.flavor {
        Flavor::MySql => {
            let uuid = uuid_text(replica.uuid);
            connection
                .execute(&format!(
                    "SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}, \
                     @master_binlog_checksum = @@global.binlog_checksum, \
                     @source_binlog_checksum = @@global.binlog_checksum, @slave_uuid = '{uuid}', @replica_uuid = '{uuid}', \
                     @{RELAY} = 1"
                ))
                .await?;
        }
        Flavor::MariaDb => {
            connection
                .execute(&format!(
                    "SET @master_heartbeat_period = {nanoseconds}, @master_binlog_checksum = @@global.binlog_checksum, \
                     @mariadb_slave_capability = 4, @{RELAY} = 1"
                ))
                .await?;
        }
    }
    let mut register = Vec::new();
    Register { server_id: replica.server_id, host: b"", port: 0 }.put(&mut register);
    connection.command(&register).await?;
    if replica.semi_sync && facts.has_semi_sync {
        let set = match facts.flavor {
            Flavor::MySql => "SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1",
            Flavor::MariaDb => "SET @rpl_semi_sync_slave = 1",
        };
        connection.execute(set).await?;
    }
    Ok(())
}

/// Asks for a dump; events follow.
pub(crate) async fn request(
    connection: &mut Connection,
    facts: &Facts,
    server_id: u32,
    from: From<'_>,
) -> Result<(), SourceError> {
    let mut payload = Vec::new();
    match (from, facts.flavor) {
        (From::File(name, position), _) => {
            Dump { position, flags: 2, server_id, name: name.as_bytes() }.put(&mut payload);
        }
        (From::Set(set), Flavor::MySql) => {
            let executed = match set {
                GtidSet::MySql(set) => set.clone(),
                GtidSet::MariaDb(_) => GtidIntervals::default(),
            };
            DumpGtid { flags: 2, server_id, executed }.put(&mut payload);
        }
        (From::Set(set), Flavor::MariaDb) => {
            connection
                .execute(&format!("SET @slave_connect_state = '{set}', @slave_gtid_strict_mode = 0"))
                .await?;
            Dump { position: MAGIC.len() as u32, flags: 2, server_id, name: b"" }.put(&mut payload);
        }
    }
    connection.send(&payload).await?;
    connection.stream.begin_flow();
    Ok(())
}

/// The first events of a dump, until FORMAT_DESCRIPTION and what follows it, at most so many bytes.
const LONGEST_START: usize = 64 << 20;

/// Reads the start of a dump: the name of the first file, and the bytes of its first events as far as PREVIOUS_GTIDS or GTID_LIST. The
/// connection is of no use after it.
pub(crate) async fn first_file(
    mut connection: Connection,
    facts: &Facts,
    limit: Duration,
) -> Result<(Box<str>, Vec<u8>), SourceError> {
    let (mut packets, mut event, mut head) = (Packets::bare(), Vec::new(), MAGIC.to_vec());
    let (mut name, mut checksum) = (None, facts.checksum);
    let late = || NetError::TimedOut(limit.as_millis() as u64);
    loop {
        let (used, piece) = packets.next(connection.buffer.data())?;
        let is_last = piece.is_some_and(|piece| {
            event.extend_from_slice(piece.bytes);
            piece.is_last
        });
        connection.buffer.consume(used);
        if is_last {
            let seen = Event::parse(&event, checksum)?;
            match (seen.header.kind, seen.header.is_artificial()) {
                (Kind::ROTATE, true) => name = Some(Box::from(Rotate::parse(seen.body)?.name)),
                (_, true) => {}
                (kind, false) => {
                    if head.len() + seen.bytes.len() > LONGEST_START {
                        return Err(delphinus_wire::Malformed("very long head of a file").into());
                    }
                    head.extend_from_slice(seen.bytes);
                    if kind == Kind::FORMAT_DESCRIPTION {
                        checksum = delphinus_wire::binlog::FormatDescription::parse(seen.body)?.checksum;
                    } else if kind != Kind::START_ENCRYPTION {
                        let name = name.ok_or(delphinus_wire::Malformed("a dump without ROTATE"))?;
                        return Ok((name, head));
                    }
                }
            }
            event.clear();
        }
        if used == 0 {
            if event.len() > LONGEST_START {
                return Err(delphinus_wire::Malformed("very long head of a file").into());
            }
            let buffer = std::mem::take(&mut connection.buffer);
            let (result, buffer) =
                rt::timeout(limit, connection.stream.read(buffer)).await.ok_or_else(late)?;
            connection.buffer = buffer;
            if result.map_err(NetError::from)? == 0 {
                return Err(NetError::Closed.into());
            }
        }
    }
}
