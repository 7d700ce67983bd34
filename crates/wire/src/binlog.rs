//! Events of the binary log: what a replication stream and a log file are made of.
//!
//! Owns: heads, checksums, and the bodies that a relay must understand. Events are forwarded as bytes: what is not needed is not
//! decoded. Must not know files, sockets, or who replicates from whom.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html>,
//! <https://mariadb.com/kb/en/replication-protocol/>.
//!
//! | question | file |
//! |---|---|
//! | the 19 bytes at the front of each event, its whole with its checksum | `header`, `event` |
//! | numbers of the kinds of events | `kind` |
//! | CRC32 at the end, piece by piece too | `checksum` |
//! | FORMAT_DESCRIPTION | `format` |
//! | ROTATE, HEARTBEAT, HEARTBEAT_V2 | `rotate`, `heartbeat` |
//! | GTID, GTID_TAGGED, ANONYMOUS_GTID, PREVIOUS_GTIDS | `gtid` |
//! | MariaDB's GTID and GTID_LIST | `mariadb` |
//! | where a group begins and ends | `group` |
//! | database and text of a QUERY | `query` |
//! | the table of rows | `table_map` |
//! | what is compressed inside of events | `payload` |
//! | requests of a replica, and semi-sync's packets | `dump` |

mod checksum;
pub mod dump;
mod event;
mod format;
mod group;
mod gtid;
mod header;
mod heartbeat;
mod kind;
mod mariadb;
mod payload;
mod query;
mod rotate;
mod table_map;
mod varlen;

pub use checksum::{CHECKSUM_LEN, Checksum, Crc};
pub use event::{Event, build};
pub use format::FormatDescription;
pub use group::{Border, Groups, PREFIX_LEN};
pub use gtid::{AnyGtid, MySqlGtid, Tag, previous_gtids};
pub(crate) use gtid::{read_tag, read_uuid};
pub use header::{
    FLAG_ARTIFICIAL, FLAG_IGNORABLE, FLAG_IN_USE, FLAG_SKIP_REPLICATION, FLAG_THREAD_SPECIFIC, HEADER_LEN,
    Header,
};
pub use heartbeat::{Heartbeat, heartbeat, heartbeat_v2};
pub use kind::Kind;
pub use mariadb::{GTID_LIST_UNTIL_MASK, MariaDbGtid, MariaDbGtidEvent, gtid_list, put_gtid_list};
pub use payload::{PAYLOAD_FRONT_LEN, PayloadFront, each_event, unpack_query};
pub use query::Query;
pub use rotate::{Rotate, put_rotate};
pub use table_map::TableMap;
pub(crate) use varlen::put_unsigned;

/// The first bytes of each log file; the first event is at this position.
pub const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];

#[cfg(test)]
mod tests;
