//! Everything about the server rather than about data: `USE`, `KILL`, diagnostics, maintenance, replication.
//!
//! Owns: these statements' forms.

use super::{Class, Classifier, Effects, Event, Keyword, TokenKind, Uses, Watch, Why};

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    pub(super) fn use_schema(&mut self) -> Class {
        self.cursor.bump();
        if !self.cursor.here.is_name() {
            return self.unknown();
        }
        self.emit(Event::Uses(self.cursor.here));
        self.whole(Class::Use, Why::ChangesSession, Effects::CHANGES_SCHEMA)
    }

    /// `KILL [HARD|SOFT] [CONNECTION|QUERY [ID]] id`, `KILL USER ..`.
    pub(super) fn kill(&mut self) -> Class {
        self.refuse(Why::Admin);
        self.effects |= Effects::KILLS;
        self.cursor.bump();
        self.cursor.eat_any(&[Keyword::Hard, Keyword::Soft]);
        self.cursor.eat_any(&[Keyword::Query, Keyword::Connection]);
        if self.cursor.keyword() == Keyword::User {
            self.skip_rest();
        }
        self.scan();
        Class::Kill
    }

    /// `GET [CURRENT|STACKED] DIAGNOSTICS .. @a = NUMBER`.
    pub(super) fn get_diagnostics(&mut self) -> Class {
        self.cursor.bump();
        self.cursor.eat_any(&[Keyword::Current, Keyword::Stacked]);
        self.refuse(Why::Diagnostics);
        if self.cursor.keyword() != Keyword::Diagnostics {
            // No server knows another GET.
            self.scan();
            return Class::Diagnostics;
        }
        self.uses |= Uses::DIAGNOSTICS;
        while !self.cursor.at_end() {
            let here = self.cursor.here;
            if here.is(TokenKind::UserVariable) {
                if self.cursor.ahead.is(TokenKind::Equals) {
                    self.assigns(here);
                } else {
                    self.uses |= Uses::USER_VARS;
                }
            } else if self.is_named(here, b"row_count") {
                self.uses |= Uses::ROW_COUNT;
            }
            self.skip_token();
        }
        Class::Diagnostics
    }

    pub(super) fn signal(&mut self) -> Class {
        self.refuse(Why::Diagnostics);
        self.cursor.bump();
        self.scan();
        Class::Diagnostics
    }

    pub(super) fn replication(&mut self, keyword: Keyword) -> Class {
        let ahead = self.cursor.ahead.keyword;
        match (keyword, ahead) {
            // Events of a binary log, run in this session.
            (Keyword::Binlog, _) => {
                self.whole(Class::Replication, Why::Admin, Effects::UNKNOWN | Effects::IMPLICIT_COMMIT)
            }
            (Keyword::Reset, Keyword::Persist | Keyword::Query) => {
                self.whole(Class::Admin, Why::Admin, Effects::empty())
            }
            _ => self.whole(Class::Replication, Why::Admin, Effects::IMPLICIT_COMMIT),
        }
    }

    pub(super) fn administration(&mut self, keyword: Keyword) -> Class {
        let effects = match keyword {
            Keyword::Optimize
            | Keyword::Repair
            | Keyword::Check
            | Keyword::Cache
            | Keyword::Install
            | Keyword::Uninstall => Effects::IMPLICIT_COMMIT,
            Keyword::Checksum | Keyword::Clone | Keyword::Import => Effects::empty(),
            Keyword::Shutdown | Keyword::Restart => Effects::CLOSES_CONNECTION,
            _ => return self.unknown(),
        };
        self.whole(Class::Admin, Why::Admin, effects)
    }
}
