//! Which events run on the primary, where the next actor looks for it: one that begins when the primary is lost cannot ask it.

use std::sync::Arc;
use std::time::Instant;

use delphinus_net::rt;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Server, events_of_text, events_text};

use super::looks::BRIEFLY;
use super::unfinished::AGAIN;
use super::{Driver, find};
use crate::promotion::leave::Leave;

/// The key of the list.
const EVENTS: &str = "events";

/// As this process has written it last.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// In which life of the right to act, and what.
    last: Option<(u64, String)>,
    /// A store that has not taken it is left alone until then: whoever waits for it does not see that the primary is lost.
    again: Option<Instant>,
}

impl Noted {
    /// Writes it where this process acts and has not written it yet.
    async fn keep(&mut self, leave: &dyn Leave, text: String) {
        let Ok(permit) = leave.permit() else { return };
        let now = (permit.epoch, text);
        if self.last.as_ref() == Some(&now) || self.again.is_some_and(|again| rt::now() < again) {
            return;
        }
        // Also if nobody waits for the answer any more.
        self.last = None;
        let done = rt::timeout(BRIEFLY, leave.put(EVENTS, Some(&now.1))).await;
        if done.is_some_and(|done| done.is_ok()) {
            (self.last, self.again) = (Some(now), None);
        } else {
            self.again = Some(rt::now() + AGAIN);
        }
    }
}

impl Driver {
    /// Writes down which events run on the primary.
    pub(super) async fn note_events(&mut self, primary: &Server) {
        if let Some(own) = primary.standing().and_then(|own| own.events.as_ref().ok()) {
            let text = events_text(&primary.name, &own.enabled);
            self.noted.keep(&*self.parts.leave, text).await;
        }
    }

    /// The events that ran on a primary that is lost: as this process has seen them; else as an earlier actor has, if the primary itself
    /// cannot be asked.
    pub(super) async fn events_of_lost(
        &self,
        lost: BackendId,
        servers: &[Server],
    ) -> Option<Arc<[Arc<str>]>> {
        if self.events.is_some() {
            return self.events.clone();
        }
        let lost = find(servers, lost).ok().filter(|lost| lost.seen.is_err())?;
        let text = self.parts.leave.get(EVENTS).await.ok()??;
        events_of_text(&text, &lost.name)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::promotion::leave::{Permit, Told};

    /// A store that counts what is written, and takes it or not.
    #[derive(Default)]
    struct Counting {
        epoch: Cell<Option<u64>>,
        refuses: Cell<bool>,
        written: RefCell<Vec<String>>,
    }

    impl Leave for Counting {
        fn permit(&self) -> Result<Permit, String> {
            let epoch = self.epoch.get().ok_or("another one acts")?;
            Ok(Permit { epoch, until: None })
        }

        fn put<'a>(&'a self, key: &'a str, text: Option<&'a str>) -> Told<'a, ()> {
            assert_eq!(key, EVENTS);
            self.written.borrow_mut().push(text.unwrap_or_default().to_owned());
            let done = if self.refuses.get() { Err("no".to_owned()) } else { Ok(()) };
            Box::pin(std::future::ready(done))
        }

        fn get<'a>(&'a self, _: &'a str) -> Told<'a, Option<String>> {
            Box::pin(std::future::ready(Ok(None)))
        }
    }

    #[test]
    fn it_is_written_by_the_one_that_acts_and_only_when_it_changes() {
        rt::block_on(async {
            let (store, mut noted) = (Counting::default(), Noted::default());
            noted.keep(&store, "a".to_owned()).await;
            assert!(store.written.borrow().is_empty(), "another one acts");
            for (epoch, text) in [(1, "a"), (1, "a"), (1, "b"), (1, "a"), (2, "a"), (2, "a")] {
                store.epoch.set(Some(epoch));
                noted.keep(&store, text.to_owned()).await;
            }
            // Another one may have written something else between the two lives.
            assert_eq!(store.written.borrow().join(" "), "a b a a");
        })
        .unwrap();
    }

    #[test]
    fn a_store_that_does_not_take_it_is_left_alone_for_a_while() {
        rt::block_on(async {
            let (store, mut noted) = (Counting::default(), Noted::default());
            store.epoch.set(Some(1));
            store.refuses.set(true);
            for _ in 0..3 {
                noted.keep(&store, "a".to_owned()).await;
            }
            assert_eq!(store.written.borrow().len(), 1);
            store.refuses.set(false);
            noted.again = Some(rt::now());
            noted.keep(&store, "a".to_owned()).await;
            noted.keep(&store, "a".to_owned()).await;
            assert_eq!(store.written.borrow().len(), 2);
        })
        .unwrap();
    }
}
