//! What a call of a function means.
//!
//! Owns: finding a function by its name, for one product and version. The list is in `table`.

mod table;

use crate::options::{Flavor, LexOptions};
use crate::word_table::WordTable;
use table::{GROUPS, Group};

/// What a word before a parenthesis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A built-in function that only computes.
    Pure,
    /// The same; but with white space before the parenthesis, servers look for a stored function of that name.
    Tight,
    /// A built-in function whose value changes by itself, such as the time.
    Volatile,
    /// One whose text may name user variables: `$@a` in an XPath expression.
    XPath,
    /// A volatile one, called for the time that it takes: `SLEEP`, `BENCHMARK`.
    Delay,
    /// A volatile one that is tight.
    TightVolatile,
    /// `DEFAULT`: the default of a column, which may be the time, and on MariaDB the next value of a sequence.
    Default,
    /// Not a call: a word of the grammar, or a type.
    Syntax,
    /// `LAST_INSERT_ID`
    LastInsertId,
    /// `FOUND_ROWS`
    FoundRows,
    /// `ROW_COUNT`
    RowCount,
    /// `CONNECTION_ID`
    ConnectionId,
    /// Another function about the thread that runs it.
    ThreadId,
    /// `GET_LOCK`
    GetLock,
    /// `RELEASE_LOCK`
    ReleaseLock,
    /// `RELEASE_ALL_LOCKS`
    ReleaseAllLocks,
    /// `IS_FREE_LOCK`, `IS_USED_LOCK`
    LooksAtLock,
    /// `service_get_read_locks`, `service_get_write_locks`
    ServiceGetLocks,
    /// `service_release_locks`
    ServiceReleaseLocks,
    /// Waits for replication.
    Wait,
    /// Reads the files or the logs of the server it runs on.
    ServerState,
    /// `NEXTVAL`, `LASTVAL`, `SETVAL`
    Sequence,
}

impl Call {
    /// True for one whose value is its session's or its server's own, or that changes a sequence.
    pub(crate) fn is_of_place(self, flavor: Flavor) -> bool {
        match self {
            Self::Pure
            | Self::Tight
            | Self::Volatile
            | Self::XPath
            | Self::Delay
            | Self::TightVolatile
            | Self::Syntax => false,
            Self::Default => flavor == Flavor::MariaDb,
            Self::LastInsertId
            | Self::FoundRows
            | Self::RowCount
            | Self::ConnectionId
            | Self::ThreadId
            | Self::GetLock
            | Self::ReleaseLock
            | Self::ReleaseAllLocks
            | Self::LooksAtLock
            | Self::ServiceGetLocks
            | Self::ServiceReleaseLocks
            | Self::Wait
            | Self::ServerState
            | Self::Sequence => true,
        }
    }
}

/// From which version and below which version a product has a function.
#[derive(Clone, Copy)]
struct Versions {
    from: u32,
    below: u32,
}

impl Versions {
    const fn contain(self, version: u32) -> bool {
        self.from <= version && version < self.below
    }
}

/// One name and its group.
#[derive(Clone, Copy)]
struct Function {
    name: &'static str,
    group: &'static Group,
}

const COUNT: usize = {
    let mut count = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut rest = GROUPS[group].names.as_bytes();
        while !rest.is_empty() {
            (_, rest) = first_word(rest);
            count += 1;
        }
        group += 1;
    }
    count
};

static FUNCTIONS: [Function; COUNT] = FUNCTION_LIST;

const FUNCTION_LIST: [Function; COUNT] = {
    let mut functions = [Function { name: "", group: &GROUPS[0] }; COUNT];
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut rest = GROUPS[group].names.as_bytes();
        while !rest.is_empty() {
            let word;
            (word, rest) = first_word(rest);
            functions[count] = Function { name: text(word), group: &GROUPS[group] };
            count += 1;
        }
        group += 1;
    }
    functions
};

const NAMES: [&str; COUNT] = {
    let mut names = [""; COUNT];
    let mut index = 0;
    while index < COUNT {
        names[index] = FUNCTION_LIST[index].name;
        index += 1;
    }
    names
};

/// The bytes up to the first space, and those behind it.
const fn first_word(bytes: &'static [u8]) -> (&'static [u8], &'static [u8]) {
    let mut len = 0;
    while len < bytes.len() && bytes[len] != b' ' {
        len += 1;
    }
    let (word, rest) = bytes.split_at(len);
    match rest {
        [_, behind @ ..] => (word, behind),
        [] => (word, rest),
    }
}

const fn text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("invariant: the table is ASCII"),
    }
}

static TABLE: WordTable<2048> = WordTable::new(&NAMES);

/// What `name` before a parenthesis is for this server; `None` where the server has no such function of its own.
pub(crate) fn find(name: &[u8], options: LexOptions) -> Option<Call> {
    let index = TABLE.find(name, |index| FUNCTIONS[index].name)?;
    let group = FUNCTIONS[index].group;
    let versions = match options.flavor {
        Flavor::MySql => group.mysql,
        Flavor::MariaDb => group.mariadb,
    };
    versions.contain(options.server_version).then_some(group.call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(flavor: Flavor, server_version: u32) -> LexOptions {
        LexOptions { flavor, server_version, ..LexOptions::default() }
    }

    #[test]
    fn every_name_is_lower_case_and_there_once() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1], "twice in the table");
        }
        for name in NAMES {
            assert_eq!(name, name.to_ascii_lowercase());
            assert!(!name.is_empty());
        }
    }

    #[test]
    fn a_name_counts_only_where_the_server_has_it() {
        let mysql = |version| server(Flavor::MySql, version);
        let maria = |version| server(Flavor::MariaDb, version);
        assert_eq!(find(b"NVL", maria(101_119)), Some(Call::Pure));
        assert_eq!(find(b"NVL", mysql(90_704)), None);
        assert_eq!(find(b"uuid_to_bin", mysql(80_036)), Some(Call::Pure));
        assert_eq!(find(b"uuid_to_bin", mysql(50_744)), None);
        assert_eq!(find(b"uuid_to_bin", maria(101_119)), None);
        assert_eq!(find(b"md5", mysql(80_036)), Some(Call::Pure));
        assert_eq!(find(b"md5", mysql(90_704)), None, "moved to a component");
        assert_eq!(find(b"nextval", maria(101_119)), Some(Call::Sequence));
        assert_eq!(find(b"DEFAULT", mysql(90_704)), Some(Call::Default));
        assert_eq!(find(b"Count", mysql(80_036)), Some(Call::Tight));
        assert_eq!(find(b"NOW", mysql(80_036)), Some(Call::TightVolatile));
        assert_eq!(find(b"uuid_v7", maria(110_702)), Some(Call::Volatile));
    }
}
