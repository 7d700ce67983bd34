//! The handlers that a text opens and closes.

use super::name_text;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// What a text does to a handler of this name (the alias where there is one): lower-case, since servers compare them without case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlersChange {
    /// `HANDLER .. OPEN`.
    Opens(String),
    /// `HANDLER .. CLOSE`.
    Closes(String),
}

/// What the text does to handlers, in its order.
pub fn handlers(sql: &[u8], options: LexOptions) -> Vec<HandlersChange> {
    let mut changes = Vec::new();
    walk(sql, options, |event| changes.extend(HandlersChange::of(&event, sql, options)));
    changes
}

impl HandlersChange {
    pub(crate) fn of(event: &Event, sql: &[u8], options: LexOptions) -> Option<Self> {
        let text = |name| name_text(name, sql, options).to_lowercase();
        match *event {
            Event::OpensHandler(name) => Some(Self::Opens(text(name))),
            Event::ClosesHandler(name) => Some(Self::Closes(text(name))),
            _ => None,
        }
    }
}
