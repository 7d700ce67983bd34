//! Capability flags: what each side of a connection can do. The low 32 bits are MySQL's; the high 32 bits are
//! MariaDB's own, which travel in the last 4 filler bytes of both login packets.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/1-connecting/connection>

use std::ops::{BitAnd, BitOr, Not};

/// A set of capability flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Set by MySQL servers and clients; a MariaDB server leaves it out to say that it has the extended flags.
    pub const LONG_PASSWORD: Self = Self(1);
    /// Affected rows are the rows found, not the rows changed.
    pub const FOUND_ROWS: Self = Self(1 << 1);
    /// Longer column flags; always on.
    pub const LONG_FLAG: Self = Self(1 << 2);
    /// The login packet names a schema.
    pub const CONNECT_WITH_DB: Self = Self(1 << 3);
    /// `db.table.column` is not allowed; obsolete.
    pub const NO_SCHEMA: Self = Self(1 << 4);
    /// Compressed packets (zlib).
    pub const COMPRESS: Self = Self(1 << 5);
    /// No effect; sent by ODBC.
    pub const ODBC: Self = Self(1 << 6);
    /// LOAD DATA LOCAL INFILE.
    pub const LOCAL_FILES: Self = Self(1 << 7);
    /// Blanks are allowed between a function's name and its parenthesis.
    pub const IGNORE_SPACE: Self = Self(1 << 8);
    /// The protocol of MySQL 4.1; nothing older is spoken here.
    pub const PROTOCOL_41: Self = Self(1 << 9);
    /// `interactive_timeout` instead of `wait_timeout`.
    pub const INTERACTIVE: Self = Self(1 << 10);
    /// TLS.
    pub const SSL: Self = Self(1 << 11);
    /// No effect.
    pub const IGNORE_SIGPIPE: Self = Self(1 << 12);
    /// Status flags in OK packets; always on.
    pub const TRANSACTIONS: Self = Self(1 << 13);
    /// Old name of `PROTOCOL_41`; no effect.
    pub const RESERVED: Self = Self(1 << 14);
    /// A 20-byte nonce; always on.
    pub const SECURE_CONNECTION: Self = Self(1 << 15);
    /// Several statements in one COM_QUERY.
    pub const MULTI_STATEMENTS: Self = Self(1 << 16);
    /// Several results for one COM_QUERY.
    pub const MULTI_RESULTS: Self = Self(1 << 17);
    /// Several results for one COM_STMT_EXECUTE.
    pub const PS_MULTI_RESULTS: Self = Self(1 << 18);
    /// The login packet names an authentication plugin.
    pub const PLUGIN_AUTH: Self = Self(1 << 19);
    /// The login packet carries connection attributes.
    pub const CONNECT_ATTRS: Self = Self(1 << 20);
    /// The authentication answer has a lenenc length.
    pub const PLUGIN_AUTH_LENENC_DATA: Self = Self(1 << 21);
    /// The client can deal with an expired password.
    pub const CAN_HANDLE_EXPIRED_PASSWORDS: Self = Self(1 << 22);
    /// OK packets say what changed in the session.
    pub const SESSION_TRACK: Self = Self(1 << 23);
    /// An OK packet ends a result set, and no EOF follows the columns.
    pub const DEPRECATE_EOF: Self = Self(1 << 24);
    /// Column definitions may be left out.
    pub const OPTIONAL_RESULTSET_METADATA: Self = Self(1 << 25);
    /// Compressed packets (zstd).
    pub const ZSTD_COMPRESSION: Self = Self(1 << 26);
    /// Named parameters with COM_QUERY and COM_STMT_EXECUTE.
    pub const QUERY_ATTRIBUTES: Self = Self(1 << 27);
    /// Several authentication factors.
    pub const MULTI_FACTOR: Self = Self(1 << 28);
    /// Reserved to extend the flags.
    pub const CAPABILITY_EXTENSION: Self = Self(1 << 29);
    /// The client checks certificates; no effect on the protocol.
    pub const SSL_VERIFY_SERVER_CERT: Self = Self(1 << 30);
    /// The client keeps its options after a failed login; no effect on the protocol.
    pub const REMEMBER_OPTIONS: Self = Self(1 << 31);

    /// MariaDB: progress reports in ERR-like packets.
    pub const MARIADB_PROGRESS: Self = Self(1 << 32);
    /// MariaDB: reserved for COM_MULTI.
    pub const MARIADB_COM_MULTI: Self = Self(1 << 33);
    /// MariaDB: COM_STMT_BULK_EXECUTE.
    pub const MARIADB_STMT_BULK: Self = Self(1 << 34);
    /// MariaDB: column definitions name their extended types.
    pub const MARIADB_EXTENDED_METADATA: Self = Self(1 << 35);
    /// MariaDB: column definitions of prepared statements may be left out when unchanged.
    pub const MARIADB_CACHE_METADATA: Self = Self(1 << 36);
    /// MariaDB: one unit result for each row of a bulk statement.
    pub const MARIADB_BULK_UNIT_RESULTS: Self = Self(1 << 37);

    /// All flags of a list.
    pub const fn of(mut list: &[Self]) -> Self {
        let mut all = 0;
        while let [first, rest @ ..] = list {
            all |= first.0;
            list = rest;
        }
        Self(all)
    }

    /// True if every flag of `other` is set.
    #[inline]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// `self` without the flags of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The 32 flags of MySQL.
    pub fn mysql_bits(self) -> u32 {
        self.0 as u32
    }

    /// The 32 flags of MariaDB.
    pub fn mariadb_bits(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl BitOr for Capabilities {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Capabilities {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Capabilities {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}
