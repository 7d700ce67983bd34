//! The state that a session begins with, and whether its client may have that one.

use std::rc::Rc;
use std::time::Duration;

use delphinus_clients::ListenerMode;
use delphinus_net::rt;
use delphinus_pool::FirstMode;
use delphinus_sql::Flavor as SqlFlavor;
use delphinus_state::{HiddenCollation, SessionState, Vars, is_wide, set_names_collation};
use delphinus_topology::{Flavor, ServerFacts};
use delphinus_wire::Capabilities;
use delphinus_wire::handshake::server::LoginOutcome;

use crate::client_error::ProxyError;
use crate::hold::{Held, is_about_schema};
use crate::state::{Lex, Wanted};
use crate::worker::Worker;

/// How texts of a session that begins now are read by these servers. Its epoch has to be read before: with the old default and the new
/// epoch, all its connections would read otherwise than the proxy. With it, the `sql_mode` that it begins with.
pub(crate) fn lex(
    worker: &Worker,
    facts: &ServerFacts,
    initial: &SessionState,
) -> (Lex, Option<Rc<FirstMode>>) {
    let flavor = match facts.flavor {
        Flavor::MySql => SqlFlavor::MySql,
        Flavor::MariaDb => SqlFlavor::MariaDb,
    };
    let mut lex = Lex::new(flavor, facts.version_number, &initial.vars);
    let first_mode = worker.first_mode();
    lex.begins_in(first_mode.as_deref(), &initial.vars);
    (lex, first_mode)
}

/// The state that a server gives a client with this login.
/// By a listener for reading, its transactions cannot write.
pub(crate) fn first_state(
    worker: &Worker,
    facts: &ServerFacts,
    outcome: &LoginOutcome,
    mode: ListenerMode,
) -> SessionState {
    let collation = outcome.connection.collation;
    let found = facts
        .collations
        .by_id(collation)
        .filter(|found| found.is_confirmed)
        .or_else(|| facts.collations.by_id(facts.default_collation));
    let (charset, collation) = match &found {
        Some(found) if !is_wide(found.charset.as_bytes()) => {
            (found.charset.to_string(), found.name.to_string())
        }
        _ => ("utf8mb4".to_owned(), "utf8mb4_general_ci".to_owned()),
    };
    let mut vars = vec![
        ("character_set_client", charset.clone()),
        ("character_set_results", charset),
        ("collation_connection", collation.clone()),
    ];
    if mode == ListenerMode::ReadOnly {
        let name = match facts.flavor {
            Flavor::MySql => "transaction_read_only",
            Flavor::MariaDb => "tx_read_only",
        };
        vars.push((name, "ON".to_owned()));
    }
    let mut vars: Vars = vars.iter().map(|(name, value)| ((*name).into(), value.as_bytes().into())).collect();
    // A collation that is not its character set's default is one that no variable shows.
    let hidden = found.filter(|found| !found.is_default && *found.name == *collation);
    let hidden = hidden.map(|found| HiddenCollation { name: &found.name, number: found.id });
    set_names_collation(&mut vars, hidden);
    let asked = outcome.schema.as_deref().map(String::from_utf8_lossy).filter(|name| !name.is_empty());
    let default = worker.users.find(&outcome.user).and_then(|user| user.default_schema.clone());
    SessionState {
        schema: asked.map(Rc::from).or_else(|| default.map(Rc::from)),
        vars: Rc::new(vars),
        user_vars: Rc::default(),
        multi_statements: outcome.connection.capabilities.contains(Capabilities::MULTI_STATEMENTS),
    }
}

/// Servers do not let clients talk in character sets that hold ASCII in two or four bytes.
pub(crate) fn may_talk(facts: &ServerFacts, outcome: &LoginOutcome) -> Result<(), ProxyError> {
    match facts.collations.by_id(outcome.connection.collation) {
        Some(found) if is_wide(found.charset.as_bytes()) => {
            Err(ProxyError::ClientCharset(found.charset.to_string()))
        }
        _ => Ok(()),
    }
}

/// The name of a schema has to be UTF-8 of up to three bytes; another character set makes it so.
/// COM_CHANGE_USER has it in the character set of the session before, and no such error.
pub(super) fn check_name(facts: &ServerFacts, outcome: &LoginOutcome) -> Result<(), ProxyError> {
    let Some(found) = facts.collations.by_id(outcome.connection.collation) else { return Ok(()) };
    if facts.flavor != Flavor::MariaDb {
        return Ok(());
    }
    let charset = &*found.charset;
    let name = outcome.schema.as_deref().unwrap_or_default();
    let is_as_it_is = charset.starts_with("utf8") || charset == "binary";
    let is_valid = std::str::from_utf8(name).is_ok_and(|name| name.chars().all(|one| one.len_utf8() <= 3));
    if is_as_it_is && !is_valid {
        return Err(ProxyError::SchemaName(charset.to_owned(), name.into()));
    }
    Ok(())
}

/// A schema that does not exist, or is not for this user, is an error of the login, as servers have it. Where
/// no backend can be asked, the first statement will tell. `limit_ms`: for the whole login.
pub(crate) async fn check_schema(
    held: &mut Held,
    state: &mut Wanted,
    limit_ms: u64,
) -> Result<(), ProxyError> {
    if state.want.schema.is_none() {
        return Ok(());
    }
    let Ok(primary) = held.source.outlook.usable_primary() else { return Ok(()) };
    // Not for the whole time of a login: one that is right must not fail because the pool is full.
    let limit = Duration::from_millis(limit_ms / 2);
    let Some(checked) = rt::timeout(limit, held.checkout(primary, state, true)).await else {
        return Ok(());
    };
    match checked {
        Ok(checkout) => {
            held.keep_or_give_back(checkout, state);
            Ok(())
        }
        Err(error) if is_about_schema(&error) => Err(ProxyError::Pool(error)),
        Err(_) => Ok(()),
    }
}
