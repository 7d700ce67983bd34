//! The bodies of routines, triggers and views, as far as the monitor's user may see them.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/information-schema-routines-table.html>,
//! <https://mariadb.com/kb/en/mysqlproc-table/> and <https://mariadb.com/kb/en/information-schema-triggers-table/>.

use delphinus_net::Announce;
use delphinus_sql::{Backslash, Body, Catalog, CatalogBuilder, LexOptions, Quotes, Stored};
use delphinus_topology::{Flavor, ServerFacts};

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{execute, query, query_each};
use crate::settings::{BackendSpec, Settings};

/// More of a kind than a server has that anybody can look after. They are not all held at a time.
const MOST: usize = 200_000;

/// More than are asked about.
const MOST_RIGHTS: usize = 16;

/// Whoever changes a table or a routine at the moment is not waited for; and all rows are wanted, whatever the server's defaults are.
const PATIENCE: &str = "SET SESSION lock_wait_timeout = 1, sql_select_limit = 18446744073709551615";

/// Before MySQL 8.0, and on MariaDB: the table of all routines, packages among them. Procedures that come with the server have names
/// that others may have, too: they go by that of their schema. Longer texts than 2 MB are not read, and may be any.
const PROC: &str = "SELECT IF(db IN ('sys', 'mysql'), db, name), sql_mode, \
     IF(LENGTH(COALESCE(body_utf8, body)) > 2000000, NULL, COALESCE(body_utf8, body)), language \
     FROM mysql.proc WHERE db NOT IN ('sys', 'mysql') OR type = 'PROCEDURE'";

/// Without the right, those of which the user is the definer have a body.
const ROUTINES: &str = "SELECT IF(ROUTINE_SCHEMA IN ('sys', 'mysql'), ROUTINE_SCHEMA, ROUTINE_NAME), SQL_MODE, \
     IF(LENGTH(ROUTINE_DEFINITION) > 2000000, NULL, ROUTINE_DEFINITION), ROUTINE_BODY FROM information_schema.ROUTINES \
     WHERE ROUTINE_SCHEMA NOT IN ('sys', 'mysql') OR ROUTINE_TYPE = 'PROCEDURE'";

/// What the user itself was given the right to see everywhere. The bodies in the schema `sys` everybody sees.
const RIGHTS: &str = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES \
     WHERE PRIVILEGE_TYPE IN ('SHOW_ROUTINE', 'SELECT', 'TRIGGER', 'SHOW VIEW') \
     AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')";

const TRIGGERS: &str = "SELECT EVENT_OBJECT_TABLE, SQL_MODE, IF(LENGTH(ACTION_STATEMENT) > 2000000, NULL, ACTION_STATEMENT), 'SQL' FROM information_schema.TRIGGERS \
     WHERE TRIGGER_SCHEMA NOT IN ('mysql', 'sys')";

const VIEWS: &str = "SELECT TABLE_NAME, '', VIEW_DEFINITION, 'SQL' FROM information_schema.VIEWS \
     WHERE TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR, ER_DBACCESS_DENIED_ERROR.
const DENIED: [u16; 3] = [1142, 1143, 1044];

/// Reads all that there is, on a connection of its own.
pub(crate) async fn read(
    spec: &BackendSpec,
    settings: &Settings,
    facts: &ServerFacts,
) -> Result<Catalog, ProbeError> {
    let announce = spec.proxy_protocol.map(|version| Announce { version, client: None });
    let spot = spec.place.spot();
    let stream = delphinus_net::dial_at(&spot, announce, settings.timeout()).await?;
    let mut connection = Connection::log_in(stream, (spec, spot.host()), settings).await?;
    let catalog = read_all(&mut connection, facts).await;
    if matches!(catalog, Ok(_) | Err(ProbeError::Answer(_))) {
        connection.quit().await;
    }
    catalog
}

async fn read_all(connection: &mut Connection, facts: &ServerFacts) -> Result<Catalog, ProbeError> {
    execute(connection, PATIENCE).await?;
    let no_limit = match facts.flavor {
        Flavor::MySql if facts.version_number >= 50_708 => Some("SET SESSION max_execution_time = 0"),
        Flavor::MySql => None,
        Flavor::MariaDb => Some("SET SESSION max_statement_time = 0"),
    };
    if let Some(no_limit) = no_limit {
        execute(connection, no_limit).await?;
    }
    let (mut builder, lex) = (CatalogBuilder::default(), lex(facts));
    let has_dictionary = facts.flavor == Flavor::MySql && facts.version_number >= 80_000;
    let catalog = if has_dictionary {
        read_dictionary(connection, &mut builder, lex).await?
    } else {
        read_tables(connection, &mut builder, lex, facts).await?
    };
    Ok(catalog(builder.build()))
}

/// What is known of the catalogue once it is built.
type Known = fn(Catalog) -> Catalog;

/// From MySQL 8.0 on.
async fn read_dictionary(
    connection: &mut Connection,
    builder: &mut CatalogBuilder,
    lex: LexOptions,
) -> Result<Known, ProbeError> {
    let rights = query(connection, RIGHTS, MOST_RIGHTS).await?;
    let has = |right: &str| rights.iter().flatten().flatten().any(|one| one == right.as_bytes());
    read_some(connection, ROUTINES, builder, lex, Stored::Routine).await?;
    read_some(connection, TRIGGERS, builder, lex, Stored::Trigger).await?;
    let are_seen = read_some(connection, VIEWS, builder, lex, Stored::View).await?;
    if !has("SHOW_ROUTINE") && !has("SELECT") {
        return Ok(Catalog::without_routines);
    }
    let sees_all = are_seen && has("TRIGGER") && has("SHOW VIEW");
    Ok(if sees_all { Catalog::with_all } else { |catalog| catalog })
}

/// Before, and on MariaDB, which lists the user variables of a session: of what is reported beside variables, only a procedure can be
/// the cause.
async fn read_tables(
    connection: &mut Connection,
    builder: &mut CatalogBuilder,
    lex: LexOptions,
    facts: &ServerFacts,
) -> Result<Known, ProbeError> {
    let known: Known = match read_some(connection, PROC, builder, lex, Stored::Routine).await {
        Err(ProbeError::Answer(error)) if DENIED.contains(&error.code) => Catalog::without_routines,
        Err(error) => return Err(error),
        Ok(_) if facts.flavor == Flavor::MariaDb => Catalog::with_all,
        Ok(_) => |catalog| catalog,
    };
    // These tables are made by opening every table there is.
    for (right, sql, stored) in
        [("TRIGGER", TRIGGERS, Stored::Trigger as fn(String) -> Stored), ("SHOW VIEW", VIEWS, Stored::View)]
    {
        if has_right(connection, right).await? {
            read_some(connection, sql, builder, lex, stored).await?;
        }
    }
    Ok(known)
}

/// True if somebody has this right whom the user can see, which is itself where it may see nobody else.
async fn has_right(connection: &mut Connection, right: &str) -> Result<bool, ProbeError> {
    let one =
        |table| format!("EXISTS (SELECT 1 FROM information_schema.{table} WHERE PRIVILEGE_TYPE = '{right}')");
    let any = ["USER_PRIVILEGES", "SCHEMA_PRIVILEGES", "TABLE_PRIVILEGES"].map(one).join(" OR ");
    Ok(!query(connection, &format!("SELECT 1 FROM DUAL WHERE {any}"), 1).await?.is_empty())
}

/// Rows of a name, the `sql_mode` that the text is read in, the text, and its language. False if the text of a view was not shown.
async fn read_some(
    connection: &mut Connection,
    sql: &str,
    builder: &mut CatalogBuilder,
    lex: LexOptions,
    stored: fn(String) -> Stored,
) -> Result<bool, ProbeError> {
    let mut are_seen = true;
    query_each(connection, sql, MOST, |row| {
        let [Some(name), mode, text, language] = *row else { return };
        let lex = in_mode(lex, mode.unwrap_or_default());
        let text = text.unwrap_or_default();
        let stored = stored(String::from_utf8_lossy(name).into_owned());
        match stored {
            // Servers want SELECT for that, too. It may be any view.
            Stored::View(_) if text.is_empty() => are_seen = false,
            _ if language == Some(b"SQL") && !text.is_empty() => builder.add(stored, Body::read(text, lex)),
            _ => builder.add(stored, Body::unreadable()),
        }
    })
    .await?;
    Ok(are_seen)
}

fn lex(facts: &ServerFacts) -> LexOptions {
    let flavor = match facts.flavor {
        Flavor::MySql => delphinus_sql::Flavor::MySql,
        Flavor::MariaDb => delphinus_sql::Flavor::MariaDb,
    };
    LexOptions { flavor, server_version: facts.version_number, ..LexOptions::default() }
}

fn in_mode(lex: LexOptions, mode: &[u8]) -> LexOptions {
    let has = |word: &[u8]| mode.split(|byte| *byte == b',').any(|one| one.eq_ignore_ascii_case(word));
    LexOptions {
        ansi_quotes: if has(b"ANSI_QUOTES") { Quotes::Ansi } else { Quotes::Standard },
        backslash: if has(b"NO_BACKSLASH_ESCAPES") { Backslash::Literal } else { Backslash::Escapes },
        ..lex
    }
}
