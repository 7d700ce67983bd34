//! What is known of a statement that is logged.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The places where a statement's time goes, in the order of [`Entry::at_us`].
pub const PLACES: [&str; 5] = ["queue", "pool", "sync", "backend", "client"];

/// Words that an entry has one of, by number in a queue and by name in a line.
macro_rules! words {
    ($($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+ })+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {$(
            $(#[doc = $doc])+
            $variant,
        )+}

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),+];

            /// As a line has it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub(crate) fn from_number(number: u8) -> Option<Self> {
                Self::ALL.get(usize::from(number)).copied()
            }
        }
    )+};
}

words! {
    /// Which side of the proxy an entry is about.
    Side {
        /// What a client has asked.
        Client = "client",
        /// What a backend was asked.
        Backend = "backend",
        /// Both, of one statement: it becomes a line for each.
        Both = "both",
    }
    /// Who wanted what a backend was asked.
    Origin {
        /// The session's client.
        Client = "client",
        /// The proxy: fix-ups of the session's state, transactions that it begins, questions that it has.
        Proxy = "proxy",
        /// The proxy, which copies a client's read to a mirror.
        Mirror = "mirror",
        /// The proxy, which asks anew for an answer that it keeps.
        Cache = "cache",
    }
    /// Where a statement went.
    Route {
        /// To the primary.
        Primary = "primary",
        /// To a replica.
        Replica = "replica",
        /// The proxy answered.
        Proxy = "proxy",
    }
    /// The command of the protocol.
    Command {
        /// COM_QUERY.
        Query = "query",
        /// COM_STMT_EXECUTE, COM_STMT_BULK_EXECUTE.
        Execute = "execute",
        /// COM_STMT_FETCH: more rows of an execution.
        Fetch = "fetch",
        /// COM_STMT_PREPARE.
        Prepare = "prepare",
        /// COM_INIT_DB; the text is the schema.
        InitDb = "init_db",
        /// COM_CHANGE_USER, COM_RESET_CONNECTION.
        Reset = "reset",
        /// Another one; the text is its name.
        Other = "other",
    }
}

/// A statement that has ended. It borrows all that it can: to take it in costs no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When it ended, in microseconds since 1970.
    pub ended_us: u64,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// Where that time went, in microseconds, by [`PLACES`].
    pub at_us: [u32; 5],
    /// Which side it is about.
    pub side: Side,
    /// Who wanted it.
    pub origin: Origin,
    /// The command.
    pub command: Command,
    /// The user of its session.
    pub user: &'a str,
    /// The client's host.
    pub host: &'a str,
    /// The session's id; 0: it is of no session.
    pub session: u32,
    /// The schema that the session was in.
    pub schema: Option<&'a str>,
    /// The number of the error that it ended with; 0: none.
    pub error: u16,
    /// It was ended by KILL or with its client.
    pub was_killed: bool,
    /// Rows of its results.
    pub rows_sent: u64,
    /// Rows that it has changed.
    pub rows_affected: u64,
    /// Bytes of the command.
    pub bytes_received: u64,
    /// Bytes of the answer.
    pub bytes_sent: u64,
    /// The backend that had it; `None`: the proxy answered.
    pub backend: Option<&'a str>,
    /// The id that the backend shows for its connection; 0: not known.
    pub connection: u32,
    /// Where it went.
    pub route: Route,
    /// The hash of its text without literals.
    pub digest: Option<u64>,
    /// Its text, with or without literals.
    pub text: &'a [u8],
}

impl Entry<'_> {
    /// One of which nothing is known but that it has ended now.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            ended_us: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            took_us: 0,
            at_us: [0; 5],
            side: Side::Client,
            origin: Origin::Client,
            command: Command::Query,
            user: "",
            host: "",
            session: 0,
            schema: None,
            error: 0,
            was_killed: false,
            rows_sent: 0,
            rows_affected: 0,
            bytes_received: 0,
            bytes_sent: 0,
            backend: None,
            connection: 0,
            route: Route::Proxy,
            digest: None,
            text: b"",
        }
    }

    /// When it ended, since 1970.
    pub(crate) fn since_epoch(&self) -> Duration {
        Duration::from_micros(self.ended_us)
    }
}
