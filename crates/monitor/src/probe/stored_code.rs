//! The bodies of routines, triggers and views, as far as the monitor's user may see them.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/information-schema-routines-table.html>,
//! <https://mariadb.com/kb/en/mysqlproc-table/> and <https://mariadb.com/kb/en/information-schema-triggers-table/>.

use delphinus_net::Announce;
use delphinus_sql::{Backslash, Body, Catalog, CatalogBuilder, LexOptions, Quotes, Stored};
use delphinus_topology::{Flavor, ServerFacts};
use delphinus_wire::error_code;

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{execute, query, query_each};
use crate::settings::{BackendSpec, Settings};

/// More of a kind than a server has that anybody can look after. They are not all held at a time.
const MOST: usize = 200_000;

/// Whoever changes a table or a routine at the moment is not waited for; and all rows are wanted, whatever the server's defaults are.
const PATIENCE: &str =
    "SET SESSION lock_wait_timeout = 1, sql_select_limit = 18446744073709551615, sql_mode = ''";

/// Before MySQL 8.0, and on MariaDB: the table of all routines, packages among them. Procedures that come with the server have names
/// that others may have, too: they go by that of their schema. Texts of more than 256 KiB are not read, and may be any.
const PROC: &str = "SELECT IF(type = 'PROCEDURE' AND db IN ('sys', 'mysql'), db, name), sql_mode, \
     IF(LENGTH(COALESCE(body_utf8, body)) > 262144, NULL, COALESCE(body_utf8, body)), language \
     FROM mysql.proc";

/// Without the right, those of which the user is the definer have a body.
const ROUTINES: &str = "SELECT IF(ROUTINE_SCHEMA IN ('sys', 'mysql'), ROUTINE_SCHEMA, ROUTINE_NAME), SQL_MODE, \
     IF(LENGTH(ROUTINE_DEFINITION) > 262144, NULL, ROUTINE_DEFINITION), ROUTINE_BODY FROM information_schema.ROUTINES";

/// A row where the user itself was given the right to see all bodies. Those of the schema `sys` everybody sees.
const SEES_ROUTINES: &str = "SELECT 1 FROM information_schema.USER_PRIVILEGES \
     WHERE PRIVILEGE_TYPE IN ('SHOW_ROUTINE', 'SELECT') \
     AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')";

const TRIGGERS: &str = "SELECT EVENT_OBJECT_TABLE, SQL_MODE, IF(LENGTH(ACTION_STATEMENT) > 262144, NULL, ACTION_STATEMENT), 'SQL' FROM information_schema.TRIGGERS \
     WHERE TRIGGER_SCHEMA NOT IN ('mysql', 'sys')";

const VIEWS: &str = "SELECT TABLE_NAME, '', IF(LENGTH(VIEW_DEFINITION) > 262144, NULL, VIEW_DEFINITION), \
     IF(LENGTH(VIEW_DEFINITION) > 262144, 'LONG', 'SQL') FROM information_schema.VIEWS \
     WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// The monitor's user may not read it: its questions need rights to tables, and no other ones.
const DENIED: [u16; 3] = [
    error_code::ER_TABLEACCESS_DENIED_ERROR,
    error_code::ER_COLUMNACCESS_DENIED_ERROR,
    error_code::ER_DBACCESS_DENIED_ERROR,
];

/// Reads all that there is, on a connection of its own.
pub(crate) async fn read(
    spec: &BackendSpec,
    settings: &Settings,
    facts: &ServerFacts,
) -> Result<Catalog, ProbeError> {
    let mut connection = connect(spec, settings).await?;
    let catalog = read_all(&mut connection, facts).await;
    if matches!(catalog, Ok(_) | Err(ProbeError::Answer(_))) {
        connection.quit().await;
    }
    catalog
}

/// A connection for a long reading.
pub(super) async fn connect(spec: &BackendSpec, settings: &Settings) -> Result<Connection, ProbeError> {
    let announce = spec.place.reach().proxy_protocol.map(|version| Announce { version, client: None });
    let spot = spec.place.spot();
    let stream = delphinus_net::dial_at(&spot, announce, settings.timeout()).await?;
    Connection::log_in(stream, (spec, spot.host()), settings).await
}

/// Sees to it that all rows come, and that no lock is waited for.
pub(super) async fn prepare(connection: &mut Connection, facts: &ServerFacts) -> Result<(), ProbeError> {
    execute(connection, PATIENCE).await?;
    let no_limit = match facts.flavor {
        Flavor::MySql if facts.version_number >= 50_708 => Some("SET SESSION max_execution_time = 0"),
        Flavor::MySql => None,
        Flavor::MariaDb => Some("SET SESSION max_statement_time = 0"),
    };
    if let Some(no_limit) = no_limit {
        execute(connection, no_limit).await?;
    }
    Ok(())
}

async fn read_all(connection: &mut Connection, facts: &ServerFacts) -> Result<Catalog, ProbeError> {
    prepare(connection, facts).await?;
    let (mut builder, lex) = (CatalogBuilder::default(), lex(facts));
    let has_dictionary = facts.flavor == Flavor::MySql && facts.version_number >= 80_000;
    let are_seen = if has_dictionary {
        read_some(connection, ROUTINES, &mut builder, lex, Stored::Routine).await?;
        !query(connection, SEES_ROUTINES, 2).await?.is_empty()
    } else {
        match read_some(connection, PROC, &mut builder, lex, Stored::Routine).await {
            Err(ProbeError::Answer(error)) if DENIED.contains(&error.code) => false,
            outcome => outcome.map(|()| true)?,
        }
    };
    // Without a dictionary these tables are made by opening every table there is.
    for (right, sql, stored) in
        [("TRIGGER", TRIGGERS, Stored::Trigger as fn(String) -> Stored), ("SHOW VIEW", VIEWS, Stored::View)]
    {
        if has_dictionary || has_right(connection, right).await? {
            read_some(connection, sql, &mut builder, lex, stored).await?;
        }
    }
    if !are_seen {
        builder.without_routines();
    }
    Ok(builder.build())
}

/// True if somebody has this right whom the user can see, which is itself where it may see nobody else.
async fn has_right(connection: &mut Connection, right: &str) -> Result<bool, ProbeError> {
    let one =
        |table| format!("EXISTS (SELECT 1 FROM information_schema.{table} WHERE PRIVILEGE_TYPE = '{right}')");
    let any = ["USER_PRIVILEGES", "SCHEMA_PRIVILEGES", "TABLE_PRIVILEGES"].map(one).join(" OR ");
    Ok(!query(connection, &format!("SELECT 1 FROM DUAL WHERE {any}"), 1).await?.is_empty())
}

/// Rows of a name, the `sql_mode` that the text is read in, the text, and its language.
async fn read_some(
    connection: &mut Connection,
    sql: &str,
    builder: &mut CatalogBuilder,
    lex: LexOptions,
    stored: fn(String) -> Stored,
) -> Result<(), ProbeError> {
    query_each(connection, sql, MOST, |row| {
        let [Some(name), mode, text, language] = *row else { return };
        let lex = in_mode(lex, mode.unwrap_or_default());
        let text = text.unwrap_or_default();
        let stored = stored(String::from_utf8_lossy(name).into_owned());
        match stored {
            // Servers want SELECT for that, too. It may be any view.
            Stored::View(_) if text.is_empty() && language == Some(b"SQL") => {}
            _ if language != Some(b"SQL") || text.is_empty() => builder.add(stored, Body::unreadable()),
            Stored::View(_) => builder.add(stored, Body::read(text, lex)),
            // https://github.com/mysql/mysql-server: body_utf8_append_literal in sql/sql_lex.cc. MariaDB escapes them again.
            _ if lex.flavor == delphinus_sql::Flavor::MySql => {
                builder.add(stored, Body::read_unescaped(text, lex));
            }
            _ => builder.add(stored, Body::read(text, lex)),
        }
    })
    .await
}

pub(super) fn lex(facts: &ServerFacts) -> LexOptions {
    let flavor = match facts.flavor {
        Flavor::MySql => delphinus_sql::Flavor::MySql,
        Flavor::MariaDb => delphinus_sql::Flavor::MariaDb,
    };
    LexOptions { flavor, server_version: facts.version_number, ..LexOptions::default() }
}

/// True if a `sql_mode` has this word.
pub(super) fn has_mode(mode: &[u8], word: &[u8]) -> bool {
    mode.split(|byte| *byte == b',').any(|one| one.eq_ignore_ascii_case(word))
}

pub(super) fn in_mode(lex: LexOptions, mode: &[u8]) -> LexOptions {
    let has = |word: &[u8]| has_mode(mode, word);
    LexOptions {
        ansi_quotes: if has(b"ANSI_QUOTES") { Quotes::Ansi } else { Quotes::Standard },
        backslash: if has(b"NO_BACKSLASH_ESCAPES") { Backslash::Literal } else { Backslash::Escapes },
        ..lex
    }
}
