//! Text to [`Statement`]: one pass over the tokens.
//!
//! Owns: the walk over the statements of a text and the choice by first word. Must not know sessions or backends. What
//! cannot be proven to only read is a write; what cannot be recognised has the effect `UNKNOWN`.

mod accounts;
mod admin;
mod condition;
mod ddl;
mod dml;
pub(crate) mod explain;
mod expression;
pub(crate) mod functions;
mod prepared;
mod rereading;
mod select;
mod sequence;
mod session;
mod set;
mod show;
mod transaction;

use std::ops::Range;

use crate::cursor::{Walk, Watch};
use crate::digest::{Digest, Sketch, Sketcher, Writer};
use crate::event::Event;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};
use crate::split::{Boundary, More};
use crate::{Access, Class, Effects, LexOptions, Risks, Statement, Uses, Why};
use rereading::Rereading;

/// Statements inside statements (`EXPLAIN`, `SET STATEMENT`) deeper than this are not followed.
const NESTING_MAX: u8 = 3;

/// What the text is, where it may run, and what it does to its session.
pub fn classify(sql: &[u8], options: LexOptions) -> Statement {
    walk(sql, options, |_| {})
}

/// True for `TRUNCATE` and nothing else.
pub(crate) fn begins_with_truncate(sql: &[u8], options: LexOptions) -> bool {
    crate::cursor::Cursor::new(sql, options).keyword() == Keyword::Truncate
}

/// The same, and the digest, in one reading of the text. Appends the normalised text to `out`; see [`digest`](crate::digest()).
pub fn classify_and_digest(sql: &[u8], options: LexOptions, out: &mut Vec<u8>) -> (Statement, Digest) {
    let mut writer = Writer::new(out);
    let statement = walk_all(sql, options, &mut writer, |_| {}, |_, _| {});
    (statement, writer.finish())
}

/// The same, and the sketch, which is cheaper than the digest. The seed is the caller's secret.
pub fn classify_and_sketch(sql: &[u8], options: LexOptions, seed: u64) -> (Statement, Sketch) {
    let mut sketcher = Sketcher::new(seed, options);
    let statement = walk_all(sql, options, &mut sketcher, |_| {}, |_, _| {});
    (statement, sketcher.finish())
}

/// The same, and hands everything with a name to `emit`.
pub(crate) fn walk(sql: &[u8], options: LexOptions, emit: impl FnMut(Event)) -> Statement {
    walk_each(sql, options, emit, |_, _| {})
}

/// The same, and hands each statement to `each`, with where it is.
pub(crate) fn walk_each(
    sql: &[u8],
    options: LexOptions,
    emit: impl FnMut(Event),
    each: impl FnMut(Range<usize>, Statement),
) -> Statement {
    walk_all(sql, options, (), emit, each)
}

/// The same, watched at each token that statements have.
fn walk_all(
    sql: &[u8],
    options: LexOptions,
    watch: impl Watch,
    emit: impl FnMut(Event),
    mut each: impl FnMut(Range<usize>, Statement),
) -> Statement {
    let mut classifier = Classifier::new(Walk::new(sql, options, watch), emit);
    let mut whole: Option<Statement> = None;
    let mut more = More::default();
    let mut is_half_read = false;
    while more.is_there(&classifier.cursor) {
        let start = classifier.cursor.here.start;
        if whole.is_some() && !is_half_read && classifier.rereading.concerns(&sql[start..]) {
            is_half_read = true;
            classifier.cursor.stop_watching();
        }
        let one = classifier.statement();
        classifier.rereading.note_statement(one.effects);
        each(start..classifier.cursor.before.end.max(start), one);
        if classifier.cursor.here.is(TokenKind::Semicolon) {
            classifier.cursor.bump();
        }
        whole = Some(whole.map_or(one, |whole| joined(whole, one)));
    }
    let whole = whole.unwrap_or(Statement {
        class: Class::Empty,
        access: Access::Write,
        why: Why::Empty,
        effects: Effects::empty(),
        uses: Uses::empty(),
        risks: Risks::empty(),
        count: 0,
        is_of_session: false,
    });
    if is_half_read { half_read(whole) } else { whole }
}

/// A text whose end a server may read in another way: there it may do anything. What it does as it is read here stays beside that.
fn half_read(whole: Statement) -> Statement {
    Statement {
        why: Why::AmbiguousText,
        effects: whole.effects | Effects::UNKNOWN,
        risks: whole.risks | Risks::UNSEEN,
        ..whole
    }
}

fn joined(whole: Statement, one: Statement) -> Statement {
    Statement {
        class: Class::Multi,
        access: Access::Write,
        why: Why::MultiStatement,
        effects: whole.effects | one.effects,
        uses: whole.uses | one.uses,
        risks: whole.risks | one.risks | Risks::SEVERAL_STATEMENTS,
        count: whole.count + 1,
        is_of_session: false,
    }
}

/// True for a statement of rows, whose class is no risk by itself.
fn is_of_rows(class: Class) -> bool {
    matches!(class, Class::Select | Class::Insert | Class::Update | Class::Delete | Class::Replace)
}

/// True for a reason of a query for which it may run on a replica in some sessions, or be sent again.
fn gives_way(why: Why) -> bool {
    matches!(
        why,
        Why::LockingRead
            | Why::IntoVariable
            | Why::AssignsUserVariable
            | Why::LastInsertId
            | Why::SessionFunction
            | Why::SystemVariable
            | Why::UnknownFunction
            | Why::ReplicationWait
            | Why::ServerState
            | Why::CalcFoundRows
            | Why::ProcedureClause
    )
}

/// Reads one statement after the other.
struct Classifier<'a, F, W> {
    cursor: Walk<'a, W>,
    emit: F,
    effects: Effects,
    uses: Uses,
    risks: Risks,
    /// Why this is not a plain read; see [`Self::refuse`].
    refused: Option<Why>,
    /// It does more than to look at its session, or to change that with plain values.
    is_of_more: bool,
    nesting: u8,
    /// Where the statement that is read begins.
    start: usize,
    /// Where the statement that is read ends.
    boundary: Boundary,
    /// Of the whole text.
    rereading: Rereading,
}

impl<'a, F: FnMut(Event), W: Watch> Classifier<'a, F, W> {
    fn new(cursor: Walk<'a, W>, emit: F) -> Self {
        Self {
            cursor,
            emit,
            effects: Effects::empty(),
            uses: Uses::empty(),
            risks: Risks::empty(),
            refused: None,
            is_of_more: false,
            nesting: 0,
            start: 0,
            boundary: Boundary::default(),
            rereading: Rereading::default(),
        }
    }

    /// Reads the statement here, up to the semicolon that ends it.
    fn statement(&mut self) -> Statement {
        self.effects = Effects::empty();
        self.uses = Uses::empty();
        self.risks = Risks::empty();
        self.refused = None;
        self.is_of_more = false;
        self.nesting = 0;
        self.start = self.cursor.here.start;
        self.boundary = Boundary::new(&self.cursor);
        let mut class = self.class();
        class = self.finish(class);
        if self.cursor.is_doubtful() {
            self.refuse(Why::AmbiguousText);
            self.risks |= Risks::UNSEEN;
        }
        if self.cursor.has_version_comment() {
            self.refuse_version_comment();
        }
        if self.cursor.has_hint() {
            self.uses |= Uses::HINTS;
        }
        let why = self.refused.unwrap_or(Why::PlainRead);
        let access = if why == Why::PlainRead { Access::Read } else { Access::Write };
        let is_of_session = access == Access::Write && self.is_of_session(class);
        let (effects, uses, risks) = (self.effects, self.uses, self.risks | self.risks_of(class));
        Statement { class, access, why, effects, uses, risks, count: 1, is_of_session }
    }

    /// Those that follow from what else was found.
    #[inline]
    fn risks_of(&self, class: Class) -> Risks {
        if is_of_rows(class) && self.effects.is_empty() {
            return Risks::empty();
        }
        let accounts = Effects::CHANGES_RIGHTS.union(Effects::SETS_PASSWORD);
        let of_class = match class {
            Class::LoadData | Class::LoadXml => Risks::LOADS_DATA,
            Class::CreateTable
            | Class::CreateTemporaryTable
            | Class::AlterTable
            | Class::DropTable
            | Class::DropTemporaryTable
            | Class::OtherDdl => Risks::CHANGES_SCHEMA,
            _ => Risks::empty(),
        };
        let of_effects = [
            (Effects::SETS_GLOBAL_VARS, Risks::SETS_GLOBAL),
            (accounts, Risks::CHANGES_ACCOUNTS),
            (Effects::OPAQUE, Risks::UNSEEN),
        ];
        let found = of_effects.into_iter().filter(|(effects, _)| self.effects.intersects(*effects));
        found.fold(of_class, |all, (_, risk)| all | risk)
    }

    /// Reads what is left of the statement. An error among the tokens makes it unknown, whatever it began with.
    fn finish(&mut self, class: Class) -> Class {
        self.scan();
        if self.effects.contains(Effects::UNKNOWN) && self.refused.is_none() {
            self.refuse(Why::Unclassified);
        }
        if self.refused == Some(Why::Unclassified) { Class::Unknown } else { class }
    }

    /// Reads as much of the statement as its form needs; [`Self::scan`] reads the rest as an expression.
    fn class(&mut self) -> Class {
        match self.cursor.keyword() {
            Keyword::Select => self.query(Class::Select),
            Keyword::Values => self.query(Class::Values),
            Keyword::Table => self.query(Class::Table),
            Keyword::With => self.with(),
            Keyword::Insert => self.insert(Class::Insert),
            Keyword::Replace => self.insert(Class::Replace),
            Keyword::Update => self.change(Class::Update),
            Keyword::Delete => self.change(Class::Delete),
            Keyword::Set => self.set(),
            Keyword::Commit => self.commit(),
            Keyword::Rollback => self.rollback(),
            Keyword::Begin => self.begin(),
            Keyword::Start => self.start(),
            Keyword::Show => self.show(),
            Keyword::Use => self.use_schema(),
            Keyword::Explain | Keyword::Describe | Keyword::Desc => self.explain(),
            Keyword::Load => self.load(),
            Keyword::Call => self.call_procedure(),
            Keyword::Do => self.do_expressions(),
            Keyword::Handler => self.handler(),
            Keyword::Prepare => self.prepare(),
            Keyword::Execute => self.execute(),
            Keyword::Deallocate => self.deallocate(),
            _ if self.cursor.here.is(TokenKind::Open) => self.parenthesised(),
            keyword => self.rare_class(keyword),
        }
    }

    fn rare_class(&mut self, keyword: Keyword) -> Class {
        match keyword {
            Keyword::Savepoint => self.whole(Class::Savepoint, Why::Transaction, Effects::SETS_SAVEPOINT),
            Keyword::Release => self.release(),
            Keyword::Xa => self.xa(),
            Keyword::Lock => self.lock(),
            Keyword::Unlock => self.unlock(),
            Keyword::Flush => self.flush(),
            Keyword::Backup => self.backup(),
            Keyword::Create => self.create(),
            Keyword::Drop => self.drop_object(),
            Keyword::Alter => self.alter(),
            Keyword::Rename => self.rename(),
            Keyword::Truncate => self.whole(Class::OtherDdl, Why::Ddl, Effects::IMPLICIT_COMMIT),
            Keyword::Grant | Keyword::Revoke => self.account(),
            Keyword::Analyze => self.analyze(),
            Keyword::Kill => self.kill(),
            Keyword::Get => self.get_diagnostics(),
            Keyword::Signal | Keyword::Resignal => self.signal(),
            Keyword::Help => self.help(),
            Keyword::Stop | Keyword::Change | Keyword::Purge | Keyword::Binlog | Keyword::Reset => {
                self.replication(keyword)
            }
            _ if self.cursor.here.ends_statement() => self.whole(Class::Empty, Why::Empty, Effects::empty()),
            _ => self.administration(keyword),
        }
    }

    /// A statement whose rest says nothing about the session: names of objects, accounts, options.
    fn whole(&mut self, class: Class, why: Why, effects: Effects) -> Class {
        self.refuse(why);
        self.effects |= effects;
        self.skip_rest();
        class
    }

    /// A statement that nobody here knows: it may do anything. A body is read where the statement has one, and where it is not before the
    /// token here.
    fn unknown(&mut self) -> Class {
        self.refused = Some(Why::Unclassified);
        self.effects |= Effects::UNKNOWN;
        if self.boundary.has_body() {
            self.effects |= Effects::CALLS_ROUTINE;
            self.skip_body();
        }
        self.scan();
        Class::Unknown
    }

    /// To the end of the statement, without looking at expressions.
    fn skip_rest(&mut self) {
        while !self.cursor.at_end() {
            self.skip_token();
        }
    }

    /// The same over the semicolons of its body. Gives the word for what has it, where that is defined.
    fn skip_body(&mut self) -> Keyword {
        let mut kind = Keyword::None;
        while !self.boundary.is_end(&self.cursor) {
            self.check_token();
            // The word is reserved: it can be nothing else.
            if self.cursor.here.is(TokenKind::Word) {
                match self.cursor.keyword() {
                    Keyword::Kill => self.effects |= Effects::KILLS,
                    Keyword::Execute => self.effects |= Effects::BODY_EXECUTES,
                    word @ (Keyword::Event
                    | Keyword::Procedure
                    | Keyword::Function
                    | Keyword::Trigger
                    | Keyword::Package)
                        if kind == Keyword::None =>
                    {
                        kind = word;
                    }
                    _ => {}
                }
            }
            self.boundary.follow(&mut self.cursor);
        }
        kind
    }

    /// Moves over the token here, and never over the end of the statement.
    fn skip_token(&mut self) {
        if self.cursor.at_end() {
            return;
        }
        self.check_token();
        self.check_delay();
        self.cursor.bump();
    }

    /// What no server can read makes the whole statement unknown.
    fn check_token(&mut self) {
        if self.cursor.here.is(TokenKind::Error) {
            self.effects |= Effects::UNKNOWN;
            self.refused = Some(Why::Unclassified);
        }
    }

    /// Notes why this is not a plain read. The first reason stays, but for one that gives way to what no replica may run: by the
    /// reason it is decided what a listener for reading lets through.
    fn refuse(&mut self, why: Why) {
        let known = *self.refused.get_or_insert(why);
        if gives_way(known) && why.is_for_primary() {
            self.refused = Some(why);
        }
        self.is_of_more |= !session::is_own(why);
    }

    /// One that was read as the server runs it has told its reason already.
    fn refuse_version_comment(&mut self) {
        if self.refused.is_none() || self.cursor.has_skipped_comment() {
            self.refuse(Why::VersionComment);
        }
        self.is_of_more = true;
    }

    fn emit(&mut self, event: Event) {
        (self.emit)(event);
    }

    /// Whether the token is this ASCII word, quoted or not.
    fn is_named(&self, token: Token, name: &[u8]) -> bool {
        self.bare(token).eq_ignore_ascii_case(name)
    }

    /// The token's text without the quotes of an identifier; what is doubled inside stays so.
    fn bare(&self, token: Token) -> &'a [u8] {
        let text = self.cursor.text(token);
        match (token.kind, text) {
            (TokenKind::Quoted, [_, inner @ .., _]) => inner,
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests;
