//! Whether this process may act on the servers now, and where the plan of a move that is under way is kept: by a store that all
//! proxies share, or for one proxy alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// An answer that may take its time. An error says why there is none.
pub type Told<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + 'a>>;

/// The right to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// Grows with each holder: what an earlier one has begun, this one ends.
    pub epoch: u64,
    /// Until then nobody else acts; `None`: there is nobody else.
    pub until: Option<Instant>,
}

/// Who may act.
pub trait Leave {
    /// The right to act by now.
    ///
    /// # Errors
    /// Why this process has none.
    fn permit(&self) -> Result<Permit, String>;

    /// So long after this process has died nobody else acts; zero: there is nobody else.
    fn others_after(&self) -> Duration {
        Duration::ZERO
    }

    /// Keeps a text under a key, for whoever acts next; `None` removes it. The text is small, and holds no secret.
    fn put<'a>(&'a self, key: &'a str, text: Option<&'a str>) -> Told<'a, ()>;

    /// The text under a key.
    fn get<'a>(&'a self, key: &'a str) -> Told<'a, Option<String>>;
}

/// One proxy, which asks nobody. What it keeps ends with the process.
#[derive(Debug, Default)]
pub struct Local {
    texts: RefCell<HashMap<String, String>>,
}

impl Leave for Local {
    fn permit(&self) -> Result<Permit, String> {
        Ok(Permit { epoch: 0, until: None })
    }

    fn put<'a>(&'a self, key: &'a str, text: Option<&'a str>) -> Told<'a, ()> {
        match text {
            Some(text) => self.texts.borrow_mut().insert(key.to_owned(), text.to_owned()),
            None => self.texts.borrow_mut().remove(key),
        };
        Box::pin(std::future::ready(Ok(())))
    }

    fn get<'a>(&'a self, key: &'a str) -> Told<'a, Option<String>> {
        Box::pin(std::future::ready(Ok(self.texts.borrow().get(key).cloned())))
    }
}
