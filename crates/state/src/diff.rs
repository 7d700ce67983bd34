//! What to run on a backend connection so that it is in the state a client wants.

use std::fmt::Write;
use std::rc::Rc;

use crate::session::SessionState;
use crate::vars::{CLIENT_COLLATION, HiddenCollation, RESULTS_COLLATION, Vars, put_value, quote_identifier};

/// One step towards the wanted state. They are run in the order in which `diff` gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FixUp {
    /// Start over with COM_CHANGE_USER: some state can only be dropped, not set back. It comes alone: what is to be
    /// done then follows from a `diff` with the state that the connection is in afterwards.
    ChangeUser,
    /// COM_SET_OPTION: multi-statements on or off.
    SetOption(bool),
    /// COM_INIT_DB.
    InitDb(Rc<str>),
    /// A SET statement for all variables that differ.
    Set(String),
}

/// The steps from `have` to `want`; none if they are the same.
pub fn diff(want: &SessionState, have: &SessionState) -> Vec<FixUp> {
    let mut steps = Vec::new();
    if want.is_same(have) {
        return steps;
    }
    if want.schema.is_none() && have.schema.is_some() {
        // No command leaves a schema without entering another one.
        steps.push(FixUp::ChangeUser);
        return steps;
    }
    if want.multi_statements != have.multi_statements {
        steps.push(FixUp::SetOption(want.multi_statements));
    }
    if let Some(schema) = want.schema.as_ref().filter(|schema| have.schema.as_ref() != Some(schema)) {
        steps.push(FixUp::InitDb(schema.clone()));
    }
    let set = assignments(want, have);
    if !set.is_empty() {
        steps.push(FixUp::Set(set));
    }
    steps
}

/// MySQL 9.7 turns these off when told to set their default, which is ON.
const MISTAKEN_DEFAULT: [&str; 2] = ["foreign_key_checks", "unique_checks"];

const MAX_JOIN_SIZE: &str = "max_join_size";

/// What SET NAMES sets.
const SET_BY_NAMES: [&str; 3] = ["character_set_client", "character_set_results", "collation_connection"];

fn assignments(want: &SessionState, have: &SessionState) -> String {
    let mut sql = String::new();
    let mut item = |target: std::fmt::Arguments<'_>| {
        sql.push_str(if sql.is_empty() { "SET " } else { ", " });
        let _ = sql.write_fmt(target);
    };
    let names = names(&want.vars, &have.vars);
    if let Some((charset, collation)) = names {
        item(format_args!("NAMES {charset} COLLATE {collation}"));
        // It has set all of them, and those that nobody has set are to be what they were.
        for name in SET_BY_NAMES {
            if !want.vars.contains_key(name) && !have.vars.contains_key(name) {
                item(format_args!("@@session.{name}=DEFAULT"));
            }
        }
    }
    // First, because some defaults bring others with them: that of `max_join_size` sets `sql_big_selects`.
    for name in have.vars.keys().filter(|name| !want.vars.contains_key(*name) && !is_hidden(name)) {
        if MISTAKEN_DEFAULT.contains(&&**name) {
            item(format_args!("@@session.{name}=@@global.{name}"));
        } else {
            item(format_args!("@@session.{name}=DEFAULT"));
        }
    }
    let limits_joins = want.vars.get(MAX_JOIN_SIZE) != have.vars.get(MAX_JOIN_SIZE);
    for (name, value) in want.vars.iter().filter(|(name, _)| !is_hidden(name)) {
        let is_there = match charset_is_there(name, (&want.vars, &have.vars), names) {
            Some(is_there) => is_there,
            None => have.vars.get(name) == Some(value) && !(limits_joins && &**name == "sql_big_selects"),
        };
        if is_there {
            continue;
        }
        if let Some(collation) = hidden_behind(name).and_then(|hidden| hidden_in(&want.vars, hidden)) {
            // Not what SET NAMES has left there. Servers that let it differ take its number.
            item(format_args!("@@session.{name}={}", collation.number));
            continue;
        }
        let mut literal = String::new();
        put_value(&mut literal, name, value);
        item(format_args!("@@session.{name}={literal}"));
    }
    for (name, value) in
        want.user_vars.iter().filter(|(name, value)| have.user_vars.get(*name) != Some(value))
    {
        item(format_args!("@{}={}", quote_identifier(name), value.sql()));
    }
    for (name, _) in
        have.user_vars.iter().filter(|(name, value)| !value.is_null() && !want.user_vars.contains_key(*name))
    {
        // A variable keeps the type and the character set of the value before; one that was never set is binary.
        let name = quote_identifier(name);
        item(format_args!("@{name}=X'', @{name}=NULL"));
    }
    sql
}

fn is_hidden(name: &str) -> bool {
    matches!(name, CLIENT_COLLATION | RESULTS_COLLATION)
}

/// The entry of `Vars` with the collation that hides behind a variable, if one can.
fn hidden_behind(name: &str) -> Option<&'static str> {
    match name {
        "character_set_client" => Some(CLIENT_COLLATION),
        "character_set_results" => Some(RESULTS_COLLATION),
        _ => None,
    }
}

fn hidden_in<'a>(vars: &'a Vars, hidden: &str) -> Option<HiddenCollation<'a>> {
    HiddenCollation::from_value(vars.get(hidden)?)
}

/// What is to be told to SET NAMES, which alone sets a hidden collation that is not its character set's default on every
/// server.
fn names<'a>(want: &'a Vars, have: &Vars) -> Option<(&'a str, &'a str)> {
    let new = |hidden: &str, variable: &str| {
        let collation = want.get(hidden)?;
        let is_new = have.get(hidden) != Some(collation) || want.get(variable) != have.get(variable);
        is_new.then_some((word(want.get(variable)?)?, word(hidden_in(want, hidden)?.name.as_bytes())?))
    };
    new(CLIENT_COLLATION, "character_set_client").or_else(|| new(RESULTS_COLLATION, "character_set_results"))
}

/// The name of a character set or collation, which can stand in a text as it is.
fn word(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty() && name.bytes().all(|byte| is_plain(&byte))).then_some(name)
}

/// Whether a character set or collation of the connection, and what hides behind it, is the wanted one already, `names`
/// having been told to SET NAMES; `None` for other variables.
fn charset_is_there(name: &str, (want, have): (&Vars, &Vars), names: Option<(&str, &str)>) -> Option<bool> {
    let hidden = hidden_behind(name);
    if hidden.is_none() && name != "collation_connection" {
        return None;
    }
    let is = |name: &str, value: &str| want.get(name).is_some_and(|wanted| **wanted == *value.as_bytes());
    Some(match names {
        Some((charset, collation)) => match hidden {
            None => is(name, collation),
            Some(hidden) => {
                is(name, charset) && hidden_in(want, hidden).is_some_and(|found| found.name == collation)
            }
        },
        None => {
            want.get(name) == have.get(name)
                && hidden.is_none_or(|hidden| want.get(hidden) == have.get(hidden))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user_vars::UserValue;

    fn state(schema: Option<&str>, vars: &[(&str, &str)], user: &[(&str, &str)]) -> SessionState {
        SessionState {
            schema: schema.map(Into::into),
            vars: Rc::new(vars.iter().map(|(n, v)| ((*n).into(), v.as_bytes().into())).collect()),
            user_vars: Rc::new(
                user.iter()
                    .map(|(n, v)| ((*n).into(), UserValue::from_bytes(v.as_bytes(), "ascii", "ascii_bin")))
                    .collect(),
            ),
            multi_statements: false,
        }
    }

    #[test]
    fn the_same_state_needs_nothing() {
        let a = state(Some("app"), &[("sql_mode", "")], &[("x", "1")]);
        assert_eq!(diff(&a, &a.clone()), []);
        assert_eq!(diff(&a, &state(Some("app"), &[("sql_mode", "")], &[("x", "1")])), []);
    }

    #[test]
    fn everything_that_differs_is_set_and_everything_foreign_is_dropped() {
        let want = state(Some("b"), &[("time_zone", "+00:00")], &[("x", "1")]);
        let have = state(Some("a"), &[("sql_mode", "ANSI")], &[("y", "2")]);
        assert_eq!(
            diff(&want, &have),
            [
                FixUp::InitDb("b".into()),
                FixUp::Set(
                    "SET @@session.sql_mode=DEFAULT, @@session.time_zone='+00:00', \
                     @`x`=_ascii X'31' COLLATE ascii_bin, @`y`=X'', @`y`=NULL"
                        .into()
                )
            ]
        );
    }

    #[test]
    fn a_hidden_collation_is_set_by_set_names_and_left_by_name() {
        let plain = [
            ("character_set_client", "utf8mb4"),
            ("character_set_results", "utf8mb4"),
            ("collation_connection", "utf8mb4_bin"),
        ];
        let hidden = [(CLIENT_COLLATION, "utf8mb4_bin 46"), (RESULTS_COLLATION, "utf8mb4_bin 46")];
        let both = state(None, &[plain, [hidden[0], hidden[1], plain[0]]].concat(), &[]);
        let client_only = state(None, &[&plain[..], &hidden[..1]].concat(), &[]);
        let plain_only = state(None, &plain, &[]);
        let set = |want, have| match diff(want, have).as_slice() {
            [] => String::new(),
            [FixUp::Set(sql)] => sql.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(set(&both, &plain_only), "SET NAMES utf8mb4 COLLATE utf8mb4_bin");
        assert_eq!(
            set(&client_only, &plain_only),
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin, @@session.character_set_results='utf8mb4'"
        );
        assert_eq!(set(&client_only, &both), "SET @@session.character_set_results='utf8mb4'");
        assert_eq!(
            set(&plain_only, &both),
            "SET @@session.character_set_client='utf8mb4', @@session.character_set_results='utf8mb4'"
        );
        let same = both.clone();
        assert_eq!(set(&both, &same), "");
        let other = state(
            None,
            &[plain[0], hidden[0], ("character_set_results", ""), ("collation_connection", "latin1_bin")],
            &[],
        );
        assert_eq!(
            set(&other, &plain_only),
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin, @@session.character_set_results=NULL, \
             @@session.collation_connection='latin1_bin'"
        );
        // By two numbers, which only MySQL takes.
        let latin1 = [("character_set_results", "latin1"), (RESULTS_COLLATION, "latin1_bin 47")];
        let different = state(None, &[&plain[..], &hidden[..1], &latin1].concat(), &[]);
        assert_eq!(
            set(&different, &plain_only),
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin, @@session.character_set_results=47"
        );
        assert_eq!(
            set(&different, &client_only),
            "SET NAMES latin1 COLLATE latin1_bin, @@session.character_set_client=46, \
             @@session.collation_connection='utf8mb4_bin'"
        );
        let same = different.clone();
        assert_eq!(set(&different, &same), "");
        // After a reset of MySQL's, a collation by its number: the others have the server's defaults.
        let numbered = state(None, &[plain[0], hidden[0]], &[]);
        assert_eq!(
            set(&numbered, &state(None, &[], &[])),
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin, @@session.character_set_results=DEFAULT, \
             @@session.collation_connection=DEFAULT"
        );
    }

    #[test]
    fn what_another_variable_brings_with_it_is_set_after_it() {
        let want = state(None, &[("sql_big_selects", "OFF")], &[]);
        let have = state(None, &[("max_join_size", "5"), ("sql_big_selects", "OFF")], &[]);
        let set = "SET @@session.max_join_size=DEFAULT, @@session.sql_big_selects='OFF'";
        assert_eq!(diff(&want, &have), [FixUp::Set(set.into())]);
    }

    #[test]
    fn checks_go_back_to_the_global_value() {
        let have = state(None, &[("foreign_key_checks", "OFF")], &[]);
        let set = "SET @@session.foreign_key_checks=@@global.foreign_key_checks";
        assert_eq!(diff(&state(None, &[], &[]), &have), [FixUp::Set(set.into())]);
    }

    #[test]
    fn a_schema_is_left_by_starting_over() {
        let want = state(None, &[("sql_mode", "")], &[]);
        let have = state(Some("a"), &[("time_zone", "UTC")], &[]);
        assert_eq!(diff(&want, &have), [FixUp::ChangeUser]);
    }
}
