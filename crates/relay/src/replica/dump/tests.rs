//! How serving a replica ends, and what it is sent meanwhile.

use delphinus_wire::binlog::{Checksum, HEADER_LEN, Header, Kind, MariaDbGtid};
use delphinus_wire::gtid::{GtidIntervals, GtidPosition};
use delphinus_wire::{HEADER_LEN as PACKET_HEADER, parse_header};

use super::super::asked::From;
use super::super::registry::{Registry, Who};
use super::read::read_at_once;
use super::*;
use crate::intake::tests::Place;
use crate::intake::tests::histories::run;
use crate::intake::tests::mariadb;
use crate::intake::tests::recovery::first_start;
use crate::intake::tests::stream::{GroupKind, Source, UUID};
use crate::intake::{Files, Start, Writer};
use crate::log::{Flavor, Origin};

fn gtid(domain: u32, server_id: u32, sequence: u64) -> MariaDbGtid {
    MariaDbGtid { domain, server_id, sequence }
}

/// How serving a MariaDB replica at this position ends, if these groups come when it has been sent all that there was.
fn end_of(position: &str, groups: &[MariaDbGtid], is_receiving: bool) -> Option<End> {
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    let mut source = mariadb::Stream::new("m.000001", gtid(0, 1, 4));
    source.group(gtid(0, 1, 5));
    writer.start(Start::New(Origin::new(Flavor::MariaDb, "server-1".to_owned())), Checksum::Off).unwrap();
    run(&mut writer, &source.sent).unwrap();
    // As when the source was connected.
    let goal = is_receiving.then(|| (log.executed(), vec![gtid(0, 1, 5)]));
    log.expect(goal);
    let position = From::Position(GtidPosition::parse(position).unwrap());
    let asked = Asked { checksum: Some(Checksum::Off), ..Asked::plain(position) };
    rt::block_on(async {
        let ground =
            Ground { catch_up: Duration::from_millis(50), ..Ground::new(log.clone(), Account::unlimited()) };
        let (mut own, _replica) = Stream::pair().unwrap();
        let entry = Arc::<Registry>::default().enter(1, Who::default());
        let mut serving = std::pin::pin!(serve(&ground, &mut own, &entry, (asked, 98)));
        let soon = Duration::from_millis(100);
        if let Some(end) = rt::timeout(soon, &mut serving).await {
            return Some(end.unwrap());
        }
        source.sent.clear();
        for group in groups {
            source.group(*group);
        }
        run(&mut writer, &source.sent).unwrap();
        ground.grown.notify_waiters();
        rt::timeout(4 * soon, serving).await.map(|end| end.unwrap())
    })
    .unwrap()
}

/// In a domain that the log does not have any place is taken. When the domain begins, and the place is not there, the replica would
/// wait for it, and get nothing of the domain.
#[test]
fn a_domain_that_begins_without_the_place_of_a_replica_ends_it() {
    let begins = [gtid(4, 1, 1), gtid(4, 1, 2)];
    let end = end_of("0-1-5,4-4-4", &begins, true);
    assert!(
        matches!(&end, Some(End::Refused(Fatal::NotInLog(place), _)) if *place == gtid(4, 4, 4)),
        "{end:?}"
    );
    let has = end_of("0-1-5,4-1-2", &begins, true);
    assert!(has.is_none(), "{has:?}");
    let other = end_of("0-1-5,4-4-4", &[gtid(5, 1, 1)], true);
    assert!(other.is_none(), "{other:?}");
    let none = end_of("0-1-5", &begins, true);
    assert!(none.is_none(), "{none:?}");
}

#[test]
fn a_replica_that_is_ahead_of_a_relay_that_lags_comes_again() {
    let final_end = end_of("0-1-9", &[], true);
    assert!(matches!(&final_end, Some(End::Refused(Fatal::NotInLog(_), _))), "{final_end:?}");
    let passing = end_of("0-1-9", &[], false);
    assert!(matches!(&passing, Some(End::Refused(fatal, _)) if fatal.is_passing()), "{passing:?}");
}

#[test]
fn a_long_head_waits_for_memory() {
    let memory = Account::new(1 << 20);
    let taken = [200 << 10, 512 << 10, 512 << 10].map(|len| room_for_head(&memory, len));
    assert_eq!(taken.each_ref().map(|room| room.as_ref().map(Permit::bytes)), [Some(0), Some(1 << 20), None]);
    assert!(Fatal::NoMemory(1).is_passing());
}

/// A replica that takes nothing has no more than its time, and none once it has come again.
#[test]
fn a_write_that_is_not_taken_ends() {
    rt::block_on(async {
        let never = std::future::pending;
        let bell = Bell::default();
        let soon = Duration::from_millis(20);
        let late = taken(never(), &bell, soon).await;
        assert!(matches!(late, Err(Stop::Net(NetError::TimedOut(20)))), "{late:?}");
        bell.ring();
        let replaced = taken(never(), &bell, Duration::from_mins(1)).await;
        assert!(matches!(replaced, Err(Stop::Replaced)), "{replaced:?}");
        assert!(taken(async { Ok(()) }, &bell, soon).await.is_ok());
    })
    .unwrap();
}

/// A log of MySQL with a large group and a small one.
fn large_and_small(place: &Place) -> Arc<Log> {
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    let source = Source::new(&[&[GroupKind::Payload(900_000), GroupKind::Ddl]], Checksum::Crc32);
    writer.start(first_start(), Checksum::Crc32).unwrap();
    run(&mut writer, &source.sends(0, 4, true)).unwrap();
    log
}

/// Kinds of the events that a replica is sent which has the large group, and wants no more than there is.
async fn kinds_sent(log: &Arc<Log>, heartbeat: Option<Duration>) -> Vec<Kind> {
    let has = GtidIntervals::parse(&format!("{UUID}:1")).unwrap();
    let asked = Asked { heartbeat, ends: true, ..Asked::plain(From::Set(has)) };
    let ground = Ground::new(log.clone(), Account::unlimited());
    let (mut own, mut theirs) = Stream::pair().unwrap();
    let entry = Arc::<Registry>::default().enter(1, Who::default());
    let end = serve(&ground, &mut own, &entry, (asked, 98)).await.unwrap();
    assert!(matches!(end, End::Sent(_)), "{end:?}");
    drop(own);
    let mut buffer = Buffer::with_capacity(1 << 16);
    loop {
        let (read, filled) = theirs.read(buffer).await;
        buffer = filled;
        if read.unwrap() == 0 {
            break;
        }
    }
    let (mut kinds, mut packets) = (Vec::new(), buffer.data());
    while let Some(frame) = parse_header(packets) {
        let event = &packets[PACKET_HEADER + 1..PACKET_HEADER + frame.len];
        assert!(event.len() >= HEADER_LEN);
        kinds.push(Header::parse(event).unwrap().kind);
        packets = &packets[PACKET_HEADER + frame.len..];
    }
    kinds
}

/// It would take the relay for dead, and come again, and never get behind what it has.
#[test]
fn a_replica_hears_that_the_relay_lives_while_much_is_left_out() {
    let place = Place::new();
    let log = large_and_small(&place);
    let signs = |heartbeat| {
        let kinds = rt::block_on(kinds_sent(&log, heartbeat)).unwrap();
        assert_eq!(kinds[kinds.len() - 2..], [Kind::GTID, Kind::QUERY]);
        kinds.iter().filter(|kind| **kind == Kind::HEARTBEAT_V2).count()
    };
    // One says where it is, before it is sent the next group.
    assert_eq!([None, Some(Duration::from_hours(1))].map(signs), [1, 1]);
    let often = signs(Some(Duration::from_nanos(1)));
    assert!(often > 2, "{often}");
}

#[test]
fn what_is_in_memory_is_served_while_others_wait_for_the_disk() {
    // In memory file systems nothing is told of that.
    let path = std::env::temp_dir().join(format!("delphinus-dump-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let place = Place(path);
    let log = large_and_small(&place);
    let reader = log.files()[0].open().unwrap();
    if read_at_once(&reader, &mut [0; 8], 0).is_none() {
        // Nor is it by this one.
        return;
    }
    let (release, hangs) = std::sync::mpsc::channel::<()>();
    let hangs = Arc::new(std::sync::Mutex::new(hangs));
    rt::block_on(async {
        // As many as the pool has threads.
        for _ in 0..2 {
            let hangs = hangs.clone();
            rt::spawn_local(async move {
                rt::compute(move || hangs.lock().unwrap().recv().is_ok()).await;
            });
        }
        rt::sleep(Duration::from_millis(10)).await;
        let sent = rt::timeout(Duration::from_secs(10), kinds_sent(&log, None)).await;
        drop(release);
        assert!(sent.is_some(), "the head of a file waits for the disk");
    })
    .unwrap();
}
