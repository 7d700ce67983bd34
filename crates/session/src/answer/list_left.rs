//! What a statement leaves of the list of warnings, as far as its answer tells.

use delphinus_pool::{Checkout, ListLeft};
use delphinus_sql::{Class, Effects, Flavor, LexOptions, SqlText, Statement, Uses, bare_words};
use delphinus_state::Response;

use super::rows_left::{has_word, shows_tables};
use crate::state::Ran;

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

/// True for a statement about the list, which leaves it as it is.
fn shows_list(statement: &Statement, response: &Response) -> bool {
    statement.uses.contains(Uses::DIAGNOSTICS)
        && (statement.class == Class::Show || statement.class == Class::Diagnostics && response.is_ok())
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
