//! The journal of a move, where the next actor looks for it: what is there, as far as this one knows.

use crate::promotion::leave::Leave;

/// The key of the plan that is under way.
pub(super) const PLAN: &str = "switchover";

/// What is there.
#[derive(Debug)]
pub(super) enum Kept {
    Known(Option<String>),
    /// The last change was not answered: it may be made, or not.
    Unknown,
}

impl Default for Kept {
    fn default() -> Self {
        Self::Known(None)
    }
}

impl Kept {
    /// Writes it, or deletes it, where it is not so.
    ///
    /// # Errors
    /// Why nobody knows whether it is there now.
    pub(super) async fn put(&mut self, leave: &dyn Leave, text: Option<String>) -> Result<(), String> {
        if matches!(self, Self::Known(known) if *known == text) {
            return Ok(());
        }
        // Also if nobody waits for the answer any more.
        *self = Self::Unknown;
        leave.put(PLAN, text.as_deref()).await?;
        *self = Self::Known(text);
        Ok(())
    }

    /// True if a journal may be there.
    pub(super) fn is_any(&self) -> bool {
        !matches!(self, Self::Known(None))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use delphinus_net::rt;

    use super::*;
    use crate::promotion::leave::{Local, Permit, Told};

    /// A store that answers, or does what it is told and loses its answer.
    #[derive(Default)]
    struct Shaky {
        texts: Local,
        is_mute: Cell<bool>,
    }

    impl Leave for Shaky {
        fn permit(&self) -> Result<Permit, String> {
            self.texts.permit()
        }

        fn put<'a>(&'a self, key: &'a str, text: Option<&'a str>) -> Told<'a, ()> {
            let done = self.texts.put(key, text);
            if self.is_mute.get() { Box::pin(std::future::ready(Err("no answer".to_owned()))) } else { done }
        }

        fn get<'a>(&'a self, key: &'a str) -> Told<'a, Option<String>> {
            self.texts.get(key)
        }
    }

    #[test]
    fn a_journal_that_may_be_there_is_deleted() {
        rt::block_on(async {
            let (store, mut kept) = (Shaky::default(), Kept::default());
            store.is_mute.set(true);
            assert!(kept.put(&store, Some("a".to_owned())).await.is_err());
            assert!(kept.is_any(), "the answer was lost, the journal is there");
            assert!(kept.put(&store, None).await.is_err());
            assert!(kept.is_any());
            store.is_mute.set(false);
            kept.put(&store, Some("b".to_owned())).await.unwrap();
            assert_eq!(store.get(PLAN).await.unwrap().as_deref(), Some("b"));
            kept.put(&store, None).await.unwrap();
            assert!(!kept.is_any());
            assert_eq!(store.get(PLAN).await.unwrap(), None);
        })
        .unwrap();
    }
}
