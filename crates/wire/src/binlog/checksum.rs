//! CRC32 at the end of each event.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/replication-options-binary-log.html#sysvar_binlog_checksum>

/// Bytes of a checksum.
pub const CHECKSUM_LEN: usize = 4;

/// What FORMAT_DESCRIPTION says of the events that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// None. FORMAT_DESCRIPTION itself has one all the same.
    #[default]
    Off,
    /// CRC32 of all bytes before it.
    Crc32,
}

impl Checksum {
    /// Bytes at the end of each event.
    pub fn len(self) -> usize {
        match self {
            Self::Off => 0,
            Self::Crc32 => CHECKSUM_LEN,
        }
    }

    /// True if there are none.
    pub fn is_empty(self) -> bool {
        self == Self::Off
    }
}

/// A CRC32 that grows piece by piece: a large event is never whole in memory.
#[derive(Debug, Default)]
pub struct Crc(flate2::Crc);

impl Crc {
    /// Of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of one piece.
    pub fn of(bytes: &[u8]) -> u32 {
        let mut crc = Self::new();
        crc.update(bytes);
        crc.sum()
    }

    /// Takes in the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all pieces.
    pub fn sum(&self) -> u32 {
        self.0.sum()
    }
}
