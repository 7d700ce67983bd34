//! `SET` in all its forms.
//!
//! Owns: items, their scopes and values. A bare name takes the last `GLOBAL` / `SESSION` keyword before it in the
//! statement; a scope written as `@@global.` is only for its own item (both seen on MySQL 9.7 and MariaDB 10.11).

use super::{Class, Classifier, Effects, Event, Keyword, Token, TokenKind, Uses, Watch, Why, session};
use crate::assignments::{Scope, TransactionScope};
use crate::event::{Place, Qualified};
use crate::hints::PROXY;
use crate::options::Flavor;

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    pub(super) fn set(&mut self) -> Class {
        self.cursor.bump();
        let ahead = self.cursor.ahead;
        if self.cursor.keyword() == Keyword::Statement
            && self.cursor.options().flavor == Flavor::MariaDb
            && ahead.is_name()
        {
            return self.set_statement();
        }
        let scope = scope_of(self.cursor.keyword());
        match (self.cursor.keyword(), ahead.keyword) {
            (Keyword::Transaction, _) if !is_assignment(ahead) => {
                self.set_transaction(TransactionScope::Next)
            }
            (_, Keyword::Transaction) if scope.is_some() => {
                self.cursor.bump();
                let is_global = scope != Some(Scope::Session);
                if is_global {
                    self.effects |= Effects::SETS_GLOBAL_VARS;
                }
                self.set_transaction(if is_global {
                    TransactionScope::Global
                } else {
                    TransactionScope::Session
                })
            }
            (Keyword::Role, _) if !is_assignment(ahead) => self.set_rest(Place::Role, Effects::SETS_ROLE),
            (Keyword::Default, Keyword::Role) => {
                self.cursor.bump();
                self.set_default_role()
            }
            (Keyword::Resource, Keyword::Group) => {
                self.cursor.bump();
                self.set_rest(Place::ResourceGroup, Effects::UNKNOWN)
            }
            _ => self.set_items(),
        }
    }

    fn set_transaction(&mut self, scope: TransactionScope) -> Class {
        let effects = match scope {
            TransactionScope::Next => Effects::SETS_NEXT_TRANSACTION,
            TransactionScope::Session | TransactionScope::Global => Effects::SETS_SYSTEM_VARS,
        };
        self.set_rest(Place::Transaction(scope), effects)
    }

    /// A form whose value is the whole rest of the statement, after the word here.
    pub(super) fn set_rest(&mut self, place: Place, effects: Effects) -> Class {
        self.refuse(Why::ChangesSession);
        self.effects |= effects;
        self.cursor.bump();
        let value = self.rest_of(|_| false);
        self.emit(Event::Assignment { place, value });
        Class::Set
    }

    /// Skips to the end of the statement or to where `is_end`, and answers the range.
    pub(super) fn rest_of(&mut self, is_end: impl Fn(Token) -> bool) -> (usize, usize) {
        let start = self.cursor.here.start;
        let mut end = start;
        while !self.cursor.at_end() && !is_end(self.cursor.here) {
            end = self.cursor.here.end;
            self.skip_token();
        }
        (start, end)
    }

    fn set_items(&mut self) -> Class {
        let mut sticky = Scope::Session;
        loop {
            if !self.set_item(&mut sticky) {
                return self.unknown();
            }
            if !self.cursor.here.is(TokenKind::Comma) {
                break;
            }
            self.cursor.bump();
        }
        self.refuse(Why::ChangesSession);
        if self.cursor.at_end() { Class::Set } else { self.unknown() }
    }

    /// One item and its value; false where it has no form that is known here.
    fn set_item(&mut self, sticky: &mut Scope) -> bool {
        let (here, ahead) = (self.cursor.here, self.cursor.ahead);
        if !is_assignment(ahead) && !ahead.is(TokenKind::Dot) {
            match here.keyword {
                Keyword::Names => return self.set_word(Place::Names, 1),
                Keyword::Charset => return self.set_word(Place::CharacterSet, 1),
                Keyword::Character | Keyword::Char if ahead.keyword == Keyword::Set => {
                    return self.set_word(Place::CharacterSet, 2);
                }
                Keyword::Password => return self.set_password(),
                _ => {}
            }
        }
        if here.keyword == Keyword::Password && ahead.is(TokenKind::Equals) {
            return self.set_password();
        }
        self.refuse(Why::ChangesSession);
        match here.kind {
            TokenKind::UserVariable => {
                self.cursor.bump();
                self.effects |= Effects::SETS_USER_VARS;
                self.emit(Event::UserVariable(here));
                self.set_value(Place::User(here))
            }
            TokenKind::SystemVariable => {
                self.cursor.bump();
                let scope = if self.cursor.ahead.is(TokenKind::Dot) {
                    scope_of(Keyword::of(self.bare(self.cursor.here)))
                } else {
                    None
                };
                if scope.is_some() {
                    self.cursor.bump();
                    self.cursor.bump();
                }
                self.set_system(scope.unwrap_or(Scope::Session))
            }
            _ => {
                if ahead.is_name()
                    && let Some(scope) = scope_of(here.keyword)
                {
                    *sticky = scope;
                    self.cursor.bump();
                }
                self.set_system(*sticky)
            }
        }
    }

    /// `NAMES utf8mb4 COLLATE ..`, after as many words as the form has.
    fn set_word(&mut self, place: Place, words: usize) -> bool {
        for _ in 0..words {
            self.cursor.bump();
        }
        self.refuse(Why::ChangesSession);
        self.effects |= Effects::SETS_SYSTEM_VARS;
        self.rereading.note_charset();
        let value = self.rest_of(|token| token.is(TokenKind::Comma));
        self.emit(Event::Assignment { place, value });
        value.1 > value.0
    }

    fn set_system(&mut self, scope: Scope) -> bool {
        let Some(name) = self.table_name() else { return false };
        if name.schema.is_some_and(|schema| self.is_named(schema, PROXY)) {
            self.uses |= Uses::PROXY_SETTINGS;
        }
        self.effects |= Effects::SETS_SYSTEM_VARS;
        let text = self.bare(name.name);
        if scope != Scope::Session {
            self.effects |= Effects::SETS_GLOBAL_VARS;
            self.sets_global(text);
        }
        if scope == Scope::Session {
            self.rereading.note_variable(text);
        }
        if session::is_tracking(text) && scope == Scope::Session {
            self.effects |= Effects::SETS_TRACKING;
        }
        self.is_of_more |= session::is_staying(text);
        if matches!(Keyword::of(text), Keyword::LastInsertId | Keyword::Identity) {
            self.effects |= Effects::SETS_LAST_INSERT_ID;
        }
        self.set_value(Place::System { scope, name })
    }

    /// `= value` up to the comma or the end, with everything that the expression does.
    fn set_value(&mut self, place: Place) -> bool {
        if !is_assignment(self.cursor.here) {
            return false;
        }
        self.cursor.bump();
        let value = self.value(|_| false);
        self.emit(Event::Assignment { place, value });
        value.1 > value.0
    }

    /// An expression up to a comma outside parentheses, to the end, or to where `is_end`.
    fn value(&mut self, is_end: impl Fn(Token) -> bool) -> (usize, usize) {
        let start = self.cursor.here.start;
        let (mut end, mut depth) = (start, 0_u32);
        while !self.cursor.at_end() {
            let here = self.cursor.here;
            match here.kind {
                TokenKind::Open => {
                    // A function or a subquery, perhaps of what is stored.
                    self.is_of_more = true;
                    depth += 1;
                }
                TokenKind::Close => depth = depth.saturating_sub(1),
                TokenKind::Comma if depth == 0 => break,
                _ if depth == 0 && is_end(here) => break,
                _ => {}
            }
            self.step();
            end = self.cursor.before.end;
        }
        (start, end)
    }

    /// MariaDB's `SET STATEMENT a = 1, b = 2 FOR SELECT ..`: the values are for that statement only.
    fn set_statement(&mut self) -> Class {
        self.cursor.bump();
        loop {
            let Some(Qualified { name, .. }) = self.table_name() else { return self.unknown() };
            if !is_assignment(self.cursor.here) {
                return self.unknown();
            }
            self.cursor.bump();
            let value = self.value(|token| token.keyword == Keyword::For);
            self.effects |= Effects::SETS_FOR_STATEMENT;
            let text = self.bare(name);
            self.rereading.note_variable(text);
            self.emit(Event::Assignment { place: Place::Statement(name), value });
            if !self.cursor.here.is(TokenKind::Comma) {
                break;
            }
            self.cursor.bump();
        }
        if !self.cursor.eat(Keyword::For) {
            return self.unknown();
        }
        self.nested()
    }
}

fn is_assignment(token: Token) -> bool {
    matches!(token.kind, TokenKind::Equals | TokenKind::Assign)
}

fn scope_of(keyword: Keyword) -> Option<Scope> {
    match keyword {
        Keyword::Session | Keyword::Local => Some(Scope::Session),
        Keyword::Global => Some(Scope::Global),
        Keyword::Persist => Some(Scope::Persist),
        Keyword::PersistOnly => Some(Scope::PersistOnly),
        _ => None,
    }
}
