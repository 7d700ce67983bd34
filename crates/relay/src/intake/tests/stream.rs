//! A source in memory: its files, and what it sends.

use delphinus_wire::binlog::{
    Checksum, FLAG_ARTIFICIAL, HEADER_LEN, Header, Kind, MAGIC, Rotate, build, put_rotate,
};
use delphinus_wire::gtid::GtidIntervals;
use delphinus_wire::put_packet;

pub(crate) const UUID: &str = "327eb417-e7d4-11f1-aece-02fc00000001";
/// When the source began its files.
const BEGAN: u32 = 1_795_503_401;

/// A file of the source.
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Where each event ends, whether a whole group has ended there, and how many groups there are by then in all files.
    pub(crate) ends: Vec<(usize, bool, u64)>,
}

/// What a group is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GroupKind {
    Transaction(usize),
    Ddl,
    Payload(usize),
}

pub(crate) struct Source {
    pub(crate) files: Vec<SourceFile>,
    checksum: Checksum,
    /// So many groups are before its files, and these say nothing of them.
    hidden: u64,
}

impl Source {
    /// With these groups in these files.
    pub(crate) fn new(files: &[&[GroupKind]], checksum: Checksum) -> Self {
        Self::after(0, files, checksum)
    }

    /// The same after so many groups that are in none of its files.
    pub(crate) fn after(number: u64, files: &[&[GroupKind]], checksum: Checksum) -> Self {
        Self::empty(checksum, 0).ended(false, number, files)
    }

    /// The same of a server that was made from a copy: only its `gtid_purged` has what was before.
    pub(crate) fn copied(number: u64, files: &[&[GroupKind]], checksum: Checksum) -> Self {
        Self::empty(checksum, number).ended(false, number, files)
    }

    /// The same of a server that was killed at the end of each file, and started again.
    pub(crate) fn killed(before: u64, files: &[&[GroupKind]], checksum: Checksum) -> Self {
        Self::empty(checksum, 0).ended(true, before, files)
    }

    fn empty(checksum: Checksum, hidden: u64) -> Self {
        Self { files: Vec::new(), checksum, hidden }
    }

    fn ended(mut self, is_killed: bool, mut number: u64, files: &[&[GroupKind]]) -> Self {
        let checksum = self.checksum;
        for (at, groups) in files.iter().enumerate() {
            // The first file after a start says when that was.
            let created = if at == 0 || is_killed { BEGAN } else { 0 };
            let mut file = self.begin_file(at, number, created);
            for group in *groups {
                number += 1;
                file.group(*group, number, checksum);
            }
            if at + 1 < files.len() && !is_killed {
                let mut body = Vec::new();
                put_rotate(&mut body, Rotate { position: 4, name: &name(at + 1) });
                file.event(Kind::ROTATE, &body, checksum, Some(number));
            }
            self.files.push(file);
        }
        self
    }

    fn begin_file(&self, at: usize, groups: u64, created: u32) -> SourceFile {
        let mut file = SourceFile { name: name(at), bytes: MAGIC.to_vec(), ends: Vec::new() };
        file.event(
            Kind::FORMAT_DESCRIPTION,
            &format_body(self.checksum, created),
            self.checksum,
            Some(groups),
        );
        let mut body = Vec::new();
        let first = self.hidden + 1;
        let text = if groups < first { String::new() } else { format!("{UUID}:{first}-{groups}") };
        GtidIntervals::parse(&text).unwrap().encode(&mut body);
        file.event(Kind::PREVIOUS_GTIDS, &body, self.checksum, Some(groups));
        file
    }

    /// What the source sends when it is asked for this file from this position: payloads of packets, each with its sequence number, and
    /// an acknowledgement asked for at the end of each group.
    pub(crate) fn sends(&self, first: usize, position: usize, semi_sync: bool) -> Vec<u8> {
        self.sends_as(first, position, semi_sync, self.checksum)
    }

    /// The same, by a source whose `binlog_checksum` is another one than its files have.
    pub(crate) fn sends_as(
        &self,
        first: usize,
        position: usize,
        semi_sync: bool,
        option: Checksum,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, file) in self.files.iter().enumerate().skip(first) {
            let checksum = if at == first { option } else { self.checksum };
            packet(&mut out, &fake_rotate(&file.name, checksum), semi_sync.then_some(false));
            let from = if at == first { position } else { MAGIC.len() };
            if from > MAGIC.len() {
                let end = file.ends[0].0;
                let mut header = Header::parse(&file.bytes[MAGIC.len()..]).unwrap();
                header.log_pos = 0;
                let mut event = Vec::new();
                build(&mut event, header, &file.bytes[MAGIC.len() + HEADER_LEN..end - 4], self.checksum);
                if self.checksum == Checksum::Off {
                    // Servers do not compute it anew then.
                    let stale = event.len() - 4;
                    event[stale..].copy_from_slice(&file.bytes[end - 4..end]);
                }
                packet(&mut out, &event, semi_sync.then_some(false));
            }
            let mut begin = MAGIC.len();
            for (number, (end, is_whole, groups)) in file.ends.iter().enumerate() {
                let before = if number == 0 { *groups } else { file.ends[number - 1].2 };
                if begin >= from {
                    let wants = *is_whole && *groups > before;
                    packet(&mut out, &file.bytes[begin..*end], semi_sync.then_some(wants));
                }
                begin = *end;
            }
        }
        out
    }

    /// How many groups there are up to this place, in all files.
    pub(crate) fn groups_at(&self, name: &str, position: u64) -> u64 {
        let file = self.files.iter().find(|file| file.name == name).unwrap();
        file.ends
            .iter()
            .filter(|(end, is_whole, _)| *is_whole && *end as u64 <= position)
            .map(|end| end.2)
            .max()
            .unwrap_or(0)
    }
}

/// The event that names the file which follows.
fn fake_rotate(name: &str, checksum: Checksum) -> Vec<u8> {
    let (mut body, mut event) = (Vec::new(), Vec::new());
    put_rotate(&mut body, Rotate { position: 4, name });
    let header = Header {
        timestamp: 0,
        kind: Kind::ROTATE,
        server_id: 1,
        size: 0,
        log_pos: 0,
        flags: FLAG_ARTIFICIAL,
    };
    build(&mut event, header, &body, checksum);
    event
}

/// The same in its packet.
pub(crate) fn rotate(name: &str, checksum: Checksum) -> Vec<u8> {
    let mut out = Vec::new();
    packet(&mut out, &fake_rotate(name, checksum), None);
    out
}

fn name(at: usize) -> String {
    format!("binlog.{:06}", at + 1)
}

fn packet(out: &mut Vec<u8>, event: &[u8], mark: Option<bool>) {
    let mut payload = vec![0];
    if let Some(wants) = mark {
        payload.extend_from_slice(&[0xef, u8::from(wants)]);
    }
    payload.extend_from_slice(event);
    put_packet(out, 1, &payload);
}

fn format_body(checksum: Checksum, created: u32) -> Vec<u8> {
    let mut body = vec![4, 0];
    let mut version = [0; 50];
    version[..5].copy_from_slice(b"9.7.4");
    body.extend_from_slice(&version);
    body.extend_from_slice(&created.to_le_bytes());
    body.push(HEADER_LEN as u8);
    body.extend_from_slice(&[0; 40]);
    body.push(u8::from(checksum == Checksum::Crc32));
    body
}

fn query(text: &str) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend_from_slice(&[3, 0, 0, 0, 0]);
    body.extend_from_slice(b"app\0");
    body.extend_from_slice(text.as_bytes());
    body
}

impl SourceFile {
    /// `groups`: how many there are with the end of this event; `None`: it ends inside of one.
    fn event(&mut self, kind: Kind, body: &[u8], checksum: Checksum, groups: Option<u64>) {
        let has_sum = kind == Kind::FORMAT_DESCRIPTION || checksum == Checksum::Crc32;
        let size = HEADER_LEN + body.len() + if has_sum { 4 } else { 0 };
        let log_pos = (self.bytes.len() + size) as u32;
        let header = Header { timestamp: BEGAN, kind, server_id: 1, size: 0, log_pos, flags: 0 };
        build(&mut self.bytes, header, body, checksum);
        let so_far = self.ends.last().map_or(0, |last| last.2);
        self.ends.push((self.bytes.len(), groups.is_some(), groups.unwrap_or(so_far)));
    }

    fn group(&mut self, kind: GroupKind, number: u64, checksum: Checksum) {
        let mut body = vec![1];
        body.extend_from_slice(&0x327e_b417_e7d4_11f1_aece_02fc_0000_0001_u128.to_be_bytes());
        body.extend_from_slice(&number.to_le_bytes());
        self.event(Kind::GTID, &body, checksum, None);
        match kind {
            GroupKind::Ddl => {
                self.event(Kind::QUERY, &query("create table t (a int)"), checksum, Some(number));
            }
            GroupKind::Payload(len) => {
                self.event(Kind::TRANSACTION_PAYLOAD, &vec![7; len], checksum, Some(number));
            }
            GroupKind::Transaction(len) => {
                self.event(Kind::QUERY, &query("BEGIN"), checksum, None);
                self.event(Kind::TABLE_MAP, &[1; 30], checksum, None);
                self.event(Kind::WRITE_ROWS, &vec![number as u8; len], checksum, None);
                self.event(Kind::XID, &[0; 8], checksum, Some(number));
            }
        }
    }
}
