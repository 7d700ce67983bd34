//! The handlers that a text opens and closes.

use super::name_text;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// Names of handlers (the alias where there is one): lower-case, since servers compare them without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    /// Opened by `HANDLER .. OPEN`.
    pub opened: Vec<String>,
    /// Closed by `HANDLER .. CLOSE`.
    pub closed: Vec<String>,
}

/// The handlers that the text opens and closes.
pub fn handlers(sql: &[u8], options: LexOptions) -> Handlers {
    let mut handlers = Handlers::default();
    walk(sql, options, |event| handlers.take(&event, sql, options));
    handlers
}

impl Handlers {
    pub(crate) fn take(&mut self, event: &Event, sql: &[u8], options: LexOptions) {
        let text = |name| name_text(name, sql, options).to_lowercase();
        match *event {
            Event::OpensHandler(name) => self.opened.push(text(name)),
            Event::ClosesHandler(name) => self.closed.push(text(name)),
            _ => {}
        }
    }
}
