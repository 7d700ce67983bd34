//! What is asked about the statement before: FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID(), warnings and errors.
//!
//! Owns: who can tell. That is the connection that the statement before ran on, as long as it is the session's, else the
//! session's memory, once those have told it what they know. What nobody knows any more is an error.

use std::ops::Range;

use delphinus_pool::{Checkout, ListLeft, RowsLeft};
use delphinus_route::Target;
use delphinus_sql::{Class, Effects, Flavor, LexOptions, SqlText, Statement, Uses, bare_words};
use delphinus_state::Response;
use delphinus_topology::BackendId;
use delphinus_wire::error_code;

use crate::answer::Known;
use crate::client_error::ProxyError;
use crate::session::Session;
use crate::state::Ran;

/// What only the last statement's connection or the session's memory can tell.
pub(crate) const ABOUT_LAST: Uses = Uses::FOUND_ROWS.union(Uses::ROW_COUNT).union(Uses::DIAGNOSTICS);

impl Session {
    /// The connection that tells all that `statement` asks, if it may run there. Otherwise the memory knows what can be
    /// known from here on.
    pub(crate) async fn connection_that_tells(
        &mut self,
        statement: &Statement,
        sql: &[u8],
    ) -> Result<Option<Checkout>, ProxyError> {
        let last = match self.connection_of_last_statement() {
            Ok(last) => last,
            Err(error) => {
                self.held.bound = Some(self.begin_after_loss(error).await?);
                None
            }
        };
        let Some(mut checkout) = last else {
            self.recall().await;
            return Ok(None);
        };
        // What locks or writes has to run on the primary, wherever the last one ran.
        if self.may_run_there(checkout.backend(), statement, sql) {
            if self.tells(&mut checkout, statement).await? {
                return Ok(Some(checkout));
            }
        } else {
            checkout.save().await.map_err(ProxyError::Pool)?;
        }
        self.keep_or_give_back(checkout);
        self.recall().await;
        Ok(None)
    }

    /// True if the connection of the last statement tells all of this.
    async fn tells(&mut self, checkout: &mut Checkout, statement: &Statement) -> Result<bool, ProxyError> {
        let uses = statement.uses;
        if uses.contains(Uses::DIAGNOSTICS) && !checkout.connection().tells_list() {
            if !self.held.memory.has_no_warnings() {
                if self.held.memory.is_list_unclear() {
                    checkout.save().await.map_err(ProxyError::Pool)?;
                }
                return Ok(false);
            }
            // An older list of this session.
            checkout.forget_warnings().await.map_err(ProxyError::Pool)?;
        }
        if uses.contains(Uses::LAST_INSERT_ID) && !checkout.connection().has_insert_id(&self.held.memory) {
            // Only one of the two can be had from there; the other comes from what is saved first.
            self.restore_insert_id(checkout).await?;
            return Ok(false);
        }
        if uses.contains(Uses::ROW_COUNT) && !checkout.connection().tells_row_count() {
            return Ok(false);
        }
        Ok(!uses.contains(Uses::FOUND_ROWS) || checkout.connection().tells_rows())
    }

    /// Where the last statement ran, if what it left behind is still there.
    fn connection_of_last_statement(&mut self) -> Result<Option<Checkout>, ProxyError> {
        let memory = self.held.memory.clone();
        if let Some(mut checkout) = self.take_bound()? {
            if checkout.connection().remembers(&memory) {
                return Ok(Some(checkout));
            }
            self.held.bound = Some(checkout);
            return Ok(None);
        }
        let Some(backend) = self.held.last_backend else { return Ok(None) };
        let Some(mut checkout) = self.retake(backend) else { return Ok(None) };
        if checkout.connection().remembers(&memory) && checkout.is_ready(&self.state.want, &memory) {
            return Ok(Some(self.note(checkout)));
        }
        self.held.seats.put(backend, checkout.give_back());
        Ok(None)
    }

    /// False for what must not run on a replica, beside being about the last statement.
    fn may_run_there(&self, backend: BackendId, statement: &Statement, sql: &[u8]) -> bool {
        let is_primary = self.resolve(Target::Primary).is_ok_and(|primary| primary == backend);
        let reads = matches!(statement.class, Class::Select | Class::Show | Class::Set | Class::Do);
        let may_write = Effects::CALLS_ROUTINE.union(Effects::UNKNOWN).union(Effects::GETS_LOCK);
        let words = || sql.split(|byte| !byte.is_ascii_alphanumeric());
        // FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE: in a text that names none of them nothing locks.
        let locks = || {
            words().any(|word| [&b"update"[..], b"share"].iter().any(|lock| word.eq_ignore_ascii_case(lock)))
        };
        is_primary
            || !self.state.pins.is_empty()
            || reads && !statement.effects.intersects(may_write) && !locks()
    }

    /// Sees to it that the memory has what only connections knew: the one that the session is pinned to and those in its
    /// own seats are asked, those that others have taken are waited for. One that breaks takes along what it knew.
    pub(crate) async fn recall(&mut self) {
        if let Some(mut bound) = self.held.bound.take() {
            if bound.connection().is_owned_by(&self.held.memory) && bound.connection().has_unsaved() {
                // One that breaks is found to be lost by the next statement.
                let _ = bound.save().await;
            }
            self.held.bound = Some(bound);
        }
        for (backend, seat) in self.held.seats.take_all() {
            let Some(mut checkout) = self.worker.pool.retake(backend, seat, &self.held.memory) else {
                continue;
            };
            if !checkout.connection().has_unsaved() || checkout.save().await.is_ok() {
                self.held.seats.put(backend, checkout.give_back());
            }
        }
        self.held.memory.wait_until_saved().await;
    }

    /// Makes LAST_INSERT_ID() on this connection what the session's last statements made it.
    pub(crate) async fn restore_insert_id(&mut self, checkout: &mut Checkout) -> Result<(), ProxyError> {
        if !checkout.connection().has_insert_id(&self.held.memory) {
            Box::pin(self.recall()).await;
        }
        let memory = self.held.memory.clone();
        checkout.restore_insert_id(&memory).await.map_err(ProxyError::Pool)
    }

    /// What can be written into a text in the place of functions; an error if it asks for what nobody knows any more.
    pub(crate) fn known_from_memory(&self, statement: &Statement) -> Result<Known, ProxyError> {
        let found_rows = self.held.memory.found_rows();
        if found_rows.is_none() && statement.uses.contains(Uses::FOUND_ROWS) {
            return Err(ProxyError::DiagnosticsGone);
        }
        let list = self.held.memory.list_counts();
        if list.is_none() && statement.uses.contains(Uses::DIAGNOSTICS) {
            return Err(ProxyError::DiagnosticsGone);
        }
        let row_count = Some(self.held.memory.row_count.get());
        Ok(Known { connection_id: self.activity.id.0, found_rows, row_count, list })
    }

    /// True if any connection answers what the statement asks about the list of warnings: the memory knows `@@warning_count` and
    /// `@@error_count`, which are written into the text, or the list is empty, and is made so there.
    pub(crate) fn can_ask_anywhere(&self, statement: &Statement, text: &SqlText<'_>) -> bool {
        if statement.class == Class::Diagnostics {
            let asks_more = statement.uses.contains(Uses::ROW_COUNT);
            return self.held.memory.has_no_warnings() && !asks_more;
        }
        // On MariaDB, a statement with tables has emptied the list before it counts.
        let is_of_before = text.lex.flavor == Flavor::MySql || !text.has_tables();
        let is_one = matches!(
            statement.class,
            Class::Select
                | Class::Set
                | Class::Do
                | Class::Insert
                | Class::Replace
                | Class::Update
                | Class::Delete
        );
        is_one
            && is_of_before
            && !statement.effects.intersects(Effects::OPAQUE)
            && self.held.memory.list_counts().is_some()
    }

    /// What becomes of FOUND_ROWS().
    #[inline]
    pub(crate) fn rows_left(&mut self, ran: Ran<'_>) -> RowsLeft {
        let Ran { statement, response, .. } = ran;
        let is_plain = statement.class == Class::Select && response.is_ok() && response.result_sets > 0;
        if is_plain
            && !counts_otherwise(statement)
            && statement.effects.is_empty()
            && !self.state.lex.limits_rows(&self.state.want.vars)
        {
            return RowsLeft::Sent;
        }
        if let Some(known) = self.state.ran_by_execute(statement, ran.text) {
            let (statement, sql) = known.runs();
            let text = &SqlText::new(sql, ran.text.lex);
            return self.rows_left(Ran { statement, text, ..ran });
        }
        rows_left(ran, &(0..ran.text.sql.len()), self.state.lex.limits_rows(&self.state.want.vars))
    }

    /// What becomes of the list of warnings.
    pub(crate) fn list_left(checkout: &mut Checkout, ran: Ran<'_>) -> ListLeft {
        let Ran { statement, text, response } = ran;
        if shows_list(statement, response) {
            return ListLeft::Kept;
        }
        let is_silent = response.is_ok() && response.warnings == 0;
        // The answer counts the warnings of the last one of several, which may have kept the list of one before.
        let are_several = matches!(statement.class, Class::Multi | Class::Call);
        if !is_silent || !are_several && !checkout.connection().may_list() {
            return ListLeft::Own;
        }
        if text.lex.flavor == Flavor::MySql {
            return ListLeft::Own;
        }
        if statement.class == Class::Multi && text.has_tables() {
            // One of them has emptied it.
            return ListLeft::OnServer;
        }
        if statement.class == Class::Multi && !has_word(text.sql, b"show") {
            return ListLeft::UntoldOrKept;
        }
        if are_several || statement.class == Class::Prepare || statement.effects.intersects(Effects::OPAQUE) {
            return ListLeft::Untold;
        }
        if keeps_list(statement.class, text) { ListLeft::Kept } else { ListLeft::Own }
    }
}

/// Errors of statements that were not begun: syntax, no such table, column, routine, schema; no rights to it, a wrong number of
/// arguments or variables.
const NOT_BEGUN: &[u16] =
    &[1044, 1046, 1049, 1054, 1064, 1066, 1142, 1143, 1146, 1210, 1222, 1243, 1305, 1318, 1370, 1630];

/// True if servers count other rows than those that they send.
pub(crate) fn counts_otherwise(statement: &Statement) -> bool {
    statement.effects.contains(Effects::CALC_FOUND_ROWS) || statement.uses.contains(Uses::SKIPS_ROWS)
}

/// What becomes of FOUND_ROWS(), as it was seen on MySQL 9.7 and MariaDB 10.11: docs/protocol-notes.md.
/// `part` is where the statement is in the text.
fn rows_left(ran: Ran<'_>, part: &Range<usize>, is_limited: bool) -> RowsLeft {
    let Ran { statement, text, response } = ran;
    let (sql, lex) = (&text.sql[part.clone()], text.lex);
    let (is_mysql, has_rows) = (lex.flavor == Flavor::MySql, response.result_sets > 0);
    let is_counted = counts_otherwise(statement);
    let is_begun = response.error.is_none_or(|code| !NOT_BEGUN.contains(&code));
    let when = |condition| if condition { RowsLeft::Counted } else { RowsLeft::Kept };
    let may = |condition| if condition { RowsLeft::CountedOrKept } else { RowsLeft::Kept };
    let has = |word| has_word(sql, word);
    match statement.class {
        // Rows that a routine has sent are taken for those of a query.
        Class::Call | Class::Execute if has_rows => RowsLeft::Counted,
        Class::Multi if has_rows && !has(b"show") && (has(b"select") || has(b"values")) => RowsLeft::Counted,
        Class::Multi => several_leave(ran, is_limited),
        Class::Call | Class::Execute | Class::Unknown => may(is_begun),
        _ if !response.is_ok() && is_mysql => RowsLeft::Kept,
        Class::Select | Class::Values | Class::Table | Class::With if has_rows => {
            if response.is_ok() && (is_counted || is_limited) { RowsLeft::Counted } else { RowsLeft::Sent }
        }
        Class::With => may(is_begun),
        Class::Select | Class::Values | Class::Table => {
            when(response.error.is_none_or(|code| code == error_code::TOO_MANY_ROWS))
        }
        Class::Insert | Class::Replace if is_counted => when(is_begun),
        _ if statement.effects.contains(Effects::MAY_COUNT_ROWS) => may(is_begun),
        Class::Describe => RowsLeft::Sent,
        Class::Show if shows_tables(sql, lex) => RowsLeft::Sent,
        // It counts the rows that it finds, as its answer says.
        Class::Update if is_mysql => response.matched_rows.map_or(RowsLeft::CountedOrKept, RowsLeft::Known),
        // With a query, which is not run if the table is there: that is a warning.
        Class::CreateTable | Class::CreateTemporaryTable if !is_mysql && is_counted => {
            if response.is_ok() && response.warnings == 0 { RowsLeft::Counted } else { may(is_begun) }
        }
        Class::Explain if has(b"analyze") => may(is_begun),
        Class::Do if is_mysql => RowsLeft::Known(1),
        Class::Do | Class::Set if !is_mysql => when(is_begun && text.has_tables_in(part)),
        Class::Explain if !is_mysql => when(is_begun && !text.has_tables_in(part)),
        _ => RowsLeft::Kept,
    }
}

/// The same of several statements. Where one of them has counted, the connection knows.
fn several_leave(ran: Ran<'_>, is_limited: bool) -> RowsLeft {
    let Ran { statement, text, response } = ran;
    let is_begun = response.error.is_none_or(|code| !NOT_BEGUN.contains(&code));
    if !is_begun && response.status.is_none() && !statement.effects.intersects(Effects::OPAQUE) {
        return RowsLeft::Kept;
    }
    let has_rows = response.result_sets > 0;
    let left = |part: &Range<usize>, statement: &Statement| {
        let response = &Response::default();
        // One that was not begun keeps what was, and so do those behind it.
        let is_query = matches!(statement.class, Class::Select | Class::Values | Class::Table | Class::With);
        let may_be_that_one =
            !is_begun && is_query && !has_rows && !has_word(&text.sql[part.clone()], b"into");
        (rows_left(Ran { statement, text, response }, part, is_limited), may_be_that_one)
    };
    let counts = |left: RowsLeft| !matches!(left, RowsLeft::Kept | RowsLeft::CountedOrKept);
    // Those that were run for certain: all, or the first one.
    let certain = if response.is_ok() { usize::MAX } else { usize::from(response.status.is_some()) };
    // Of a text that was too long nothing is here.
    let mut are_kept = !text.sql.is_empty();
    for (at, (part, statement)) in text.names().statements.iter().enumerate() {
        let (left, may_be_that_one) = left(part, statement);
        if at < certain && counts(left) && !may_be_that_one {
            return RowsLeft::Counted;
        }
        are_kept &= left == RowsLeft::Kept || may_be_that_one;
    }
    if are_kept { RowsLeft::Kept } else { RowsLeft::CountedOrKept }
}

/// False for forms of SHOW that no table stands behind.
fn shows_tables(sql: &[u8], lex: LexOptions) -> bool {
    const OTHERS: [&str; 20] = [
        "create",
        "grants",
        "privileges",
        "binary",
        "binlog",
        "master",
        "slave",
        "slaves",
        "replica",
        "replicas",
        "relaylog",
        "engine",
        "processlist",
        "warnings",
        "errors",
        "explain",
        "profile",
        "profiles",
        "authors",
        "contributors",
    ];
    const OTHERS_OF_MYSQL: [&str; 2] = ["engines", "storage"];
    let words = sql.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let passed = ["show", "full", "all"];
    let is = |word: &[u8], list: &[&str]| list.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()));
    let mut words = words.skip_while(|word| is(word, &passed));
    let others_here: &[&str] = if lex.flavor == Flavor::MySql { &OTHERS_OF_MYSQL } else { &[] };
    words.next().is_none_or(|word| !is(word, &OTHERS) && !is(word, others_here))
}

/// True for a statement about the list, which leaves it as it is.
fn shows_list(statement: &Statement, response: &Response) -> bool {
    statement.uses.contains(Uses::DIAGNOSTICS)
        && (statement.class == Class::Show || statement.class == Class::Diagnostics && response.is_ok())
}

fn has_word(sql: &[u8], wanted: &[u8]) -> bool {
    sql.split(|byte| !byte.is_ascii_alphanumeric()).any(|word| word.eq_ignore_ascii_case(wanted))
}

/// True if MariaDB keeps the warnings of the statement before for this one, if it has none of its own: it has no tables.
/// Source: what 10.11 was seen to do, in e2e/tests/warnings.rs.
fn keeps_list(class: Class, text: &SqlText<'_>) -> bool {
    let (sql, lex) = (text.sql, text.lex);
    let has = |wanted| has_word(sql, wanted);
    match class {
        Class::OtherDdl => changes_no_table(sql, lex),
        Class::Backup => !bare_words(sql, lex).any(|word| word.eq_ignore_ascii_case(b"lock")),
        Class::Admin => bare_words(sql, lex).next().is_some_and(|verb| is_one_of(verb, &["reset", "help"])),
        Class::Account | Class::Replication => true,
        Class::Show => {
            (has(b"profiles") || !shows_tables(sql, lex) && !has(b"profile")) && !text.has_tables()
        }
        Class::Empty
        | Class::Select
        | Class::Values
        | Class::With
        | Class::Do
        | Class::Set
        | Class::Use
        | Class::Begin
        | Class::StartTransaction
        | Class::Commit
        | Class::Rollback
        | Class::Savepoint
        | Class::ReleaseSavepoint
        | Class::RollbackToSavepoint
        | Class::Xa
        | Class::UnlockTables
        | Class::Deallocate
        | Class::Kill
        | Class::Flush
        | Class::Explain => !text.has_tables(),
        _ => false,
    }
}

/// True if what a text creates, alters or drops is nothing that stands where a table may, nor belongs to one.
fn changes_no_table(sql: &[u8], lex: LexOptions) -> bool {
    const OBJECTS: [&str; 7] = ["database", "schema", "function", "procedure", "package", "event", "server"];
    const WITH_TABLES: [&str; 5] = ["table", "view", "index", "trigger", "sequence"];
    let mut words = bare_words(sql, lex);
    let verb = words.next().unwrap_or_default();
    let object = words.find(|word| is_one_of(word, &OBJECTS) || is_one_of(word, &WITH_TABLES));
    // Which table a trigger belongs to, only CREATE says.
    let is_drop = verb.eq_ignore_ascii_case(b"drop");
    is_one_of(verb, &["create", "alter", "drop"])
        && object.is_some_and(|object| {
            is_one_of(object, &OBJECTS) || is_drop && object.eq_ignore_ascii_case(b"trigger")
        })
}

fn is_one_of(word: &[u8], list: &[&str]) -> bool {
    list.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
}

#[cfg(test)]
mod tests {
    use delphinus_sql::classify;
    use delphinus_wire::response::Status;

    use super::*;

    fn left_by(statement: &Statement, (sql, lex): (&str, LexOptions), response: &Response) -> RowsLeft {
        let text = &SqlText::new(sql.as_bytes(), lex);
        rows_left(Ran { statement, text, response }, &(0..sql.len()), false)
    }

    /// What a statement leaves of FOUND_ROWS() on MariaDB and on MySQL, with `rows` sent if it sends any.
    fn left(sql: &str, rows: Option<u64>, error: Option<u16>) -> [RowsLeft; 2] {
        [Flavor::MariaDb, Flavor::MySql].map(|flavor| {
            let lex = LexOptions { flavor, ..LexOptions::default() };
            let statement = classify(sql.as_bytes(), lex);
            let result_sets = u32::from(rows.is_some());
            let response = Response { rows: rows.unwrap_or(0), result_sets, error, ..Response::default() };
            left_by(&statement, (sql, lex), &response)
        })
    }

    #[test]
    fn found_rows_are_those_that_servers_count() {
        use RowsLeft::{Counted, CountedOrKept as Unclear, Kept, Known, Sent};
        for (sql, rows, error, expected) in [
            ("SELECT a FROM t", Some(3), None, [Sent, Sent]),
            ("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", Some(1), None, [Counted, Counted]),
            ("SELECT a FROM t", None, Some(1054), [Kept, Kept]),
            ("SELECT a FROM t", Some(2), Some(1690), [Sent, Kept]),
            ("SELECT a INTO @a FROM t LIMIT 1", None, None, [Counted, Counted]),
            ("SELECT a INTO @a FROM t", None, Some(1172), [Counted, Kept]),
            ("BEGIN", None, None, [Kept, Kept]),
            ("SET @a = 1", None, None, [Kept, Kept]),
            ("SET @a = (SELECT MAX(a) FROM t)", None, None, [Counted, Kept]),
            ("DO 1", None, None, [Kept, Known(1)]),
            ("INSERT INTO t VALUES (1), ((SELECT 2))", None, None, [Unclear, Unclear]),
            ("INSERT INTO t (a) SELECT a FROM u", None, None, [Counted, Counted]),
            ("INSERT INTO t VALUES (1, (SELECT MAX(a) FROM u))", None, None, [Unclear, Unclear]),
            ("UPDATE t SET a = 1", None, None, [Kept, Unclear]),
            ("UPDATE t SET a = 1, b = 2 ORDER BY a LIMIT 2", None, None, [Kept, Unclear]),
            ("UPDATE t, u SET t.a = u.a", None, None, [Unclear, Unclear]),
            ("UPDATE t JOIN u USING (a) SET t.b = 1", None, None, [Unclear, Unclear]),
            ("UPDATE t JOIN u USING (a) SET t.b = 1", None, Some(1146), [Kept, Kept]),
            ("DELETE FROM t", None, None, [Kept, Kept]),
            ("DELETE QUICK FROM t WHERE a IN (1, 2)", None, None, [Kept, Kept]),
            ("DELETE t FROM t", None, None, [Unclear, Unclear]),
            ("DELETE FROM t WHERE a IN (SELECT a FROM u)", None, None, [Unclear, Unclear]),
            ("CREATE TABLE t (a INT)", None, None, [Kept, Kept]),
            ("CREATE TABLE t (a TEXT COMMENT 'select')", None, None, [Kept, Kept]),
            ("CREATE TABLE t SELECT 1 AS a", None, None, [Counted, Kept]),
            ("CREATE TEMPORARY TABLE t (b INT) AS (SELECT 1 AS a)", None, None, [Counted, Kept]),
            ("CREATE TABLE t SELECT 1 AS a", None, Some(1062), [Unclear, Kept]),
            ("CALL p()", None, None, [Unclear, Unclear]),
            ("CALL p()", Some(2), None, [Counted, Counted]),
            ("EXECUTE s", None, None, [Unclear, Unclear]),
            ("SET @a = 1; UPDATE t SET a = 1", None, None, [Kept, Unclear]),
            ("BEGIN; SET @a = 1; COMMIT", None, None, [Kept, Kept]),
            ("BEGIN; SET @a = 1; COMMIT", None, Some(1064), [Kept, Kept]),
            ("SET @a = 1; DO 1", None, None, [Kept, Counted]),
            ("SELECT a FROM t; SHOW WARNINGS", Some(2), None, [Counted, Counted]),
            ("CALL p(); SELECT a INTO @a FROM t", None, None, [Counted, Counted]),
            ("SELECT 1; COMMIT", Some(1), None, [Counted, Counted]),
            ("COMMIT; SHOW WARNINGS", Some(1), None, [Kept, Kept]),
            ("CALL p()", None, Some(1305), [Kept, Kept]),
            ("SHOW TABLES", Some(2), None, [Sent, Sent]),
            ("SHOW FULL COLUMNS FROM t", Some(2), None, [Sent, Sent]),
            ("SHOW WARNINGS", Some(2), None, [Kept, Kept]),
            ("SHOW COUNT(*) WARNINGS", Some(1), None, [Sent, Sent]),
            ("SHOW CREATE TABLE t", Some(1), None, [Kept, Kept]),
            ("SHOW GRANTS", Some(2), None, [Kept, Kept]),
            ("SHOW ENGINES", Some(8), None, [Sent, Kept]),
            ("EXPLAIN SELECT 1", Some(1), None, [Counted, Kept]),
            ("EXPLAIN ANALYZE SELECT a FROM t", Some(1), None, [Unclear, Unclear]),
        ] {
            assert_eq!(left(sql, rows, error), expected, "{sql} {error:?}");
        }
    }

    #[test]
    fn of_several_statements_those_before_an_error_count() {
        use RowsLeft::{Counted, CountedOrKept as Unclear, Kept};
        for (sql, error, expected) in [
            ("SET @a = 1; SELECT a FROM none; SET @b = 1", 1146, [Kept, Kept]),
            ("DO 1; SELECT a FROM none", 1146, [Kept, Counted]),
            ("SET @b = 1; DO 1; SELECT a FROM none", 1146, [Kept, Unclear]),
            ("SELECT 1 INTO @a; SELECT a FROM none", 1146, [Counted, Counted]),
            ("SELECT 1 INTO OUTFILE '/x'; SELECT a FROM none", 1146, [Counted, Counted]),
            ("CALL p(); COMMIT", 1146, [Unclear, Unclear]),
            ("SET @a = 1; UPDATE t SET a = 1", 1213, [Kept, Unclear]),
        ] {
            let found = [Flavor::MariaDb, Flavor::MySql].map(|flavor| {
                let lex = LexOptions { flavor, ..LexOptions::default() };
                let status = Some(Status::default());
                let response = Response { error: Some(error), status, ..Response::default() };
                let statement = &classify(sql.as_bytes(), lex);
                left_by(statement, (sql, lex), &response)
            });
            assert_eq!(found, expected, "{sql} {error}");
        }
        // With rows, one of the queries has counted.
        let sql = "SHOW CREATE TABLE t; SELECT a FROM t; SELECT a FROM none";
        let statement = &classify(sql.as_bytes(), LexOptions::default());
        let status = Some(Status::default());
        let response = &Response { error: Some(1146), status, result_sets: 2, ..Response::default() };
        assert_eq!(left_by(statement, (sql, LexOptions::default()), response), Unclear);
        // A text that was too long to keep.
        let statement = &classify(b"SET @a = 1; SELECT 2", LexOptions::default());
        let response = &Response { result_sets: 1, ..Response::default() };
        assert_eq!(left_by(statement, ("", LexOptions::default()), response), Unclear);
    }
}
