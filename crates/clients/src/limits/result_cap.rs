//! How large a result may be.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Limit, LimitReached};

/// The smallest limits on rows and bytes that are about one statement.
#[derive(Debug)]
pub struct ResultCap {
    rows: Option<(u64, Arc<Limit>)>,
    bytes: Option<(u64, Arc<Limit>)>,
    reached: Option<LimitReached>,
}

impl ResultCap {
    /// `None`: neither is limited.
    pub(super) fn new(rows: Option<(u64, Arc<Limit>)>, bytes: Option<(u64, Arc<Limit>)>) -> Option<Self> {
        (rows.is_some() || bytes.is_some()).then_some(Self { rows, bytes, reached: None })
    }

    /// True if a result with so many rows and bytes is too large; counted once.
    pub fn is_exceeded(&mut self, rows: u64, bytes: u64) -> bool {
        if self.reached.is_some() {
            return true;
        }
        let all = [("max_rows", &self.rows, rows), ("max_bytes", &self.bytes, bytes)];
        for (option, most, is) in all {
            if let Some((most, limit)) = most
                && is > *most
            {
                limit.counts.cut.fetch_add(1, Ordering::Relaxed);
                let (limit, why) = (limit.name.clone(), "the result is larger");
                self.reached = Some(LimitReached { limit, option, why });
                return true;
            }
        }
        false
    }

    /// True if no result of so many bytes is too large, whatever its rows are. A row takes 5 bytes at least.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.bytes.as_ref().is_none_or(|(most, _)| bytes <= *most)
            && self.rows.as_ref().is_none_or(|(most, _)| bytes / 5 <= *most)
    }

    /// Which limit it was.
    pub fn reached(&self) -> LimitReached {
        let unknown = || LimitReached { limit: "".into(), option: "max_rows", why: "the result is larger" };
        self.reached.clone().unwrap_or_else(unknown)
    }
}
