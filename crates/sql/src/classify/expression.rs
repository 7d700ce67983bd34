//! Expressions and clauses, in every statement that has them.
//!
//! Owns: what calls, variables, locking clauses and `INTO` mean. Works on tokens: it needs no grammar, because each of
//! these can be told by its neighbours.

use super::functions::{self, Call};
use super::{Classifier, Effects, Event, Keyword, Token, TokenKind, Uses, Watch, Why};
use crate::Risks;
use crate::hints::PROXY;
use crate::names::SessionFunction;
use crate::options::Flavor;

/// Tables that have the session's `last_insert_id` in them.
const VARIABLES: &[&[u8]] = &[b"session_variables", b"system_variables", b"variables_by_thread"];

/// Tables of `information_schema` that say the same on every member of a cluster.
const SHARED_CATALOG: &[&str] = &[
    "applicable_roles",
    "character_sets",
    "check_constraints",
    "collation_character_set_applicability",
    "collations",
    "column_statistics",
    "columns",
    "columns_extensions",
    "engines",
    "events",
    "key_column_usage",
    "keywords",
    "parameters",
    "partitions",
    "referential_constraints",
    "routines",
    "schemata",
    "schemata_extensions",
    "sql_functions",
    "st_geometry_columns",
    "st_spatial_reference_systems",
    "statistics",
    "table_constraints",
    "table_constraints_extensions",
    "tables",
    "tables_extensions",
    "triggers",
    "view_routine_usage",
    "view_table_usage",
    "views",
];

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    /// Reads to the end of the statement.
    pub(super) fn scan(&mut self) {
        while !self.cursor.at_end() {
            self.step();
        }
    }

    /// Reads one token and what belongs to it.
    #[inline]
    pub(super) fn step(&mut self) {
        let here = self.cursor.here;
        match here.kind {
            TokenKind::Word => {
                if here.keyword != Keyword::None {
                    self.clause(here.keyword);
                }
                self.name(here);
            }
            TokenKind::Name | TokenKind::Quoted => self.name(here),
            TokenKind::UserVariable => self.user_variable(here),
            TokenKind::SystemVariable => self.system_variable(),
            TokenKind::Error => self.check_token(),
            _ => {}
        }
        self.cursor.bump();
    }

    fn clause(&mut self, keyword: Keyword) {
        let ahead = self.cursor.ahead.keyword;
        match keyword {
            Keyword::For if matches!(ahead, Keyword::Update | Keyword::Share) => {
                self.refuse(Why::LockingRead);
            }
            Keyword::Lock if ahead == Keyword::In => self.refuse(Why::LockingRead),
            Keyword::Into => self.clause_into(),
            // The tables that it reads may be behind on another server.
            Keyword::From | Keyword::Table => self.is_of_more = true,
            Keyword::Procedure => self.refuse(Why::ProcedureClause),
            Keyword::SqlCalcFoundRows => {
                self.effects |= Effects::CALC_FOUND_ROWS;
                self.refuse(Why::CalcFoundRows);
            }
            Keyword::Offset | Keyword::Union | Keyword::Except | Keyword::Intersect => {
                self.uses |= Uses::SKIPS_ROWS;
            }
            // The number is ahead.
            Keyword::Limit if self.cursor.beyond().0.is(TokenKind::Comma) => self.uses |= Uses::SKIPS_ROWS,
            Keyword::Next if ahead == Keyword::Value => self.next_value_for(),
            Keyword::Previous if ahead == Keyword::Value => self.previous_value_for(),
            // Functions that need no parentheses; `sysdate` only in MariaDB's mode for Oracle.
            Keyword::CurrentDate
            | Keyword::CurrentTime
            | Keyword::CurrentTimestamp
            | Keyword::Localtime
            | Keyword::Localtimestamp
            | Keyword::Sysdate
            | Keyword::UtcDate
            | Keyword::UtcTime
            | Keyword::UtcTimestamp => self.uses |= Uses::VOLATILE,
            Keyword::Delete => self.refuse(Why::Write),
            Keyword::Update if self.cursor.before.keyword != Keyword::For => self.refuse(Why::Write),
            Keyword::Insert | Keyword::Replace if !self.cursor.ahead.is(TokenKind::Open) => {
                self.refuse(Why::Write);
            }
            _ => {}
        }
    }

    /// `INTO OUTFILE`, `INTO DUMPFILE`, `INTO @a, @b`, `INTO local`. The next token is left for the reader.
    fn clause_into(&mut self) {
        if matches!(self.cursor.ahead.keyword, Keyword::Outfile | Keyword::Dumpfile) {
            self.refuse(Why::IntoFile);
            self.risks |= Risks::WRITES_FILE;
            return;
        }
        self.refuse(Why::IntoVariable);
        while self.cursor.ahead.is(TokenKind::UserVariable) {
            self.assigns(self.cursor.ahead);
            self.cursor.bump();
            if !self.cursor.ahead.is(TokenKind::Comma) {
                break;
            }
            self.cursor.bump();
        }
    }

    pub(super) fn assigns(&mut self, variable: Token) {
        self.effects |= Effects::SETS_USER_VARS;
        self.emit(Event::UserVariable(variable));
    }

    fn user_variable(&mut self, here: Token) {
        if self.cursor.ahead.is(TokenKind::Assign) {
            self.assigns(here);
            self.refuse(Why::AssignsUserVariable);
        } else {
            self.uses |= Uses::USER_VARS;
        }
    }

    /// `@@name`, `@@scope.name`: moves to the last token of it.
    fn system_variable(&mut self) {
        self.uses |= Uses::SESSION_VARS;
        self.refuse(Why::SystemVariable);
        if !self.cursor.ahead.is_name() {
            return;
        }
        let start = self.cursor.here.start;
        self.cursor.bump();
        let mut name = self.cursor.here;
        while self.cursor.ahead.is(TokenKind::Dot) {
            if self.is_named(name, PROXY) {
                self.uses |= Uses::PROXY_SETTINGS;
            }
            self.cursor.bump();
            if self.cursor.ahead.is_name() {
                self.cursor.bump();
                name = self.cursor.here;
            }
        }
        let uses = match Keyword::of(self.bare(name)) {
            Keyword::LastInsertId | Keyword::Identity => Uses::LAST_INSERT_ID,
            Keyword::WarningCount => self.count_variable(start, SessionFunction::WarningCount),
            Keyword::ErrorCount => self.count_variable(start, SessionFunction::ErrorCount),
            Keyword::PseudoThreadId => Uses::CONNECTION_ID,
            _ if super::session::is_tracking(self.bare(name)) => Uses::TRACKING,
            _ => Uses::empty(),
        };
        self.uses |= uses;
    }

    /// `@@warning_count` and `@@error_count`, whose last token is here. Another scope than the session is refused by servers.
    fn count_variable(&mut self, start: usize, function: SessionFunction) -> Uses {
        self.emit(Event::SessionCall { start, end: self.cursor.here.end, function });
        Uses::DIAGNOSTICS
    }

    /// A name: a call where a parenthesis follows, a schema where a dot follows.
    #[inline]
    fn name(&mut self, here: Token) {
        match self.cursor.ahead.kind {
            TokenKind::Open => self.call(here),
            TokenKind::Dot => self.qualifier(here),
            _ if here.is(TokenKind::Name) || self.is_quoted_member(here) => self.member(here),
            _ => {}
        }
    }

    fn is_quoted_member(&self, here: Token) -> bool {
        here.is(TokenKind::Quoted) && self.cursor.before.is(TokenKind::Dot)
    }

    /// Schemas whose tables describe one server.
    #[inline(never)]
    fn qualifier(&mut self, here: Token) {
        if here.is(TokenKind::Name) {
            return;
        }
        match Keyword::of(self.bare(here)) {
            Keyword::PerformanceSchema | Keyword::Sys | Keyword::Mysql => self.table_of_server(),
            Keyword::InformationSchema => {
                let table = self.bare(self.cursor.beyond().0);
                let is_shared = SHARED_CATALOG.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(table));
                if !is_shared {
                    self.table_of_server();
                }
            }
            _ => {}
        }
    }

    fn table_of_server(&mut self) {
        let table = self.bare(self.cursor.beyond().0);
        if VARIABLES.iter().any(|name| name.eq_ignore_ascii_case(table)) {
            self.uses |= Uses::LAST_INSERT_ID;
        }
        self.refuse(Why::ServerState);
    }

    /// `seq.nextval` and `seq.currval` are MariaDB's, with and without quotes.
    #[inline(never)]
    fn member(&mut self, here: Token) {
        if self.cursor.options().flavor != Flavor::MariaDb {
            return;
        }
        if self.is_named(here, b"nextval") {
            self.next_value_of_member();
        } else if self.is_named(here, b"currval") {
            self.last_value_of_member();
        }
    }

    /// A name before a parenthesis.
    #[inline(never)]
    fn call(&mut self, here: Token) {
        let before = self.cursor.before;
        if before.is(TokenKind::Dot) {
            return self.unknown_call();
        }
        if follows_operand(before) || before.keyword == Keyword::As {
            return;
        }
        let found = functions::find(self.bare(here), self.cursor.options());
        let is_quoted = here.is(TokenKind::Quoted);
        match found {
            Some(Call::Syntax | Call::Pure) if !is_quoted => {}
            Some(Call::Volatile) if !is_quoted => self.uses |= Uses::VOLATILE,
            Some(Call::Default) if !is_quoted => {
                self.uses |= Uses::VOLATILE;
                if self.cursor.options().flavor == Flavor::MariaDb {
                    self.changes_sequence();
                }
            }
            Some(Call::XPath) if !is_quoted => self.uses |= Uses::USER_VARS,
            Some(Call::Delay) => {
                self.risks |= Risks::SLEEPS;
                self.uses |= Uses::VOLATILE;
                if is_quoted {
                    self.unknown_call();
                }
            }
            Some(Call::Tight) if !is_quoted && here.end == self.cursor.ahead.start => {}
            Some(Call::TightVolatile) if !is_quoted && here.end == self.cursor.ahead.start => {
                self.uses |= Uses::VOLATILE;
            }
            // `COUNT (*)`: no routine is called so, and servers refuse to read it.
            Some(Call::Tight) if self.cursor.text(self.cursor.beyond().0) == b"*" => {}
            Some(
                Call::Syntax
                | Call::Pure
                | Call::Tight
                | Call::Volatile
                | Call::TightVolatile
                | Call::XPath
                | Call::Default,
            ) => self.unknown_call(),
            Some(call) => self.special_call(here, call),
            None if self.is_column_list() => {}
            None => self.unknown_call(),
        }
    }

    /// The same in a statement whose expressions are not read: `KILL (SELECT SLEEP(9))`.
    pub(super) fn check_delay(&mut self) {
        let here = self.cursor.here;
        if here.is_name()
            && self.cursor.ahead.is(TokenKind::Open)
            && functions::find(self.bare(here), self.cursor.options()) == Some(Call::Delay)
        {
            self.risks |= Risks::SLEEPS;
        }
    }

    fn unknown_call(&mut self) {
        self.effects |= Effects::CALLS_ROUTINE;
        self.refuse(Why::UnknownFunction);
    }

    fn special_call(&mut self, here: Token, call: Call) {
        match call {
            Call::LastInsertId => self.last_insert_id(here),
            Call::FoundRows => self.session_call(here, Uses::FOUND_ROWS, SessionFunction::FoundRows),
            Call::RowCount => self.session_call(here, Uses::ROW_COUNT, SessionFunction::RowCount),
            Call::ConnectionId => self.session_call(here, Uses::CONNECTION_ID, SessionFunction::ConnectionId),
            Call::ThreadId => {
                self.uses |= Uses::CONNECTION_ID;
                self.refuse(Why::SessionFunction);
            }
            Call::GetLock => self.lock_call(Effects::GETS_LOCK, Event::TakesLock),
            Call::ReleaseLock => self.lock_call(Effects::RELEASES_LOCK, Event::ReleasesLock),
            Call::ServiceGetLocks => {
                self.emit(Event::TakesLock(None));
                self.advisory(Effects::GETS_LOCK);
            }
            Call::ServiceReleaseLocks => {
                self.emit(Event::ReleasesLock(None));
                self.advisory(Effects::RELEASES_LOCK);
            }
            Call::ReleaseAllLocks => {
                self.emit(Event::ReleasesAllLocks);
                self.advisory(Effects::RELEASES_ALL_LOCKS);
            }
            Call::LooksAtLock => self.advisory(Effects::empty()),
            Call::Wait => self.refuse(Why::ReplicationWait),
            Call::ServerState => self.refuse(Why::ServerState),
            Call::Sequence if self.is_named(here, b"lastval") => self.last_value(),
            Call::Sequence if self.is_named(here, b"nextval") => self.next_value(),
            Call::Sequence => self.changes_sequence(),
            Call::Pure
            | Call::Tight
            | Call::Volatile
            | Call::Delay
            | Call::TightVolatile
            | Call::XPath
            | Call::Default
            | Call::Syntax => {}
        }
    }

    fn advisory(&mut self, effects: Effects) {
        self.effects |= effects;
        self.refuse(Why::AdvisoryLock);
    }

    fn lock_call(&mut self, effects: Effects, event: fn(Option<Token>) -> Event) {
        let (name, after) = self.cursor.beyond();
        let is_literal =
            name.is(TokenKind::Text) && matches!(after.kind, TokenKind::Comma | TokenKind::Close);
        self.emit(event(is_literal.then_some(name)));
        self.advisory(effects);
    }

    fn session_call(&mut self, here: Token, uses: Uses, function: SessionFunction) {
        self.uses |= uses;
        self.refuse(Why::SessionFunction);
        let close = self.cursor.beyond().0;
        if close.is(TokenKind::Close) {
            self.emit(Event::SessionCall { start: here.start, end: close.end, function });
        }
    }

    fn last_insert_id(&mut self, here: Token) {
        self.refuse(Why::LastInsertId);
        let next = self.cursor.beyond().0;
        if next.is(TokenKind::Close) {
            self.uses |= Uses::LAST_INSERT_ID;
            self.emit(Event::SessionCall {
                start: here.start,
                end: next.end,
                function: SessionFunction::LastInsertId,
            });
        } else {
            self.effects |= Effects::SETS_LAST_INSERT_ID;
        }
    }

    /// Whether the name here is that of a common table expression with a list of columns: `WITH q (a, b) AS (`.
    fn is_column_list(&self) -> bool {
        let before = self.cursor.before;
        let may_be =
            before.is(TokenKind::Comma) || matches!(before.keyword, Keyword::With | Keyword::Recursive);
        if !may_be {
            return false;
        }
        let mut lexer = self.cursor.lookahead();
        loop {
            let (column, mark) = (lexer.next_token(), lexer.next_token());
            if !column.is_name() {
                return false;
            }
            match mark.kind {
                TokenKind::Comma => {}
                TokenKind::Close => {
                    let (as_word, open) = (lexer.next_token(), lexer.next_token());
                    return as_word.keyword == Keyword::As && open.is(TokenKind::Open);
                }
                _ => return false,
            }
        }
    }
}

/// Whether the token ends an operand. Two operands never stand side by side, so that a name after one of these is an
/// alias with a list of columns, or a word of the grammar, but never a call.
pub(super) fn follows_operand(before: Token) -> bool {
    matches!(
        before.kind,
        TokenKind::Close
            | TokenKind::Text
            | TokenKind::Number
            | TokenKind::Quoted
            | TokenKind::Name
            | TokenKind::Parameter
            | TokenKind::UserVariable
    )
}
