//! `SHOW` and `HELP`.
//!
//! Owns: which forms say the same on every member of a cluster.

use super::{Class, Classifier, Event, Keyword, Uses, Watch, Why};

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    pub(super) fn show(&mut self) -> Class {
        self.cursor.bump();
        self.cursor.eat_any(&[Keyword::Full, Keyword::Extended, Keyword::Storage]);
        if !self.shows_schema() {
            self.shows_state();
        }
        self.scan();
        Class::Show
    }

    /// Forms about the schema, the same everywhere. What follows them (`LIKE`, `WHERE`) is read as an expression.
    fn shows_schema(&mut self) -> bool {
        match (self.cursor.keyword(), self.cursor.ahead.keyword) {
            (
                Keyword::Databases
                | Keyword::Schemas
                | Keyword::Tables
                | Keyword::Columns
                | Keyword::Fields
                | Keyword::Index
                | Keyword::Indexes
                | Keyword::Keys
                | Keyword::Triggers
                | Keyword::Events
                | Keyword::Collation
                | Keyword::Charset
                | Keyword::Engines
                | Keyword::Plugins
                | Keyword::Privileges
                | Keyword::Authors
                | Keyword::Contributors,
                _,
            )
            | (Keyword::Character, Keyword::Set)
            | (Keyword::Table, Keyword::Status) => true,
            (Keyword::Create, Keyword::User) => false,
            (Keyword::Create, _) => {
                self.show_create();
                true
            }
            (
                Keyword::Procedure | Keyword::Function | Keyword::Package | Keyword::Library,
                Keyword::Status | Keyword::Code | Keyword::Body,
            ) => {
                // `PROCEDURE` would be a clause further on.
                self.cursor.bump();
                true
            }
            _ => false,
        }
    }

    /// `SHOW CREATE PROCEDURE p`: only names follow.
    fn show_create(&mut self) {
        self.skip_rest();
    }

    fn shows_state(&mut self) {
        let (here, ahead) = (self.cursor.keyword(), self.cursor.ahead.keyword);
        match (here, ahead) {
            (Keyword::Warnings | Keyword::Errors | Keyword::Count, _) => {
                self.uses |= Uses::DIAGNOSTICS;
                self.refuse(Why::Diagnostics);
            }
            (Keyword::Global, Keyword::Variables) => {
                self.uses |= Uses::SESSION_VARS;
                self.refuse(Why::SystemVariable);
            }
            (Keyword::Variables, _) | (Keyword::Session | Keyword::Local, Keyword::Variables) => {
                // `identity` and `last_insert_id` are among them.
                self.uses |= Uses::SESSION_VARS.union(Uses::LAST_INSERT_ID).union(Uses::TRACKING);
                self.refuse(Why::SystemVariable);
            }
            (Keyword::Processlist, _) => {
                self.uses |= Uses::PROCESS_LIST;
                self.refuse(Why::Show);
                self.skip_rest();
            }
            (Keyword::Status, _) | (Keyword::Session | Keyword::Local, Keyword::Status) => {
                self.uses |= Uses::SESSION_STATUS;
                self.refuse(Why::Show);
            }
            // They may have a WHERE, which may call anything.
            (Keyword::Global, Keyword::Status) | (Keyword::Open, Keyword::Tables) => self.refuse(Why::Show),
            _ => {
                self.refuse(Why::Show);
                // MariaDB: behind FOR is an expression, whose value is the id of a connection.
                if !matches!(here, Keyword::Explain | Keyword::Describe | Keyword::Desc | Keyword::Analyze) {
                    self.skip_to_where();
                }
            }
        }
    }

    /// Accounts (`u@h`) are not user variables. What a plugin of MariaDB shows may have a WHERE.
    fn skip_to_where(&mut self) {
        while !self.cursor.at_end() && self.cursor.keyword() != Keyword::Where {
            self.skip_token();
        }
    }

    pub(super) fn help(&mut self) -> Class {
        self.whole(Class::Show, Why::Show, super::Effects::empty())
    }
}
