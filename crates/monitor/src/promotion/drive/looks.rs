//! How the relays stand. All are asked at the same time, each in a task of its own: a listener that hangs keeps whoever looks for a short
//! while only, and once. What it answers later is of an earlier moment, and does not count. This file knows nothing of moves.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt::{self, oneshot};
use delphinus_topology::promotion::{Relay, RelayId};

use super::super::relays::Relays;

/// Where servers have to be looked at again soon: so long the answers are waited for.
pub(super) const BRIEFLY: Duration = Duration::from_millis(500);

/// The questions to them.
pub(super) struct Looks {
    relays: Rc<dyn Relays>,
    known: Vec<Known>,
}

/// What is kept of one.
struct Known {
    /// As it was last.
    relay: Relay,
    /// A question that it has not answered in time.
    late: Option<oneshot::Receiver<Relay>>,
}

impl Looks {
    pub(super) fn new(relays: Rc<dyn Relays>) -> Self {
        Self { relays, known: Vec::new() }
    }

    /// How those of these names stand, in their order. `patience`: so long the answers are waited for; `None`: for as long as each may
    /// take.
    pub(super) async fn look(&mut self, names: &[String], patience: Option<Duration>) -> Vec<Relay> {
        let mut ask = |(name, number): (&String, u16)| {
            let before = self.known.iter_mut().find(|known| *known.relay.name == **name);
            // Whoever looks may be broken off: what is known of it stays here.
            let (relay, late) = before
                .map_or_else(|| (unasked(name), None), |known| (known.relay.clone(), known.late.take()));
            let known = Known { relay: Relay { id: RelayId(number), ..relay }, late };
            let asked: Pin<Box<dyn Future<Output = Known>>> =
                Box::pin(known.ask(self.relays.clone(), patience));
            asked
        };
        let asked = names.iter().zip(0..).map(&mut ask).collect();
        self.known = rt::all(asked).await;
        self.known.iter().map(|known| known.relay.clone()).collect()
    }
}

impl Known {
    async fn ask(mut self, relays: Rc<dyn Relays>, patience: Option<Duration>) -> Self {
        if let Some(mut late) = self.late.take() {
            match patience {
                None => drop(late.await),
                Some(_) if matches!(late.try_recv(), Err(oneshot::error::TryRecvError::Empty)) => {
                    self.late = Some(late);
                    self.relay.seen = Err("it has not answered the last question yet".into());
                    return self;
                }
                Some(_) => {}
            }
        }
        let (answered, mut answer) = oneshot::channel();
        let (id, name) = (self.relay.id, self.relay.name.clone());
        rt::spawn_local(async move { drop(answered.send(relays.look(id, &name).await)) });
        let said = match patience {
            None => Some((&mut answer).await),
            Some(limit) => rt::timeout(limit, &mut answer).await,
        };
        match said {
            Some(Ok(relay)) => self.relay = relay,
            Some(Err(_)) => self.relay.seen = Err("the proxy stops".into()),
            None => {
                self.late = Some(answer);
                let limit = patience.unwrap_or_default().as_secs_f32();
                self.relay.seen = Err(format!("no answer within {limit} s yet").into());
            }
        }
        self
    }
}

fn unasked(name: &str) -> Relay {
    let (host, seen) = ("".into(), Err("not asked yet".into()));
    Relay { id: RelayId(0), name: name.into(), host, port: 0, number: 0, seen }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use delphinus_net::rt::Notify;
    use delphinus_topology::BackendId;
    use delphinus_topology::promotion::RelayStanding;

    use super::super::super::leave::Told;
    use super::*;

    /// The one that hangs answers when it is let, and others at once.
    #[derive(Default)]
    struct Scripted {
        asked: RefCell<Vec<String>>,
        count: Cell<u64>,
        lets: Notify,
    }

    impl Relays for Scripted {
        fn look<'a>(&'a self, id: RelayId, name: &'a str) -> Pin<Box<dyn Future<Output = Relay> + 'a>> {
            Box::pin(async move {
                self.asked.borrow_mut().push(name.to_owned());
                self.count.set(self.count.get() + 1);
                let epoch = self.count.get();
                if name == "hangs" {
                    self.lets.notified().await;
                }
                let seen = Ok(RelayStanding { epoch, ..RelayStanding::default() });
                Relay { id, name: name.into(), host: "r".into(), port: 3306, number: 9, seen }
            })
        }

        fn cut<'a>(&'a self, _: &'a str, _: u64) -> Told<'a, String> {
            Box::pin(async { Ok(String::new()) })
        }

        fn turn<'a>(&'a self, _: &'a str, _: (BackendId, &'a str), _: u64) -> Told<'a, String> {
            Box::pin(async { Ok(String::new()) })
        }
    }

    const LONG: Option<Duration> = Some(Duration::from_secs(20));
    const SHORT: Option<Duration> = Some(Duration::from_millis(20));

    fn epoch(relay: &Relay) -> Option<u64> {
        relay.standing().map(|own| own.epoch)
    }

    #[test]
    fn one_that_hangs_is_waited_for_once_and_its_late_answer_does_not_count() {
        let names = ["well", "hangs"].map(str::to_owned);
        rt::block_on(async {
            let relays = Rc::<Scripted>::default();
            let mut looks = Looks::new(relays.clone());
            let told = looks.look(&names, SHORT).await;
            assert_eq!((epoch(&told[0]), epoch(&told[1])), (Some(1), None));
            let begun = rt::now();
            let told = looks.look(&names, LONG).await;
            assert!(begun.elapsed() < Duration::from_secs(10), "it was waited for again");
            assert_eq!((epoch(&told[0]), epoch(&told[1])), (Some(3), None));
            assert_eq!(relays.asked.borrow().join(" "), "well hangs well");
            // It answers what it was asked at first, and then at once.
            relays.lets.notify_one();
            for _ in 0..10 {
                rt::yield_now().await;
            }
            relays.lets.notify_one();
            let told = looks.look(&names, LONG).await;
            assert_eq!(epoch(&told[1]), Some(5));
            assert_eq!((told[1].id, told[1].number), (RelayId(1), 9));
        })
        .unwrap();
    }

    #[test]
    fn whoever_has_time_gets_an_answer_of_now() {
        let names = ["hangs".to_owned()];
        rt::block_on(async {
            let relays = Rc::<Scripted>::default();
            let mut looks = Looks::new(relays.clone());
            assert_eq!(epoch(&looks.look(&names, SHORT).await[0]), None);
            let lets = relays.clone();
            rt::spawn_local(async move {
                while lets.asked.borrow().len() < 2 {
                    lets.lets.notify_one();
                    rt::sleep(Duration::from_millis(1)).await;
                }
                lets.lets.notify_one();
            });
            assert_eq!(epoch(&looks.look(&names, None).await[0]), Some(2));
        })
        .unwrap();
    }
}
