//! What operators, signals and the file have changed, and what operators were refused: the table `audit`, and a line in the log for each.
//! Bounded, and without secrets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Instant, SystemTime};

use delphinus_config::options;
use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::rt;
use delphinus_tables::{self as tables, Cell, Column};
use delphinus_telemetry::AUDIT_TARGET;

use crate::answer::{Answer, Refused};
use crate::command::Caller;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::time::stamp;
use crate::users::AdminRole;

/// Changes that are kept at most.
const MOST: usize = 1000;
/// Statements that were refused for want of a role have places of their own: whoever may change nothing pushes out no change.
const MOST_REFUSED: usize = 100;
/// The longest statement that is kept, in bytes, and the longest result.
const STATEMENT: usize = 1024;
const RESULT: usize = 512;
/// What the log says of an entry.
const OPERATOR: &str = "an operator's command";
const NO_OPERATOR: &str = "a signal, or a changed file";
/// What stands for a secret.
const HIDDEN: &str = "(hidden)";

/// The statements, the oldest first.
pub(crate) struct Audit(RefCell<Book>);

struct Book {
    changes: VecDeque<Entry>,
    refused: VecDeque<Entry>,
    next: u64,
    room: Permit,
}

struct Entry {
    number: u64,
    at: SystemTime,
    begun: Instant,
    user: String,
    host: String,
    /// `None`: it was no operator.
    role: Option<AdminRole>,
    statement: String,
    /// What came of it, and after how many milliseconds; `None`: it runs.
    end: Option<(String, u64)>,
}

impl Entry {
    /// What it takes once it has a result.
    fn size(&self) -> usize {
        size_of::<Self>() + self.user.len() + self.host.len() + self.statement.len() + RESULT
    }

    fn took_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
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
        let (changes, refused) = <(VecDeque<_>, VecDeque<_>)>::default();
        let book = Book { changes, refused, next: 1, room: memory.open(Owner::Audit) };
        Self(RefCell::new(book))
    }

    /// An operator's statement begins.
    pub(crate) fn begin(&self, caller: &Caller, statement: &str) -> Noted {
        let statement = kept_of(statement);
        let mut book = self.0.borrow_mut();
        let entry = book.entry(caller, statement.clone());
        let number = entry.number;
        book.keep(entry, Kind::Change);
        Noted { number, statement }
    }

    /// It has ended.
    pub(crate) fn end(&self, noted: &Noted, caller: &Caller, end: Result<&Answer, &Refused>) {
        let result = cut(told(end), RESULT);
        log((&caller.user, &caller.host), &noted.statement, &result, OPERATOR);
        let mut book = self.0.borrow_mut();
        if let Some(entry) = book.changes.iter_mut().rev().find(|entry| entry.number == noted.number) {
            entry.end = Some((result, entry.took_ms()));
        }
    }

    /// An operator wanted more than the role allows.
    pub(crate) fn refused(&self, caller: &Caller, statement: &str, refused: &Refused) {
        let (statement, result) = (kept_of(statement), cut(told(Err(refused)), RESULT));
        log((&caller.user, &caller.host), &statement, &result, OPERATOR);
        let mut book = self.0.borrow_mut();
        let entry = Entry { end: Some((result, 0)), ..book.entry(caller, statement) };
        book.keep(entry, Kind::Refused);
    }

    /// Something that no operator has asked for by a statement: a signal, a file that has changed.
    pub(crate) fn note(&self, who: &str, what: &str, result: &str) {
        let (what, result) = (kept_of(what), cut(result.to_owned(), RESULT));
        log((who, ""), &what, &result, NO_OPERATOR);
        let nobody = Caller { id: 0, user: who.to_owned(), host: String::new(), role: AdminRole::Viewer };
        let mut book = self.0.borrow_mut();
        let entry = Entry { role: None, end: Some((result, 0)), ..book.entry(&nobody, what) };
        book.keep(entry, Kind::Change);
    }

    fn rows(&self) -> Cells {
        let row = |entry: &Entry| {
            let (result, took) = match &entry.end {
                Some((result, took)) => (text(result), number(*took)),
                None => (text("running"), Cell::Null),
            };
            let role = entry.role.map_or(Cell::Null, |role| text(role.as_str()));
            let before = [number(entry.number), text(stamp(entry.at)), text(&entry.user), text(&entry.host)];
            before.into_iter().chain([role, text(&entry.statement), result, took]).collect()
        };
        let book = self.0.borrow();
        let mut all: Vec<_> = book.changes.iter().chain(&book.refused).collect();
        all.sort_by_key(|entry| entry.number);
        all.into_iter().map(row).collect()
    }
}

/// Which places an entry takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Change,
    Refused,
}

impl Book {
    /// The next one, which begins now.
    fn entry(&mut self, caller: &Caller, statement: String) -> Entry {
        let number = self.next;
        self.next += 1;
        Entry {
            number,
            at: SystemTime::now(),
            begun: rt::now(),
            user: caller.user.clone(),
            host: caller.host.clone(),
            role: Some(caller.role),
            statement,
            end: None,
        }
    }

    /// The oldest make way: for its number those of its kind, for its memory those that were refused first.
    fn keep(&mut self, entry: Entry, kind: Kind) {
        let own = if kind == Kind::Change { &mut self.changes } else { &mut self.refused };
        let most = if kind == Kind::Change { MOST } else { MOST_REFUSED };
        while own.len() >= most {
            own.pop_front();
        }
        let kept = self.changes.iter().chain(&self.refused);
        let mut bytes = kept.map(Entry::size).sum::<usize>() + entry.size();
        while !self.room.grow_to(bytes) {
            let change = || if kind == Kind::Change { self.changes.pop_front() } else { None };
            let Some(oldest) = self.refused.pop_front().or_else(change) else { return };
            bytes -= oldest.size();
        }
        self.room.shrink_to(bytes);
        match kind {
            Kind::Change => self.changes.push_back(entry),
            Kind::Refused => self.refused.push_back(entry),
        }
    }
}

fn log((user, host): (&str, &str), statement: &str, result: &str, message: &str) {
    tracing::warn!(
        target: AUDIT_TARGET,
        { admin.user = user, client.host = host, statement, result },
        "{message}"
    );
}

/// What is kept of a statement. What is long is cut first, so that it takes no time; secrets that were cut in two are hidden as well.
fn kept_of(statement: &str) -> String {
    let begin = &statement[..statement.floor_char_boundary(STATEMENT)];
    let more = if begin.len() < statement.len() { ".." } else { "" };
    cut(without_secrets(begin) + more, STATEMENT)
}

pub(crate) static AUDIT: Source = Source {
    table: tables::Table {
        name: "audit",
        help: "What operators, signals and the file have changed: the last 1,000 of these; and what operators were refused for want of a \
               role: the last 100. The oldest first. Only the log keeps them beyond the end of the process.",
        columns: &[
            Column::integer("number", "", "Counted from the start of the process."),
            Column::text("time", "When it began, UTC."),
            Column::text("user", "The operator; `signal`; `file`: it had changed, and auto_reload is on."),
            Column::text("host", "Where the operator comes from; empty for signals and the file."),
            Column::text("role", "The operator's role; NULL for signals and the file."),
            Column::text("statement", "The statement without secrets, at most 1 KiB of it; or the signal."),
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

/// True for the name of an option that may hold a secret, also for one that is mistyped: what is refused is told, too. A test holds the
/// words against the secrets of the schema.
fn is_secret(own: &str) -> bool {
    ["pas", "pw", "hash", "secret", "auth", "tok"].iter().any(|part| own.contains(part))
}

/// True for a name behind which a secret stands also without an equals sign. Names of backends and users may look like secrets; those of the
/// options do not stand alone.
fn is_option(own: &str) -> bool {
    own.starts_with("pass")
        || options().iter().filter(|option| option.is_secret).any(|option| {
            let name = option.path.rsplit('.').next().unwrap_or_default();
            name == own || option.aliases.contains(&own)
        })
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
        let name = one.to_ascii_lowercase();
        let own = name.rsplit('.').next().unwrap_or_default();
        if !is_name(first) || !is_secret(own) {
            continue;
        }
        let value = rest.trim_start();
        let Some(value) = value.strip_prefix('=') else {
            if is_option(own) && !value.is_empty() && !value.starts_with(',') {
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
            ("SET lease.failsafe_token 's3cret'", "SET lease.failsafe_token (hidden)"),
            ("SET monitor.password 's3cret'", "SET monitor.password (hidden)"),
            ("SET lease.failsafe_tokn = 's3cret'", "SET lease.failsafe_tokn = (hidden)"),
            ("KILL 7", "KILL 7"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(statement), expected, "{statement}");
        }
    }

    #[test]
    fn each_secret_of_the_schema_is_hidden_under_all_its_names() {
        for option in options().iter().filter(|option| option.is_secret) {
            let (section, own) = option.path.rsplit_once('.').unwrap();
            for name in option.aliases.iter().copied().chain([own]) {
                for (statement, value) in
                    [(format!("SET {section}.{name}"), " = "), (format!("SET USER a {name}"), " ")]
                {
                    let hidden = format!("{statement}{value}{HIDDEN}");
                    assert_eq!(without_secrets(&format!("{statement}{value}'s3cret'")), hidden);
                }
            }
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
    fn what_was_refused_pushes_out_no_change() {
        let viewer = Caller { user: "viewer".to_owned(), role: AdminRole::Viewer, ..caller() };
        let refused = Refused::role("KILL", "operator");
        for account in [Account::unlimited(), Account::new(64 << 10)] {
            let audit = Audit::new(&account);
            let noted = audit.begin(&caller(), "SET log.level = error");
            audit.end(&noted, &caller(), Ok(&Answer::Done));
            for _ in 0..3000 {
                audit.refused(&viewer, &"x".repeat(5000), &refused);
            }
            let rows = audit.rows();
            assert_eq!(
                (rows[0][0].clone(), &rows[0][5], &rows[0][6]),
                (number(1), &text("SET log.level = error"), &text("done"))
            );
            assert!((10..=1 + MOST_REFUSED).contains(&rows.len()), "{}", rows.len());
            // Its result is there as well, and the newest is the last.
            let last = rows.last().unwrap();
            assert!(last[6].as_text().is_some_and(|result| result.starts_with("error 1")), "{last:?}");
            assert_eq!(last[0], number(3001));
            // A change is kept whatever was refused before.
            audit.begin(&caller(), "KILL 7");
            assert_eq!(audit.rows().last().unwrap()[5], text("KILL 7"));
        }
    }

    #[test]
    fn signals_and_the_file_are_in_it_without_a_role() {
        let audit = Audit::new(&Account::unlimited());
        audit.note("signal", "SIGHUP", "2 changes");
        audit.note("file", "auto_reload", "error: f:1:1: no\nf:2:1: nor this");
        let rows = audit.rows();
        let shown: Vec<_> = rows.iter().map(|row| (&row[2], &row[4], &row[5], &row[6])).collect();
        let (signal, file) = (
            (text("signal"), text("SIGHUP"), text("2 changes")),
            (text("file"), text("auto_reload"), text("error: f:1:1: no f:2:1: nor this")),
        );
        assert_eq!(
            shown,
            [(&signal.0, &Cell::Null, &signal.1, &signal.2), (&file.0, &Cell::Null, &file.1, &file.2)]
        );
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
