//! The words that the classifier looks for.
//!
//! Owns: the list and finding a word in it. Most are keywords; some are names of schemas and variables that matter.

use crate::word_table::WordTable;

macro_rules! keywords {
    ($($variant:ident $text:literal)*) => {
        /// A word that means something to the classifier.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Keyword {
            /// Any other word, and every token that is not a word.
            None,
            $($variant,)*
        }

        const VARIANTS: &[Keyword] = &[$(Keyword::$variant),*];
        const TEXTS: &[&str] = &[$($text),*];
    };
}

keywords! {
    Admin "admin" After "after" Aggregate "aggregate" All "all" Alter "alter" Always "always" Analyze "analyze" And "and" As "as"
    Atomic "atomic" Authors "authors" Backup "backup" Begin "begin" Binary "binary" Binlog "binlog" Body "body" Cache "cache"
    Call "call" Case "case" Chain "chain" Change "change" Char "char" Character "character" Charset "charset"
    Check "check" Checksum "checksum" Clone "clone" Close "close" Code "code" Collation "collation"
    Columns "columns" Commit "commit" Concurrent "concurrent" Condition "condition" Connection "connection"
    Contributors "contributors" Count "count" Create "create" Current "current" CurrentDate "current_date"
    CurrentTime "current_time" CurrentTimestamp "current_timestamp" CurrentUser "current_user"
    Data "data" Database "database" Databases "databases" Deallocate "deallocate" Declare "declare"
    Default "default" Definer "definer" Delayed "delayed" Delete "delete" Desc "desc" Describe "describe"
    Diagnostics "diagnostics" Distinct "distinct" Do "do" Drop "drop" Dumpfile "dumpfile" Else "else"
    End "end" Engines "engines" ErrorCount "error_count" Errors "errors" Event "event" Events "events" Except "except"
    Execute "execute" Exists "exists" Explain "explain" Export "export" Extended "extended" Fields "fields"
    Flush "flush" For "for" Format "format" From "from" Full "full" Function "function" Get "get"
    Global "global" Grant "grant" Group "group" GroupReplication "group_replication" Handler "handler"
    Hard "hard" Help "help" HighPriority "high_priority" Id "id" Identity "identity" If "if" Ignore "ignore"
    Immediate "immediate" Import "import" In "in" Index "index" Indexes "indexes" Infile "infile"
    InformationSchema "information_schema" Insert "insert" InsertId "insert_id" Install "install"
    Instance "instance" Intersect "intersect" Into "into" Keys "keys" Join "join" Kill "kill" LastInsertId "last_insert_id" Library "library" Limit "limit"
    Load "load" Local "local" Localtime "localtime" Localtimestamp "localtimestamp" Lock "lock" Loop "loop" LowPriority "low_priority" Master "master" Mysql "mysql"
    Names "names" Next "next" No "no" NoWriteToBinlog "no_write_to_binlog" Not "not" Null "null" Of "of"
    Offline "offline" Offset "offset" Online "online" Open "open" Optimize "optimize" Or "or" Outfile "outfile"
    Package "package" Parser "parser" Partitions "partitions" Password "password"
    PerformanceSchema "performance_schema" Persist "persist" PersistOnly "persist_only" Plugins "plugins"
    Prepare "prepare" Previous "previous" Privileges "privileges" Procedure "procedure" Processlist "processlist"
    PseudoThreadId "pseudo_thread_id" Purge "purge" Query "query" Quick "quick" Read "read"
    Recursive "recursive" Release "release" Rename "rename" Repair "repair" Repeat "repeat"
    Replace "replace" Replica "replica" Reset "reset" Resignal "resignal" Resource "resource"
    Restart "restart" Revoke "revoke" Role "role" Rollback "rollback" Route "route" Savepoint "savepoint"
    Schema "schema" Schemas "schemas" Select "select" Sequence "sequence" Session "session" Set "set"
    Share "share" Show "show" Shutdown "shutdown" Signal "signal" Slave "slave" Soft "soft"
    SqlCalcFoundRows "sql_calc_found_rows" Stacked "stacked" Stage "stage" Start "start" StraightJoin "straight_join" Statement "statement"
    Status "status" Stop "stop" Storage "storage" Sys "sys" Sysdate "sysdate" System "system" Table "table" Tables "tables"
    Temporary "temporary" Then "then" To "to" Transaction "transaction" Trigger "trigger"
    Triggers "triggers" Truncate "truncate" Uninstall "uninstall" Union "union" Unlock "unlock"
    Update "update" UtcDate "utc_date" UtcTime "utc_time" UtcTimestamp "utc_timestamp" Use "use" User "user" Using "using" Value "value" Values "values"
    Variables "variables" View "view" WarningCount "warning_count" Warnings "warnings" Where "where"
    While "while" With "with" Work "work" Xa "xa" Xml "xml"
}

static TABLE: WordTable<1024> = WordTable::new(TEXTS);

impl Keyword {
    /// What `word` means.
    #[inline]
    pub(crate) fn of(word: &[u8]) -> Self {
        TABLE.find(word, |index| TEXTS[index]).map_or(Self::None, |index| VARIANTS[index])
    }
}
