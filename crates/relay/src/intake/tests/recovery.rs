//! The process is killed, or the machine loses power, at each moment: what was acknowledged or shown is there, only whole groups are, and
//! the stream goes on to the source's own bytes.

use std::sync::Arc;

use delphinus_wire::binlog::Checksum;
use delphinus_wire::gtid::GtidSet;

use super::Place;
use super::disk::{Moment, Op, Recording, Shape};
use super::stream::{GroupKind, Source, UUID};
use crate::intake::{Ack, Disk, Files, Packets, Start, Writer};
use crate::log::{Flavor, Log, Origin, recover};

fn small(checksum: Checksum) -> Source {
    use GroupKind::{Ddl, Payload, Transaction};
    Source::new(&[&[Transaction(20), Ddl, Payload(33)], &[Transaction(9), Transaction(70)], &[Ddl]], checksum)
}

pub(crate) fn first_start() -> Start {
    Start::New(Origin::new(Flavor::MySql, UUID.to_owned()))
}

/// Feeds what the source sends, in pieces of these sizes, as the receiver does; after each piece what is whole is committed.
pub(crate) fn feed<D: Disk>(
    writer: &mut Writer<D>,
    sent: &[u8],
    mut size: impl FnMut() -> usize,
    mut done: impl FnMut(&mut Writer<D>, Option<Ack>),
) {
    let (mut packets, mut buffer, mut sent) = (Packets::default(), Vec::new(), sent);
    while !sent.is_empty() {
        let (piece, rest) = sent.split_at(size().clamp(1, sent.len()));
        sent = rest;
        buffer.extend_from_slice(piece);
        loop {
            let (used, piece) = packets.next(&buffer).unwrap();
            if let Some(piece) = piece {
                writer.take(piece).unwrap();
            }
            if used == 0 {
                break;
            }
            buffer.drain(..used);
        }
        writer.commit().unwrap();
        let ack = writer.take_due();
        done(writer, ack);
    }
    assert!(buffer.is_empty());
}

/// A small stream of random numbers.
fn sizes(mut seed: u64, most: usize) -> impl FnMut() -> usize {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (seed >> 33) as usize % most
    }
}

fn groups_of(log: &Log) -> u64 {
    let text = log.executed().to_string();
    let number = text.rsplit(['-', ':']).next().unwrap_or_default();
    number.parse().unwrap_or_default()
}

/// Runs the stream once, and gives what was done to the disk.
fn record(source: &Source, place: &Place, (seed, most): (u64, usize)) -> Vec<Op> {
    let log = Arc::new(Log::new(&place.0));
    let disk = Recording::default();
    let mut writer = Writer::new(log.clone(), disk.clone());
    writer.start(first_start(), source_checksum(source)).unwrap();
    feed(&mut writer, &source.sends(0, 4, true), sizes(seed, most), |_, ack| {
        disk.note(Op::Published(groups_of(&log)));
        if let Some(ack) = ack {
            disk.note(Op::Acknowledged(source.groups_at(&ack.file.name, ack.position)));
        }
    });
    for file in log.files().iter() {
        let theirs = source.files.iter().find(|theirs| *theirs.name == *file.name).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), theirs.bytes);
    }
    assert_eq!(log.files().len(), source.files.len());
    disk.0.take()
}

fn source_checksum(source: &Source) -> Checksum {
    let head = crate::log::read_head(&source.files[0].bytes).unwrap();
    head.format.checksum
}

/// Recovers what is in the folder, and says what is wrong with it.
fn look(source: &Source, place: &Place, moment: &Moment) -> Result<Arc<Log>, String> {
    let log = recover(&place.0).map_err(|error| error.to_string())?.log;
    let groups = groups_of(&log);
    if groups < moment.acknowledged {
        return Err(format!("{} were acknowledged, {groups} are there", moment.acknowledged));
    }
    if groups < moment.published {
        return Err(format!("{} were shown, {groups} are there", moment.published));
    }
    for file in log.files().iter() {
        let bytes = std::fs::read(file.path()).map_err(|error| error.to_string())?;
        let theirs =
            source.files.iter().find(|theirs| *theirs.name == *file.name).ok_or("a file of no source")?;
        if !theirs.bytes.starts_with(&bytes) {
            return Err(format!("{} has other bytes than the source's", file.name));
        }
        if !theirs.ends.iter().any(|(end, is_whole, _)| *is_whole && *end == bytes.len()) {
            return Err(format!("{} ends at {}, inside of a group", file.name, bytes.len()));
        }
    }
    let last = log.files().last().map(|file| source.groups_at(&file.name, file.len()));
    if last.unwrap_or(0) != groups {
        return Err(format!("files have {last:?} groups, the set has {groups}"));
    }
    Ok(log)
}

/// Goes on from where the log ends, to the source's own bytes.
fn go_on(source: &Source, log: &Arc<Log>) {
    let mut writer = Writer::new(log.clone(), Files);
    let (first, position, start) = match log.end() {
        None => (0, 4, first_start()),
        Some(end) => {
            let name = log.file(end.ordinal).unwrap().name.clone();
            let first = source.files.iter().position(|file| *file.name == *name).unwrap();
            (first, end.offset as usize, Start::Resume(end.offset))
        }
    };
    writer.start(start, source_checksum(source)).unwrap();
    feed(&mut writer, &source.sends(first, position, true), || 100, |_, _| {});
}

fn is_same(source: &Source, log: &Log) -> bool {
    let files = log.files();
    let pairs = files.iter().zip(&source.files);
    files.len() == source.files.len()
        && pairs
            .into_iter()
            .all(|(own, theirs)| std::fs::read(own.path()).is_ok_and(|own| own == theirs.bytes))
}

fn same(source: &Source, log: &Log) {
    let files = log.files();
    assert_eq!(files.len(), source.files.len());
    for (own, theirs) in files.iter().zip(&source.files) {
        assert_eq!(std::fs::read(own.path()).unwrap(), theirs.bytes, "{}", own.name);
    }
}

/// All that may be left of each file at a moment: with its name or without, cut anywhere behind what is certain, or with zeros there.
/// Without checksums zeros cannot be told from events: file systems that leave them are not for logs without checksums.
fn each_crash((root, step, has_sums): (&Place, usize, bool), moment: &Moment, mut see: impl FnMut(Place)) {
    let torn = moment.files.values().map(|shape| shape.bytes.len() - shape.synced).max().unwrap_or(0);
    for cut in (0..=torn).step_by(step).chain([torn]) {
        for zeros in [false, true] {
            if zeros && (cut == torn || !has_sums) {
                continue;
            }
            for keeps_names in [true, false] {
                if !keeps_names && moment.files.values().all(|shape| shape.is_named) {
                    continue;
                }
                let left = |shape: &Shape| {
                    let end = (shape.synced + cut).min(shape.bytes.len());
                    let mut bytes = shape.bytes[..end].to_vec();
                    if zeros {
                        bytes.resize(shape.bytes.len(), 0);
                    }
                    (keeps_names || shape.is_named).then_some(bytes)
                };
                let place = Place::new();
                moment.leave((&root.0, &place.0), left);
                see(place);
            }
        }
    }
}

/// Every moment of a run, and every way to lose what was not certain: all faults that are found.
fn faults(source: &Source, (root, step): (&Place, usize), ops: &[Op]) -> (usize, Vec<String>) {
    let has_sums = source_checksum(source) == Checksum::Crc32;
    let (mut moment, mut crashes, mut found) = (Moment::default(), 0, Vec::new());
    for (number, op) in ops.iter().enumerate() {
        moment.after(op);
        each_crash((root, step, has_sums), &moment, |place| {
            if !found.is_empty() {
                return;
            }
            crashes += 1;
            match look(source, &place, &moment) {
                Err(fault) => found.push(format!("after {number} ({op:?}): {fault}")),
                Ok(log) if crashes % 16 == 0 => {
                    go_on(source, &log);
                    if !is_same(source, &log) {
                        found.push(format!("after {number} ({op:?}): what follows is not the source's"));
                    }
                }
                Ok(_) => {}
            }
        });
    }
    (crashes, found)
}

#[test]
fn nothing_that_was_acknowledged_or_shown_is_lost() {
    let mut all = 0;
    for (checksum, seed, most, step) in [
        (Checksum::Crc32, 1, 120, 1),
        (Checksum::Crc32, 2, 400, 5),
        (Checksum::Off, 3, 200, 3),
        (Checksum::Crc32, 4, 5000, 11),
    ] {
        let source = small(checksum);
        let root = Place::new();
        let ops = record(&source, &root, (seed, most));
        let (crashes, found) = faults(&source, (&root, step), &ops);
        assert!(found.is_empty(), "crash {crashes}: {found:?}");
        all += crashes;
    }
    assert!(all > 1000, "{all}");
}

#[test]
fn the_simulation_sees_what_is_planted() {
    let source = small(Checksum::Crc32);
    let root = Place::new();
    let ops = record(&source, &root, (1, 90));
    // A disk that does not sync.
    let lying: Vec<_> = ops.iter().filter(|op| !matches!(op, Op::Sync(_))).cloned().collect();
    assert!(!faults(&source, (&root, 3), &lying).1.is_empty());
    // Names that are not synced.
    let nameless: Vec<_> = ops.iter().filter(|op| !matches!(op, Op::SyncFolder(_))).cloned().collect();
    assert!(!faults(&source, (&root, 3), &nameless).1.is_empty());
    // An acknowledgement before its sync.
    let mut early = ops.clone();
    let ack = early.iter().position(|op| matches!(op, Op::Acknowledged(_))).unwrap();
    let op = early.remove(ack);
    let sync = early[..ack].iter().rposition(|op| matches!(op, Op::Sync(_))).unwrap();
    early.insert(sync, op);
    assert!(!faults(&source, (&root, 3), &early).1.is_empty());
}

#[test]
fn a_file_cut_anywhere_is_whole_groups() {
    let source = small(Checksum::Crc32);
    let root = Place::new();
    record(&source, &root, (5, 5000));
    for cut in 0..=source.files[0].bytes.len() {
        let place = Place::new();
        let log = recover(&root.0).unwrap().log;
        let folder = log.files()[0].folder.path.clone();
        let target = place.0.join(folder.file_name().unwrap());
        std::fs::create_dir_all(&target).unwrap();
        std::fs::copy(folder.join("source.toml"), target.join("source.toml")).unwrap();
        std::fs::write(target.join(&source.files[0].name), &source.files[0].bytes[..cut]).unwrap();
        drop(log);
        let log = look(&source, &place, &Moment::default()).unwrap();
        if cut % 32 == 0 {
            go_on(&source, &log);
            same(&source, &log);
        }
    }
}

#[test]
fn damage_in_a_closed_file_is_said() {
    let source = small(Checksum::Crc32);
    let root = Place::new();
    record(&source, &root, (6, 5000));
    let log = recover(&root.0).unwrap().log;
    std::fs::write(log.files()[0].path(), b"nonsense").unwrap();
    drop(log);
    let error = recover(&root.0).unwrap_err().to_string();
    assert!(error.contains("was whole once"), "{error}");
}

#[test]
fn one_process_has_the_folder() {
    let root = Place::new();
    let held = recover(&root.0).unwrap();
    assert!(recover(&root.0).unwrap_err().to_string().contains("another process"));
    drop(held);
    recover(&root.0).unwrap();
}

/// Events and groups that are larger than all buffers are written on the way, and shown when they are whole; what was written of one that
/// never ends is cut off.
#[test]
fn large_groups_are_written_on_the_way() {
    use GroupKind::{Ddl, Payload, Transaction};
    for checksum in [Checksum::Crc32, Checksum::Off] {
        let large: &[GroupKind] = &[Ddl, Transaction(3 << 20), Payload(2_500_000), Payload(17 << 20), Ddl];
        let source = Source::new(&[large, &[Ddl]], checksum);
        let root = Place::new();
        let log = Arc::new(Log::new(&root.0));
        let mut writer = Writer::new(log.clone(), Recording::default());
        writer.start(first_start(), checksum).unwrap();
        let mut most = 0;
        feed(&mut writer, &source.sends(0, 4, false), sizes(7, 300_000), |writer, _| {
            most = most.max(writer.buffered());
            let end = log.end();
            if let Some(end) = end {
                let file = log.file(end.ordinal).unwrap();
                let theirs = &source.files[end.ordinal as usize];
                assert!(theirs.ends.iter().any(|(at, is_whole, _)| *is_whole && *at as u64 == end.offset));
                assert!(std::fs::metadata(file.path()).unwrap().len() >= end.offset);
            }
        });
        assert!(most < 3 << 20, "{most}");
        same(&source, &log);

        let cut = Place::new();
        let log = Arc::new(Log::new(&cut.0));
        let mut writer = Writer::new(log.clone(), Files);
        writer.start(first_start(), checksum).unwrap();
        let sent = source.sends(0, 4, false);
        // In the middle of the first large event.
        feed_part(&mut writer, &sent[..2 << 20]);
        let end = log.end().unwrap();
        let path = log.file(end.ordinal).unwrap().path();
        assert!(std::fs::metadata(&path).unwrap().len() > end.offset + (1 << 20));
        writer.stop().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), end.offset);
        go_on(&source, &log);
        same(&source, &log);
    }
}

fn feed_part<D: Disk>(writer: &mut Writer<D>, sent: &[u8]) {
    let (mut packets, mut rest) = (Packets::default(), sent);
    loop {
        let (used, piece) = packets.next(rest).unwrap();
        if let Some(piece) = piece {
            writer.take(piece).unwrap();
        }
        writer.commit().unwrap();
        if used == 0 {
            return;
        }
        rest = &rest[used..];
    }
}

/// From the file's begin, where a position cannot be asked for: what is here already is passed over.
#[test]
fn what_comes_again_is_passed_over() {
    let source = small(Checksum::Crc32);
    let root = Place::new();
    record(&source, &root, (8, 5000));
    let log = recover(&root.0).unwrap().log;
    // The last group of the last file is lost.
    let last = log.files().last().unwrap().clone();
    let theirs = source.files.last().unwrap();
    drop(log);
    std::fs::write(last.path(), &theirs.bytes[..theirs.ends[1].0]).unwrap();
    let log = recover(&root.0).unwrap().log;
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(Start::Resume(4), Checksum::Crc32).unwrap();
    feed(&mut writer, &source.sends(source.files.len() - 1, 4, true), || 50, |_, _| {});
    same(&source, &log);
    assert_eq!(log.executed(), GtidSet::parse(&format!("{UUID}:1-6")).unwrap());
    // The source has started again and waits for what the relay has: nothing else may come as long as it does.
    let (end, mut acks) = (log.end().unwrap(), Vec::new());
    writer.stop().unwrap();
    writer.start(Start::Resume(4), Checksum::Crc32).unwrap();
    feed(&mut writer, &source.sends(source.files.len() - 1, 4, true), || 50, |_, ack| acks.extend(ack));
    assert_eq!(acks.last().map(|ack| ack.position), Some(end.offset));
    assert_eq!(log.end(), Some(end));
}

/// A source whose positions do not follow one another, or that ends a file inside of a group, is not believed.
#[test]
fn gaps_and_nonsense_end_the_stream() {
    let source = small(Checksum::Crc32);
    let sent = source.sends(0, 4, true);
    let run = |sent: &[u8]| {
        let place = Place::new();
        let mut writer = Writer::new(Arc::new(Log::new(&place.0)), Files);
        writer.start(first_start(), Checksum::Crc32).unwrap();
        let (mut packets, mut rest) = (Packets::default(), sent);
        loop {
            let (used, piece) = packets.next(rest)?;
            if let Some(piece) = piece {
                writer.take(piece)?;
            }
            if used == 0 {
                return Ok::<_, crate::intake::IntakeError>(());
            }
            rest = &rest[used..];
        }
    };
    run(&sent).unwrap();
    // Without one event after the other, but for the last one and for those made for the connection.
    let mut at = 0;
    let (mut failed, mut passed) = (0, 0);
    while at < sent.len() {
        let len = 4 + u32::from_le_bytes([sent[at], sent[at + 1], sent[at + 2], 0]) as usize;
        let without = [&sent[..at], &sent[at + len..]].concat();
        if run(&without).is_err() {
            failed += 1;
        } else {
            passed += 1;
        }
        at += len;
    }
    assert!(failed > 20 && passed <= 4, "{failed} {passed}");
    for (error, text) in [
        (&b"\x09\0\0\x01\xff\xd4\x04#HY000"[..], "1236"),
        (&b"\x05\0\0\x01\xfe\0\0\0\0"[..], "ended the stream"),
        (&b"\x01\0\0\x01\x07"[..], "no event"),
    ] {
        let said = run(error).unwrap_err().to_string();
        assert!(said.contains(text), "{said}");
    }
}
