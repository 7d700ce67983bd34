//! Why a replica cannot be served: error 1236, which ends its I/O thread until somebody acts. The first sentence is the
//! servers' own, because replicas' operators and programs know it; the second one says what to do here.

use std::fmt;

use delphinus_wire::binlog::MariaDbGtid;

use super::short::Short;

/// A reason that does not go away by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fatal {
    /// There is no log yet.
    Empty,
    /// The files that it needs are gone; what it lacks.
    Purged(String),
    /// It has transactions of the source that the source does not have; which.
    HasMore(String),
    /// MariaDB: its position is not in the log.
    NotInLog(MariaDbGtid),
    /// It has what the log does not have, and the log may get that yet; what.
    Ahead(String),
    /// MariaDB: its position was passed without being met.
    Missing(MariaDbGtid),
    /// There is no file of that name.
    NoSuchFile(String),
    /// Several sources have had a file of that name; the folders in which they are.
    Ambiguous(String, String),
    /// The position is beyond the end of the file, or before its first event.
    BadPosition(String, u64),
    /// A transaction has no number, and the replica goes by numbers.
    Anonymous,
    /// A replica of one family of servers asks for the log of the other: by number, or by a place, where it would stop at the other
    /// family's events.
    OtherFamily,
    /// It does not know checksums, and the log has them.
    NoChecksums,
    /// It is too old.
    TooOld,
    /// START SLAVE UNTIL master_gtid_pos.
    Until,
    /// MariaDB: its position has too many domains.
    TooManyDomains,
    /// It began inside of a file, by position, and the next file is of another source.
    OtherSource,
    /// There is no memory for what it is to be sent; the limit.
    NoMemory(u64),
    /// The log cannot be read; the system's word.
    Unreadable(String),
}

impl Fatal {
    /// True for what goes away by itself: the replica is to come again.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Empty | Self::Ahead(_) | Self::NoMemory(_))
    }

    /// The same of a log that is not as far as its source: what a replica has more than it is no reason to stop then.
    pub(crate) fn while_behind(self) -> Self {
        match self {
            Self::HasMore(more) => Self::Ahead(more),
            Self::NotInLog(gtid) => Self::Ahead(gtid.to_string()),
            other => other,
        }
    }

    /// The whole text of a reason that has nothing to name.
    fn fixed(&self) -> Option<&'static str> {
        Some(match self {
            Self::Empty => {
                "Binary log is not open. The relay has not reached its source yet: SHOW RELAY STATUS there says why"
            }
            Self::Anonymous => {
                "Cannot replicate anonymous transaction when AUTO_POSITION = 1. The log has transactions without a GTID: connect \
                 by file and position, or set gtid_mode=ON on the source"
            }
            Self::OtherFamily => {
                "The GTIDs of MySQL and of MariaDB are not the same. The relay follows a server of the other kind: have the replica \
                 follow a source of its own kind"
            }
            Self::NoChecksums => {
                "Slave can not handle replication events with the checksum that master is configured to log. Set \
                 @source_binlog_checksum before the request, as replicas do"
            }
            Self::TooOld => {
                "The replica is too old for the events of this log. MariaDB 10.0 or MySQL 5.6 is the oldest that can follow"
            }
            Self::Until => {
                "START SLAVE UNTIL master_gtid_pos is not done by a relay. Start the replica without it, or UNTIL a file and a \
                 position"
            }
            Self::TooManyDomains => {
                "Error: connecting slave requested to start from more GTID domains than a relay looks at, which are 1000. Leave \
                 those out of gtid_slave_pos there that are not used any more"
            }
            Self::OtherSource => {
                "The relay follows another source now, and a position in the files of the one before says nothing of its files. \
                 Connect by GTID"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Purged(missing) => write!(
                f,
                "Cannot replicate because the source purged required binary logs. The relay has not kept these transactions: \
                 {}. Set the replica up anew from a backup, or let it fetch them from the primary",
                Short(missing)
            ),
            Self::HasMore(more) => write!(
                f,
                "Replica has more GTIDs than the source has, using the source's SERVER_UUID. The relay does not have: {}. \
                 Transactions were lost on the source, or the replica was written to: set the replica up anew",
                Short(more)
            ),
            Self::NotInLog(gtid) => write!(
                f,
                "Error: connecting slave requested to start from GTID {gtid}, which is not in the master's binlog. The relay has \
                 no such transaction: the replica was written to, or follows another source"
            ),
            Self::Ahead(more) => write!(
                f,
                "The replica is ahead of the relay, which does not receive, or is behind its source, and does not have yet: {}. The replica is \
                 served when the relay has it; SHOW RELAY STATUS there says what it does",
                Short(more)
            ),
            Self::Missing(gtid) => write!(
                f,
                "The binlog on the master is missing the GTID {gtid} requested by the slave (even though a subsequent sequence \
                 number does exist). Set the replica up anew, or set gtid_strict_mode=OFF there"
            ),
            Self::NoSuchFile(name) => {
                write!(
                    f,
                    "Could not find first log file name in binary log index file. The relay has no file '{}'",
                    Short(name)
                )
            }
            Self::Ambiguous(name, folders) => write!(
                f,
                "Could not find out which file is meant. The relay has files '{}' of several sources, in its folders {}: connect by \
                 GTID. A program may ask for 'FOLDER/NAME'",
                Short(name),
                Short(folders)
            ),
            Self::BadPosition(name, position) => {
                write!(
                    f,
                    "Client requested source to start replication from position > file size. The relay has no group at {}:{position}",
                    Short(name)
                )
            }
            Self::NoMemory(limit) => write!(
                f,
                "There is no memory for the head of a file that the replica is to be sent, within the {limit} bytes of the relay's \
                 [proxy] memory_limit; it is served when there is some"
            ),
            Self::Unreadable(why) => write!(
                f,
                "log event entry exceeded or cannot be read. The relay cannot read its log: {}",
                Short(why)
            ),
            Self::Empty
            | Self::Anonymous
            | Self::OtherFamily
            | Self::NoChecksums
            | Self::TooOld
            | Self::Until
            | Self::TooManyDomains
            | Self::OtherSource => f.write_str(self.fixed().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_only_ahead_comes_again() {
        let gtid = MariaDbGtid { domain: 0, server_id: 1, sequence: 7 };
        for fatal in [Fatal::HasMore("0-1-7".to_owned()), Fatal::NotInLog(gtid)] {
            assert!(!fatal.is_passing());
            let passing = fatal.while_behind();
            assert!(passing.is_passing() && passing.to_string().contains("0-1-7"), "{passing}");
        }
        assert_eq!(Fatal::OtherFamily.while_behind(), Fatal::OtherFamily);
    }

    #[test]
    fn what_a_replica_has_sent_does_not_fill_the_log() {
        let long = || "9".repeat(16 << 20);
        let all = [
            Fatal::Purged(long()),
            Fatal::HasMore(long()),
            Fatal::Ahead(long()),
            Fatal::NoSuchFile(long()),
            Fatal::Ambiguous(long(), "000001-a, 000002-a".to_owned()),
            Fatal::BadPosition(long(), 4),
            Fatal::Unreadable(long()),
        ];
        for fatal in all {
            assert!(fatal.to_string().len() < 2048);
        }
        assert!(Fatal::NoSuchFile("a\nb".to_owned()).to_string().contains("a\\nb"));
    }
}
