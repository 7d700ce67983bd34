//! A relay behind a relay, both in this process, with a source that the test plays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_memory::Owner;
use delphinus_net::{Address, ListenAddress, Reach};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{Credential, Password};
use delphinus_wire::binlog::Checksum;
use delphinus_wire::handshake::TlsMode;

use super::*;
use crate::intake::Start;
use crate::intake::tests::Place;
use crate::intake::tests::histories::run;
use crate::intake::tests::mariadb::{Stream, gtid};
use crate::intake::tests::stream::{GroupKind, Source, UUID};
use crate::log::Flavor;
use crate::log::Origin;
use crate::replica::{Door, Identity, ReplicaUser, Serving, serve};

const PASSWORD: &[u8] = b"a long password";

fn door(place: &Place, log: &Arc<Log>, memory: &Account) -> Serving {
    let credential = Credential::Plain(Password::new(PASSWORD));
    let door = Door {
        addresses: vec![ListenAddress::Unix(place.0.join("door"), 0o600)],
        tls_mode: TlsMode::Disabled,
        tls: None,
        compression: Capabilities::default(),
        must_compress: false,
        rsa_key: None,
        users: vec![ReplicaUser { name: "repl".to_owned(), credential }],
        max_connections: 8,
        threads: 1,
    };
    let identity = Identity { server_id: 98, uuid: uuid_text(98) };
    serve("near", log, (identity, &Arc::default()), door, memory).unwrap()
}

fn behind(place: &Place, memory: &Account) -> Relay {
    Relay::start(settings(place), memory).unwrap()
}

fn settings(place: &Place) -> Settings {
    let reach = Reach::default();
    let address = Address::Unix(place.0.join("door"));
    let target = Target { name: "near".to_owned(), address, reach, host: "near".to_owned() };
    Settings {
        name: "far".to_owned(),
        folder: place.0.join("far"),
        source: Some(target),
        user: "repl".to_owned(),
        password: Password::new(PASSWORD),
        server_id: 99,
        uuid: None,
        semi_sync: false,
        from_oldest: true,
        heartbeat: Duration::from_secs(1),
        retry: Duration::from_millis(50),
        limit: Duration::from_secs(10),
        is_started: true,
    }
}

/// Waits until the relay has as much as the log that it follows.
fn catch_up(relay: &Relay, log: &Log) {
    let began = Instant::now();
    while relay.log().executed() != log.executed() {
        let told = relay.status().told();
        assert!(began.elapsed() < Duration::from_mins(1), "{} {:?}", relay.log().executed(), told);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Takes in what each primary sends, one after the other, and sees what is behind a relay that follows.
fn follow(streams: &[(Start, Vec<u8>)]) {
    let (place, memory) = (Place::new(), Account::unlimited());
    let log = Arc::new(Log::new(&place.0.join("near")));
    std::fs::create_dir(place.0.join("near")).unwrap();
    let mut writer = Writer::new(log.clone(), Files);
    let (mut serving, mut relay) = (None, None);
    for (start, sent) in streams {
        writer.stop().unwrap();
        writer.start(start.clone(), Checksum::Off).unwrap();
        run(&mut writer, sent).unwrap();
        serving.get_or_insert_with(|| door(&place, &log, &memory));
        catch_up(relay.get_or_insert_with(|| behind(&place, &memory)), &log);
    }
    let relay = relay.unwrap();
    let (own, theirs) = (relay.log().files(), log.files());
    let named = |files: &[Arc<crate::log::LogFile>]| -> Vec<_> {
        files.iter().map(|file| (file.folder.number, file.name.clone())).collect()
    };
    assert_eq!(named(&own), named(&theirs));
    for (own, theirs) in own.iter().zip(theirs.iter()) {
        let (own, theirs) = (own.path(), theirs.path());
        assert_eq!(std::fs::read(&own).unwrap(), std::fs::read(&theirs).unwrap(), "{}", own.display());
    }
    // Two buffers of the source, and one of what a replica was sent, which waits for the next one.
    let (of_source, of_replica) = (2 * ((1 << 20) + (64 << 10)), 256 << 10);
    let used = memory.used_by(Owner::Relay);
    assert!(used >= of_source + of_replica, "{used}");
    rt::block_on(relay.end()).unwrap();
    drop(relay);
    assert!(memory.used_by(Owner::Relay) <= used - of_source, "what the source took is not given back");
    serving.unwrap().stop();
    assert_eq!(memory.used_by(Owner::Relay), 0);
}

#[test]
fn a_restarted_relay_follows_whom_a_move_has_named() {
    let (place, memory) = (Place::new(), Account::unlimited());
    let target = |relay: &Relay| relay.target().map(|target| (target.name, target.address.to_string()));
    let own = format!("unix:{}", place.0.join("door").display());
    let relay = behind(&place, &memory);
    assert_eq!(target(&relay), Some(("near".to_owned(), own)));
    let told = rt::block_on(async {
        let epoch = relay.cut(CutBy::Move, Some(relay.epoch().epoch)).await.unwrap().unwrap();
        let next = relay.settings().source.clone().unwrap();
        let next = next.at("db2".to_owned(), Address::Tcp("::1".to_owned(), 1));
        assert_eq!(relay.cut(CutBy::Move, Some(epoch - 1)).await.unwrap(), None, "a word of before");
        assert!(!relay.turn(next.clone(), "server-2", epoch - 1).await.unwrap());
        assert!(relay.turn(next.clone(), "server-2", epoch).await.unwrap());
        relay.end().await;
        (next, epoch)
    });
    let (next, epoch) = told.unwrap();
    drop(relay);
    let relay = behind(&place, &memory);
    let turned = Some(("db2".to_owned(), "[::1]:1".to_owned()));
    assert_eq!(target(&relay), turned);
    rt::block_on(async {
        // The process has ended before its answer: the word comes again.
        assert!(relay.turn(next, "server-2", epoch).await.unwrap());
        assert_eq!((target(&relay), relay.epoch().epoch), (turned, epoch + 1));
        relay.end().await;
    })
    .unwrap();
}

/// The disk of one relay hangs. Its own words wait for it; those for another relay of the process do not.
#[test]
fn a_disk_that_hangs_holds_up_no_cut_of_another_relay() {
    let (places, memory) = ([Place::new(), Place::new()], Account::unlimited());
    let [hanging, other] = places
        .each_ref()
        .map(|place| Relay::start(Settings { is_started: false, ..settings(place) }, &memory).unwrap());
    let (release, hangs) = std::sync::mpsc::channel::<()>();
    let hangs = Arc::new(std::sync::Mutex::new(hangs));
    rt::block_on(async {
        for _ in 0..2 {
            let hangs = hangs.clone();
            let waits = hanging.at_disk(move |_| {
                let _ = hangs.lock().unwrap().recv();
                Ok(())
            });
            assert!(rt::timeout(Duration::from_millis(20), waits).await.is_none());
        }
        let cut = other.cut(CutBy::Move, None).await;
        drop(release);
        assert_eq!(cut.unwrap(), Some(1));
        assert_eq!(hanging.cut(CutBy::Move, None).await.unwrap(), Some(1), "its disk answers again");
        hanging.end().await;
        other.end().await;
    })
    .unwrap();
}

/// The folder of a relay that a move has turned to a server at this address, in place of the one at `instead_of`.
fn turned_to(place: &Place, address: &str, instead_of: &str) -> Fence {
    let folder = place.0.join("far");
    std::fs::create_dir_all(&folder).unwrap();
    let fence = Fence::open(&folder).unwrap();
    let turned =
        Turned { name: "db2".to_owned(), address: address.to_owned(), instead_of: instead_of.to_owned() };
    fence.admit_in(fence.epoch().epoch, (Some("server-2"), Some(turned)), || {}).unwrap().unwrap();
    fence
}

/// The source that the section has: at each start another.
fn begins_with(place: &Place, source: &str) -> (String, Option<Turned>) {
    let mut settings = settings(place);
    let own = settings.source.take().unwrap();
    settings.source = Some(own.at("own".to_owned(), source.parse().unwrap()));
    settings.is_started = false;
    let relay = Relay::start(settings, &Account::unlimited()).unwrap();
    let found = (relay.target().unwrap().address.to_string(), Fence::open(&place.0.join("far")).unwrap());
    rt::block_on(relay.end()).unwrap();
    (found.0, found.1.epoch().turned)
}

#[test]
fn a_section_with_another_source_ends_what_a_move_has_said_for_good() {
    let place = Place::new();
    let epoch = turned_to(&place, "b:3306", "a:3306").epoch();
    assert_eq!(begins_with(&place, "a:3306"), ("b:3306".to_owned(), epoch.turned.clone()));
    assert_eq!(begins_with(&place, "c:3306"), ("c:3306".to_owned(), None));
    assert_eq!(begins_with(&place, "a:3306"), ("a:3306".to_owned(), None), "it follows b again");
    let kept = Fence::open(&place.0.join("far")).unwrap().epoch();
    assert_eq!(kept, crate::fence::Epoch { turned: None, ..epoch });
}

#[test]
fn where_a_move_has_turned_it_to_that_cannot_be_read_it_follows_its_section() {
    let place = Place::new();
    turned_to(&place, "b", "a:3306");
    assert_eq!(begins_with(&place, "a:3306"), ("a:3306".to_owned(), None));
}

#[test]
fn a_relay_behind_a_relay_goes_on_after_a_change_of_primary() {
    let one: &[GroupKind] = &[GroupKind::Ddl];
    let first = Source::new(&[one, one, one], Checksum::Off);
    let second = Source::after(2, &[&[GroupKind::Ddl, GroupKind::Ddl]], Checksum::Off);
    // Its files have larger numbers than those of the second.
    let third = Source::after(4, &[one, one], Checksum::Off);
    let start = |identity: &str| Start::New(Origin::new(Flavor::MySql, identity.to_owned()));
    follow(&[
        (start(UUID), first.sends(0, 4, true)),
        (start("327eb417-e7d4-11f1-aece-02fc00000002"), second.sends(0, 4, true)),
        (start("327eb417-e7d4-11f1-aece-02fc00000003"), third.sends(0, 4, true)),
    ]);
}

#[test]
fn a_relay_behind_a_relay_goes_on_after_a_change_of_mariadbs_primary() {
    let stream = |name: &str, groups: std::ops::RangeInclusive<u64>| {
        let mut stream = Stream::new(name, gtid(1, groups.start() - 1));
        groups.for_each(|sequence| stream.group(gtid(1, sequence)));
        stream.sent
    };
    let start = |identity: &str| Start::New(Origin::new(Flavor::MariaDb, identity.to_owned()));
    follow(&[
        (start("server-1"), stream("m.000002", 90..=100)),
        (start("server-2"), stream("m.000001", 99..=101)),
        (start("server-3"), stream("m.000007", 101..=103)),
    ]);
}
