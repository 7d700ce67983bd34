//! Names of backends that lead elsewhere.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use delphinus_monitor::Settings;
use delphinus_net::{Address, Resolver};
use delphinus_topology::Kind;

use crate::peer::{Character, Peer, mysql};
use crate::stage::{Stage, eventually, play, settings};

/// A name server of our own that knows one name.
#[derive(Clone, Default)]
struct Name(Rc<RefCell<Vec<IpAddr>>>);

impl Name {
    fn leads_to(&self, addresses: &[&str]) {
        *self.0.borrow_mut() = addresses.iter().map(|text| text.parse().unwrap()).collect();
    }

    fn settings(&self, port: u16, kind: Kind) -> Settings {
        let known = self.0.clone();
        let answer = move |_: &str| match known.borrow().as_slice() {
            [] => Err(io::ErrorKind::NotFound.into()),
            all => Ok(all.to_vec()),
        };
        let resolver = Resolver::Own(Rc::new(answer));
        let addresses = vec![Address::Tcp("db.invalid".to_owned(), port)];
        let mut settings = Settings { kind, resolver, ..settings(addresses) };
        settings.tune(|tuning| tuning.dns_interval = Duration::from_millis(10));
        settings
    }
}

/// Two servers at one port.
fn pair(other: Character) -> (Peer, Peer, u16) {
    let one = Peer::start(mysql());
    let Address::Tcp(_, port) = one.dial_address() else { panic!("not TCP") };
    (one, Peer::start_at(&format!("127.0.0.2:{port}"), other), port)
}

#[test]
fn a_name_that_leads_elsewhere_is_another_server() {
    for kind in [Kind::ReadOnly, Kind::Static] {
        play(|log| async move {
            let (one, other, port) = pair(Character { read_only: "1", version: "8.4.0", ..mysql() });
            let name = Name::default();
            name.leads_to(&["127.0.0.1"]);
            let mut stage = Stage::new(name.settings(port, kind), log);
            stage.until("a writer", |snapshot| snapshot.writer().is_ok() && snapshot.facts.is_some()).await;
            assert_eq!(other.counters.connections.get(), 0);
            name.leads_to(&["127.0.0.2"]);
            let is_other = |snapshot: &delphinus_topology::Snapshot| {
                snapshot.backends[0].facts.as_ref().is_some_and(|facts| facts.version == "8.4.0")
            };
            let snapshot = stage.until("the other server", is_other).await;
            // What the first one was counts no more.
            assert!(snapshot.backends[0].read_only);
            assert_eq!(snapshot.primary().is_some(), kind == Kind::Static);
            eventually("a goodbye", || one.counters.quits.get() == 1).await;
            let probes = one.counters.probes.get();
            let until = other.counters.probes.get() + 5;
            eventually("more probes", || other.counters.probes.get() >= until).await;
            assert_eq!((one.counters.probes.get(), one.counters.aborted.get()), (probes, 0));
            assert_eq!(stage.log.count("resolves to another address now"), 1, "{:?}", stage.log.lines());
            stage.stop().await;
        });
    }
}

#[test]
fn a_name_that_leads_nowhere_keeps_its_address() {
    play(|log| async move {
        let (one, other, port) = pair(mysql());
        let name = Name::default();
        name.leads_to(&["127.0.0.1"]);
        let mut stage = Stage::new(name.settings(port, Kind::Static), log);
        stage.until("up", |snapshot| snapshot.backends[0].is_up()).await;
        name.leads_to(&[]);
        eventually("a word of it", || stage.log.count("cannot be looked up") == 1).await;
        let until = one.counters.probes.get() + 10;
        eventually("more probes", || one.counters.probes.get() >= until).await;
        assert!(stage.reader.load().backends[0].is_up());
        assert_eq!(stage.log.count("cannot be looked up"), 1);
        // One more address is no move, either.
        name.leads_to(&["127.0.0.2", "127.0.0.1"]);
        eventually("a word of it", || stage.log.count("can be looked up again") == 1).await;
        let until = one.counters.probes.get() + 10;
        eventually("more probes", || one.counters.probes.get() >= until).await;
        assert_eq!(other.counters.connections.get(), 0);
        stage.stop().await;
    });
}
