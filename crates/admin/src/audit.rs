//! What operators have changed, or were refused: the table `audit`, and a line in the log for each. Bounded, and without secrets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Instant, SystemTime};

use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::rt;
use delphinus_tables::{self as tables, Cell, Column};

use crate::answer::{Answer, Refused};
use crate::command::Caller;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::time::stamp;
use crate::users::AdminRole;

/// Statements that are kept at most.
const MOST: usize = 1000;
/// The longest statement that is kept, in bytes, and the longest result.
const STATEMENT: usize = 1024;
const RESULT: usize = 512;
/// What stands for a secret.
const HIDDEN: &str = "(hidden)";

/// The statements, the oldest first.
pub(crate) struct Audit(RefCell<Book>);

struct Book {
    entries: VecDeque<Entry>,
    next: u64,
    room: Permit,
}

struct Entry {
    number: u64,
    at: SystemTime,
    begun: Instant,
    user: String,
    host: String,
    role: AdminRole,
    statement: String,
    /// What came of it, and after how many milliseconds; `None`: it runs.
    end: Option<(String, u64)>,
}

impl Entry {
    /// What it takes once it has a result.
    fn size(&self) -> usize {
        size_of::<Self>() + self.user.len() + self.host.len() + self.statement.len() + RESULT
    }
}

/// A statement that has begun.
pub(crate) struct Noted {
    number: u64,
    /// Without secrets.
    statement: String,
}

impl Audit {
    pub(crate) fn new(memory: &Account) -> Self {
        let book = Book { entries: VecDeque::new(), next: 1, room: memory.open(Owner::Audit) };
        Self(RefCell::new(book))
    }

    /// An operator's statement begins.
    pub(crate) fn begin(&self, caller: &Caller, statement: &str) -> Noted {
        let mut book = self.0.borrow_mut();
        let number = book.next;
        book.next += 1;
        // What is long is cut first, so that it takes no time; secrets that were cut in two are hidden as well.
        let begin = &statement[..statement.floor_char_boundary(STATEMENT)];
        let more = if begin.len() < statement.len() { ".." } else { "" };
        let statement = cut(without_secrets(begin) + more, STATEMENT);
        book.keep(Entry {
            number,
            at: SystemTime::now(),
            begun: rt::now(),
            user: caller.user.clone(),
            host: caller.host.clone(),
            role: caller.role,
            statement: statement.clone(),
            end: None,
        });
        Noted { number, statement }
    }

    /// It has ended.
    pub(crate) fn end(&self, noted: &Noted, caller: &Caller, end: Result<&Answer, &Refused>) {
        let (result, statement) = (cut(told(end), RESULT), &noted.statement);
        tracing::warn!(
            admin.user = %caller.user, client.host = %caller.host, statement, result, "an operator's command"
        );
        let mut book = self.0.borrow_mut();
        if let Some(entry) = book.entries.iter_mut().rev().find(|entry| entry.number == noted.number) {
            let took = u64::try_from(entry.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            entry.end = Some((result, took));
        }
    }

    fn rows(&self) -> Cells {
        let row = |entry: &Entry| {
            let (result, took) = match &entry.end {
                Some((result, took)) => (text(result), number(*took)),
                None => (text("running"), Cell::Null),
            };
            let by = [&entry.user, &entry.host, entry.role.as_str()].map(text);
            let before = [number(entry.number), text(stamp(entry.at))];
            before.into_iter().chain(by).chain([text(&entry.statement), result, took]).collect()
        };
        self.0.borrow().entries.iter().map(row).collect()
    }
}

impl Book {
    /// The oldest make way, for its number and for its memory.
    fn keep(&mut self, entry: Entry) {
        while self.entries.len() >= MOST {
            self.entries.pop_front();
        }
        let mut bytes = self.entries.iter().map(Entry::size).sum::<usize>() + entry.size();
        while !self.room.grow_to(bytes) {
            let Some(oldest) = self.entries.pop_front() else { return };
            bytes -= oldest.size();
        }
        self.room.shrink_to(bytes);
        self.entries.push_back(entry);
    }
}

pub(crate) static AUDIT: Source = Source {
    table: tables::Table {
        name: "audit",
        help: "The operators' changes, and the commands that were refused because the operator lacks the role: the \
         last 1,000 of these, the oldest first.",
        columns: &[
            Column::integer("number", "", "Counted from the start of the process."),
            Column::text("time", "When it began, UTC."),
            Column::text("user", "The operator."),
            Column::text("host", "Where the operator connects from."),
            Column::text("role", "The operator's role."),
            Column::text("statement", "The statement without secrets, at most 1 KiB of it."),
            Column::text("result", "done, the number of rows, an error, or running."),
            Column::integer("took_ms", "ms", "How long it has run; NULL while it runs."),
        ],
        over: "",
    },
    role: AdminRole::Operator,
    rows: Provider::Now(|console| console.audit.rows()),
};

fn told(end: Result<&Answer, &Refused>) -> String {
    match end {
        Ok(Answer::Done) => "done".to_owned(),
        Ok(Answer::Rows(table)) => match table.len() {
            1 => "1 row".to_owned(),
            count => format!("{count} rows"),
        },
        Err(refused) => format!("error {}: {}", refused.code, refused.text),
    }
}

/// A text of at most so many bytes, without characters that terminals obey.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - "..".len()));
        text.push_str("..");
    }
    if text.contains(char::is_control) { text.replace(char::is_control, " ") } else { text }
}

/// True for the name of an option that holds a secret, also for one that is mistyped.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = name.rsplit('.').next().unwrap_or_default();
    ["pas", "pw", "hash", "secret", "auth", "token"].iter().any(|part| own.contains(part))
}

/// The statement, with what is assigned to secrets hidden: all up to the next comma outside of quotes. What stands behind such a
/// name without an equals sign is not understood, and hidden to its end.
fn without_secrets(statement: &str) -> String {
    let mut out = String::new();
    let mut rest = statement;
    while let Some(first) = rest.chars().next() {
        let length = token(rest, first);
        let (one, behind) = rest.split_at(length);
        out.push_str(one);
        rest = behind;
        if !is_name(first) || !is_secret(one) {
            continue;
        }
        let value = rest.trim_start();
        let Some(value) = value.strip_prefix('=') else {
            // Names of backends and users may look like this; those of the options do not stand alone.
            if one.to_ascii_lowercase().starts_with("pass") && !value.is_empty() && !value.starts_with(',') {
                return out + " " + HIDDEN;
            }
            continue;
        };
        out.push_str(" = ");
        out.push_str(HIDDEN);
        rest = &value[end_of_value(value)..];
    }
    out
}

/// True for what names of options are made of.
fn is_name(one: char) -> bool {
    one.is_alphanumeric() || one == '_' || one == '.'
}

/// How many bytes the token has that a text begins with: a text in quotes, a name, or one character.
fn token(text: &str, first: char) -> usize {
    if matches!(first, '\'' | '"' | '`') {
        return end_of_quoted(text, first);
    }
    if is_name(first) {
        return text.find(|one| !is_name(one)).unwrap_or(text.len());
    }
    first.len_utf8()
}

/// Where a text in quotes ends that begins here; a doubled quote is two of them.
fn end_of_quoted(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |at| at + 2)
}

/// Where a value ends: at a comma outside of quotes and brackets.
fn end_of_value(text: &str) -> usize {
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first == ',' {
            return at;
        }
        at += token(&text[at..], first);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_stays() {
        for (statement, expected) in [
            (
                "ADD USER app password = 'a, b', default_schema = x",
                "ADD USER app password = (hidden), default_schema = x",
            ),
            (
                "SET USER app PASSWORD='it''s', secondary_password=\"y\"",
                "SET USER app PASSWORD = (hidden), secondary_password = (hidden)",
            ),
            ("SET monitor.password = 'x'", "SET monitor.password = (hidden)"),
            ("SET USER a pasword = s3cret", "SET USER a pasword = (hidden)"),
            ("SET USER a password 's3cret'", "SET USER a password (hidden)"),
            ("SET USER a password /* = */ 's3cret'", "SET USER a password (hidden)"),
            ("SET USER a password = 's3cret", "SET USER a password = (hidden)"),
            ("SET USER a password = s3'cret', x = 1", "SET USER a password = (hidden), x = 1"),
            ("SET USER a authentication_string = '*00FF'", "SET USER a authentication_string = (hidden)"),
            (
                "ADD BACKEND db-pascal address = 'db4:3306', weight = 5",
                "ADD BACKEND db-pascal address = 'db4:3306', weight = 5",
            ),
            ("SET BACKEND 'password = x' weight = 5", "SET BACKEND 'password = x' weight = 5"),
            ("KILL 7", "KILL 7"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(statement), expected, "{statement}");
        }
    }

    fn caller() -> Caller {
        Caller { id: 1, user: "ops".to_owned(), host: "h".to_owned(), role: AdminRole::Admin }
    }

    #[test]
    fn the_book_is_bounded_in_number_and_in_memory() {
        let account = Account::new(64 << 10);
        let audit = Audit::new(&account);
        for _ in 0..3000 {
            let noted = audit.begin(&caller(), &"x\n".repeat(40_000));
            audit.end(&noted, &caller(), Ok(&Answer::Done));
        }
        let rows = audit.rows();
        assert!((10..=64).contains(&rows.len()), "{}", rows.len());
        assert_eq!(rows.last().unwrap()[0], number(3000));
        assert_eq!(rows.last().unwrap()[5].as_text().map(str::len), Some(STATEMENT));
        assert!(account.used() > 32 << 10 && account.used() <= 64 << 10);
        let wide = Account::unlimited();
        let audit = Audit::new(&wide);
        for _ in 0..3000 {
            audit.begin(&caller(), &"x".repeat(5000));
        }
        assert_eq!((audit.rows().len(), audit.rows()[0][0].clone()), (MOST, number(2001)));
        assert!(wide.used_by(Owner::Audit) < 2 << 20);
        drop(audit);
        assert_eq!(wide.used(), 0);
    }

    #[test]
    fn a_secret_at_the_cut_is_hidden() {
        let audit = Audit::new(&Account::unlimited());
        for before in STATEMENT - 60..STATEMENT {
            let statement = format!("SET USER {} password = 'topsecret', x = 1", "a".repeat(before));
            let noted = audit.begin(&caller(), &statement);
            assert!(
                !noted.statement.contains('t') && noted.statement.len() <= STATEMENT,
                "{}",
                noted.statement
            );
        }
    }

    #[test]
    fn without_any_room_nothing_is_kept() {
        let account = Account::new(100);
        let audit = Audit::new(&account);
        let noted = audit.begin(&caller(), "KILL 1");
        audit.end(&noted, &caller(), Ok(&Answer::Done));
        assert_eq!((audit.rows().len(), account.used(), account.refused(Owner::Audit)), (0, 0, 1));
    }
}
