//! What a statement does that an operator may not want of an application, whatever its rights.
//!
//! Owns: [`Risks`]. Must not know which statement has which (see `classify`), nor what becomes of it (see `filters` of the crate
//! `route`).

use crate::bit_set::bit_set;

bit_set! {
    /// What the text does, or may do, that is dangerous. Of several statements, of all. A bit that is not there means that the text
    /// does not do it, unless `UNSEEN` is there.
    pub struct Risks(u16);

    /// `UPDATE` or `DELETE` of all rows: without `WHERE`, or with one that names no column. `EXPLAIN` of one does not count.
    WRITES_ALL_ROWS = 0;
    /// Calls `SLEEP()` or `BENCHMARK()`.
    SLEEPS = 1;
    /// Several statements in one text.
    SEVERAL_STATEMENTS = 2;
    /// `LOAD DATA`, `LOAD XML`, with and without `LOCAL`.
    LOADS_DATA = 3;
    /// `INTO OUTFILE`, `INTO DUMPFILE`.
    WRITES_FILE = 4;
    /// Changes the schema: `CREATE`, `ALTER`, `DROP`, `RENAME`, `TRUNCATE`, of temporary tables, too.
    CHANGES_SCHEMA = 5;
    /// `SET GLOBAL`, `SET PERSIST`, `SET @@GLOBAL.x`.
    SETS_GLOBAL = 6;
    /// Changes accounts or what they may do: `CREATE USER`, `GRANT`, `SET PASSWORD`.
    CHANGES_ACCOUNTS = 7;
    /// It was not seen whole, or runs what is not in the text: routines, loadable functions, compound statements, `EXECUTE`. It may
    /// do any of these.
    UNSEEN = 8;
}

impl Risks {
    /// Each with the word that configurations have for it, and what it is in errors and logs.
    const WORDS: [(Self, &'static str, &'static str); 9] = [
        (
            Self::WRITES_ALL_ROWS,
            "write_without_where",
            "UPDATE or DELETE without a WHERE that names a column",
        ),
        (Self::SLEEPS, "sleep", "SLEEP() or BENCHMARK()"),
        (Self::SEVERAL_STATEMENTS, "multi_statements", "several statements in one text"),
        (Self::LOADS_DATA, "load_data", "LOAD DATA or LOAD XML"),
        (Self::WRITES_FILE, "into_outfile", "INTO OUTFILE or INTO DUMPFILE"),
        (Self::CHANGES_SCHEMA, "ddl", "a change of the schema"),
        (Self::SETS_GLOBAL, "set_global", "SET GLOBAL or SET PERSIST"),
        (Self::CHANGES_ACCOUNTS, "account", "a change of accounts or rights"),
        (Self::UNSEEN, "unseen", "the proxy cannot see all that it does"),
    ];

    /// The risk with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, own, _)| *own == word).map(|(risk, ..)| *risk)
    }

    /// The words of all that are in the set.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().filter(move |(risk, ..)| self.contains(*risk)).map(|(_, word, _)| *word)
    }

    /// What the first risk in the set is, for errors and logs.
    pub fn text(self) -> &'static str {
        Self::WORDS.iter().find(|(risk, ..)| self.intersects(*risk)).map_or("nothing", |(_, _, text)| *text)
    }
}
