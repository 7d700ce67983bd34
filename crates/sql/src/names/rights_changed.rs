//! Whose rights a text changes.

use super::{literal_text, name_text};
use crate::LexOptions;
use crate::classify::walk;
use crate::event::{Event, Whose};
use crate::lexer::{Token, TokenKind};

/// Whose accounts or rights a text changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightsChanged {
    /// Those of its own user.
    pub own: bool,
    /// Those of the users of these names.
    pub named: Vec<String>,
    /// Anybody's.
    pub anybody: bool,
}

/// Whose rights the text changes. What it does by code in the database is not in it.
pub fn rights_changed(sql: &[u8], options: LexOptions) -> RightsChanged {
    let mut changed = RightsChanged::default();
    walk(sql, options, |event| match event {
        Event::ChangesRights(Whose::Own) => changed.own = true,
        Event::ChangesRights(Whose::Anybody) => changed.anybody = true,
        Event::ChangesRights(Whose::Named(token)) => match plain_name(token, sql, options) {
            Some(name) => changed.named.push(name),
            None => changed.anybody = true,
        },
        _ => {}
    });
    changed
}

/// A name that is the same in all character sets.
fn plain_name(token: Token, sql: &[u8], options: LexOptions) -> Option<String> {
    let name = if token.is(TokenKind::Text) {
        literal_text(token, sql, options)
    } else {
        name_text(token, sql, options)
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    name.bytes().all(is_plain).then_some(name)
}
