//! A disk that refuses something once, and a source that sends without end: what was not shown does not come back, and memory has a bound.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_wire::binlog::{Checksum, Header, Kind};

use super::Place;
use super::recovery::first_start;
use super::stream::{GroupKind, Source, UUID, rotate};
use crate::intake::{Disk, Files, IntakeError, Packets, Start, Writer};
use crate::log::{Flavor, Log, Origin, recover};

/// What is refused next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Nothing,
    Names,
    Opening,
}

#[derive(Clone)]
struct Refusing(Rc<Cell<Refused>>);

impl Refusing {
    fn new() -> Self {
        Self(Rc::new(Cell::new(Refused::Nothing)))
    }

    fn asked(&self, what: Refused) -> io::Result<()> {
        if self.0.get() == what { Err(io::Error::other("refused")) } else { Ok(()) }
    }
}

impl Disk for Refusing {
    fn create(&mut self, path: &Path) -> io::Result<File> {
        Files.create(path)
    }

    fn open(&mut self, path: &Path, len: u64) -> io::Result<File> {
        self.asked(Refused::Opening)?;
        Files.open(path, len)
    }

    fn write(&mut self, file: &File, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        Files.write(file, path, offset, bytes)
    }

    fn sync(&mut self, file: &File, path: &Path) -> io::Result<()> {
        Files.sync(file, path)
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        self.asked(Refused::Names)?;
        Files.sync_folder(path)
    }

    fn room(&mut self, folder: &Path) -> io::Result<u64> {
        Files.room(folder)
    }
}

fn run<D: Disk>(writer: &mut Writer<D>, sent: &[u8]) -> Result<(), IntakeError> {
    let (mut packets, mut rest) = (Packets::default(), sent);
    loop {
        let (used, piece) = packets.next(rest)?;
        if let Some(piece) = piece {
            writer.take(piece)?;
        }
        if used == 0 {
            return writer.commit();
        }
        rest = &rest[used..];
    }
}

const TWO: &[GroupKind] = &[GroupKind::Ddl, GroupKind::Ddl];

#[test]
fn a_file_whose_name_was_not_durable_goes_again() {
    let source = Source::new(&[TWO, TWO], Checksum::Crc32);
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let disk = Refusing::new();
    let mut writer = Writer::new(log.clone(), disk.clone());
    writer.start(first_start(), Checksum::Crc32).unwrap();
    let sent = source.sends(0, 4, true);
    let next = rotate("binlog.000002", Checksum::Crc32);
    let border = sent.windows(next.len()).position(|window| window == next).unwrap_or(sent.len() / 2);
    run(&mut writer, &sent[..border]).unwrap();
    disk.0.set(Refused::Names);
    run(&mut writer, &sent[border..]).unwrap_err();
    writer.stop().unwrap();
    assert_eq!(log.files().len(), 1);
    drop(writer);
    let recovered = recover(&place.0).unwrap().log;
    assert_eq!(recovered.executed().to_string(), format!("{UUID}:1-2"), "nobody was shown more");
}

#[test]
fn what_was_not_shown_of_the_last_source_does_not_come_back() {
    let first = Source::new(&[&[GroupKind::Ddl, GroupKind::Transaction(3 << 20)]], Checksum::Crc32);
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let disk = Refusing::new();
    let mut writer = Writer::new(log.clone(), disk.clone());
    writer.start(first_start(), Checksum::Crc32).unwrap();
    let sent = first.sends(0, 4, true);
    run(&mut writer, &sent[..sent.len() - (1 << 20)]).unwrap();
    let end = log.end().unwrap();
    let path = log.file(end.ordinal).unwrap().path();
    disk.0.set(Refused::Opening);
    writer.stop().unwrap_err();
    assert!(std::fs::metadata(&path).unwrap().len() > end.offset);
    // The next primary has not got that group.
    let start = || Start::New(Origin::new(Flavor::MySql, "other".to_owned()));
    assert!(writer.start(start(), Checksum::Crc32).is_err(), "not before that is cut off");
    disk.0.set(Refused::Nothing);
    writer.start(start(), Checksum::Crc32).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), end.offset);
}

/// An event that says less of its length than its packets: it is refused, and not kept.
#[test]
fn an_event_that_goes_on_behind_its_end_is_refused() {
    let source = Source::new(&[&[GroupKind::Ddl]], Checksum::Off);
    let place = Place::new();
    let mut writer = Writer::new(Arc::new(Log::new(&place.0)), Files);
    writer.start(first_start(), Checksum::Off).unwrap();
    run(&mut writer, &source.sends(0, 4, true)).unwrap();
    let size = 0x00ff_fffe;
    let log_pos = source.files[0].bytes.len() as u32 + size;
    let mut front = vec![0];
    let header = Header { timestamp: 1, kind: Kind::WRITE_ROWS, server_id: 1, size, log_pos, flags: 0 };
    header.put(&mut front);
    front.resize(0x00ff_ffff, 7);
    let mut sent = Vec::new();
    for payload in [&front, &vec![7; 0x00ff_ffff]] {
        sent.extend_from_slice(&[0xff, 0xff, 0xff, 1]);
        sent.extend_from_slice(payload);
    }
    let (mut packets, mut given, mut arrived) = (Packets::bare(), 0, 0);
    let error = loop {
        arrived = sent.len().min(arrived + (64 << 10));
        let (used, piece) = packets.next(&sent[given..arrived]).unwrap();
        given += used;
        if let Some(piece) = piece
            && let Err(error) = writer.take(piece)
        {
            break error;
        }
        assert!(given < sent.len(), "all of it was taken");
    };
    assert!(error.to_string().contains("another length"), "{error}");
    assert!(given < size as usize + (2 << 20), "{given}");
}
