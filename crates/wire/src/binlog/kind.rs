//! Numbers of the kinds of events.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/namespacemysql_1_1binlog_1_1event.html>,
//! <https://mariadb.com/kb/en/2-binlog-event-header/>.

use std::fmt;

/// What an event is. Numbers without a name are as good as any other: they are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(pub u8);

macro_rules! kinds {
    ($($(#[doc = $text:literal])* $name:ident = $number:literal;)*) => {
        impl Kind {
            $($(#[doc = $text])* pub const $name: Self = Self($number);)*

            /// The field's name, where it is known.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A statement, BEGIN, COMMIT.
    QUERY = 2;
    /// The server stops: the last of a file.
    STOP = 3;
    /// The name of the next file.
    ROTATE = 4;
    /// The next statement's LAST_INSERT_ID or AUTO_INCREMENT value.
    INTVAR = 5;
    /// A block of LOAD DATA's file.
    APPEND_BLOCK = 9;
    /// LOAD DATA's file is not needed after all.
    DELETE_FILE = 11;
    /// The next statement's seeds of RAND.
    RAND = 13;
    /// The next statement's user variable.
    USER_VAR = 14;
    /// The head of each file.
    FORMAT_DESCRIPTION = 15;
    /// The commit of a transaction.
    XID = 16;
    /// The first block of LOAD DATA's file.
    BEGIN_LOAD_QUERY = 17;
    /// LOAD DATA as a statement.
    EXECUTE_LOAD_QUERY = 18;
    /// The table of the rows that follow.
    TABLE_MAP = 19;
    /// Rows, version 1.
    WRITE_ROWS_V1 = 23;
    /// Rows, version 1.
    UPDATE_ROWS_V1 = 24;
    /// Rows, version 1.
    DELETE_ROWS_V1 = 25;
    /// Something has gone wrong on the source: replicas stop.
    INCIDENT = 26;
    /// Nothing new. Is in no file.
    HEARTBEAT = 27;
    /// May be ignored by those who do not know it.
    IGNORABLE = 28;
    /// The statement that the rows are of, as text.
    ROWS_QUERY = 29;
    /// Rows.
    WRITE_ROWS = 30;
    /// Rows.
    UPDATE_ROWS = 31;
    /// Rows.
    DELETE_ROWS = 32;
    /// MySQL: a group begins.
    GTID = 33;
    /// MySQL: a group without a number begins.
    ANONYMOUS_GTID = 34;
    /// MySQL: all transactions in earlier files.
    PREVIOUS_GTIDS = 35;
    /// Group Replication's rows to be certified.
    TRANSACTION_CONTEXT = 36;
    /// Group Replication's members changed.
    VIEW_CHANGE = 37;
    /// The end of a group that XA PREPARE has written.
    XA_PREPARE = 38;
    /// Rows with parts of JSON values.
    PARTIAL_UPDATE_ROWS = 39;
    /// A whole transaction, compressed.
    TRANSACTION_PAYLOAD = 40;
    /// Nothing new, with a position of 64 bits. Is in no file.
    HEARTBEAT_V2 = 41;
    /// MySQL: a group with a tag begins.
    GTID_TAGGED = 42;
    /// MariaDB: the statement that the rows are of, as text.
    ANNOTATE_ROWS = 160;
    /// MariaDB: recovery needs no earlier file than this.
    BINLOG_CHECKPOINT = 161;
    /// MariaDB: a group begins.
    MARIADB_GTID = 162;
    /// MariaDB: the last transaction of each domain and server in earlier files.
    GTID_LIST = 163;
    /// MariaDB: what follows in this file is encrypted.
    START_ENCRYPTION = 164;
    /// MariaDB: a statement, compressed.
    QUERY_COMPRESSED = 165;
    /// MariaDB: rows, compressed.
    WRITE_ROWS_COMPRESSED_V1 = 166;
    /// MariaDB: rows, compressed.
    UPDATE_ROWS_COMPRESSED_V1 = 167;
    /// MariaDB: rows, compressed.
    DELETE_ROWS_COMPRESSED_V1 = 168;
    /// MariaDB: rows, compressed.
    WRITE_ROWS_COMPRESSED = 169;
    /// MariaDB: rows, compressed.
    UPDATE_ROWS_COMPRESSED = 170;
    /// MariaDB: rows, compressed.
    DELETE_ROWS_COMPRESSED = 171;
}

impl Kind {
    /// True if a group begins with it.
    pub fn begins_group(self) -> bool {
        matches!(self, Self::GTID | Self::GTID_TAGGED | Self::ANONYMOUS_GTID | Self::MARIADB_GTID)
    }

    /// True if a server sends it and never writes it into a file.
    pub fn is_heartbeat(self) -> bool {
        matches!(self, Self::HEARTBEAT | Self::HEARTBEAT_V2)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "event {}", self.0),
        }
    }
}
