//! The last values of MariaDB's sequences: servers keep them with the connection, and no statement brings them to another one.
//!
//! Owns: of which sequences a connection has the last value that its session has taken, and what is refused otherwise.

use delphinus_pool::{Connection, FirstMode};
use delphinus_sql::{Class, Effects, SqlText, Statement, TableName, Uses};
use delphinus_state::{SessionState, Vars, mode_has};

use super::texts::TextExecuted;
use crate::client_error::ProxyError;
use crate::state::{Ran, Wanted};

/// Of more sequences no last value is known.
const MOST: usize = 64;

/// Takes in which values a statement has taken. The connection forgets that when it goes to another session.
pub(super) fn note(state: &Wanted, connection: &mut Connection, ran: Ran<'_>) {
    let effects = ran.statement.effects;
    if !effects.contains(Effects::TAKES_VALUE) || effects.contains(Effects::CHANGES_SCHEMA) || !has_taken(ran)
    {
        return;
    }
    for sequence in &ran.text.names().sequences.taken {
        let key = in_schema(sequence, &state.want);
        if connection.sequences.len() < MOST && !connection.sequences.contains(&key) {
            connection.sequences.push(key);
        }
    }
}

/// False where the server may not have come to the call: a query without rows calls nothing.
fn has_taken(Ran { statement, response, .. }: Ran<'_>) -> bool {
    let is_certain = matches!(statement.class, Class::Set | Class::Do)
        || response.rows > 0
        || response.affected_rows.is_some_and(|rows| rows > 0);
    response.is_ok() && is_certain
}

/// An error if a text, which is read in this state, reads a last value that the session has not taken on this connection. `first` is
/// the `sql_mode` of a session that has set none.
pub(crate) fn check_last_values(
    (statement, text): (&Statement, &SqlText<'_>),
    (state, first): (&SessionState, Option<&FirstMode>),
    connection: &Connection,
) -> Result<(), ProxyError> {
    if !statement.uses.contains(Uses::LAST_VALUE) {
        return Ok(());
    }
    let is_here = |sequence: &TableName| {
        !statement.effects.contains(Effects::CHANGES_SCHEMA)
            && connection.sequences.contains(&in_schema(sequence, state))
    };
    refuse_unless(text, is_oracle(&state.vars, first), is_here)
}

/// The same of texts that EXECUTE runs: which connection that will be is not known here.
pub(crate) fn check_texts_run(
    texts: &[TextExecuted],
    state: &SessionState,
    first: Option<&FirstMode>,
) -> Result<(), ProxyError> {
    let reading = texts.iter().flatten().filter(|run| run.statement.uses.contains(Uses::LAST_VALUE));
    for run in reading {
        refuse_unless(&run.sql(), is_oracle(&state.vars, first), |_| false)?;
    }
    Ok(())
}

fn refuse_unless(
    text: &SqlText<'_>,
    is_oracle: bool,
    is_here: impl Fn(&TableName) -> bool,
) -> Result<(), ProxyError> {
    for read in &text.names().sequences.read {
        let is_read = is_oracle || !read.is_member;
        if is_read && !read.sequence.as_ref().is_some_and(&is_here) {
            let name = read.sequence.as_ref().map_or("s", |sequence| sequence.name.as_str());
            return Err(ProxyError::LastValueGone(name.to_owned()));
        }
    }
    Ok(())
}

/// `s.currval` is a column elsewhere.
fn is_oracle(vars: &Vars, first: Option<&FirstMode>) -> bool {
    let own = vars.get("sql_mode").map(|mode| &**mode);
    own.or(first.map(FirstMode::mode)).is_some_and(|mode| mode_has(mode, b"ORACLE"))
}

fn in_schema(sequence: &TableName, state: &SessionState) -> TableName {
    let schema = sequence.schema.clone().or_else(|| state.schema.as_deref().map(str::to_owned));
    TableName { schema, name: sequence.name.clone() }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{Flavor, LexOptions, classify};

    use super::*;
    use crate::follow::TextRun;

    const LEX: LexOptions = LexOptions {
        flavor: Flavor::MariaDb,
        server_version: 101_119,
        ansi_quotes: delphinus_sql::Quotes::Standard,
        backslash: delphinus_sql::Backslash::Escapes,
        charset: delphinus_sql::TextCharset::Utf8,
    };

    /// Whether a text is refused where the session has taken a value of `app.s` before.
    fn is_refused(sql: &str, mode: &str) -> bool {
        let text = SqlText::new(sql.as_bytes(), LEX);
        let vars = Vars::from([(Box::from("sql_mode"), Box::from(mode.as_bytes()))]);
        let state = SessionState {
            schema: Some("app".into()),
            vars: std::rc::Rc::new(vars),
            ..SessionState::default()
        };
        let taken = TableName { schema: Some("app".to_owned()), name: "s".to_owned() };
        refuse_unless(&text, is_oracle(&state.vars, None), |sequence| in_schema(sequence, &state) == taken)
            .is_err()
    }

    #[test]
    fn only_what_the_session_has_taken_is_read() {
        for (sql, refused) in [
            ("SELECT LASTVAL(s), PREVIOUS VALUE FOR app.s", false),
            ("SELECT LASTVAL(`s`)", false),
            ("SELECT LASTVAL(t)", true),
            ("SELECT PREVIOUS VALUE FOR other.s", true),
            ("SELECT LASTVAL(s), LASTVAL(t)", true),
            // The text itself takes it first.
            ("INSERT INTO a VALUES (NEXTVAL(t), LASTVAL(t))", false),
            ("INSERT INTO a VALUES (LASTVAL(t), NEXTVAL(t))", true),
            ("SELECT NEXT VALUE FOR t; SELECT LASTVAL(t)", false),
            // A column, and a name.
            ("SELECT t.currval, previous value FROM t", false),
            ("SELECT 'LASTVAL(t)'", false),
        ] {
            assert_eq!(is_refused(sql, ""), refused, "{sql}");
        }
        for (sql, refused) in [
            ("SELECT s.currval, app.s.currval, `app`.`s`.currval", false),
            ("SELECT t.currval", true),
            ("SELECT t.nextval, t.currval", false),
            ("SELECT s /* what is between is not read */ .currval", true),
        ] {
            assert_eq!(is_refused(sql, "ANSI_QUOTES, Oracle"), refused, "{sql}");
        }
    }

    #[test]
    fn what_execute_runs_is_refused() {
        let texts = |sql: &str| {
            [Some(TextRun { text: sql.to_owned(), lex: LEX, statement: classify(sql.as_bytes(), LEX) })]
        };
        let check = |sql: &str| check_texts_run(&texts(sql), &SessionState::default(), None);
        assert!(check("SELECT LASTVAL(s)").is_err());
        assert!(check("SELECT NEXTVAL(s), LASTVAL(s)").is_ok());
    }

    #[test]
    fn a_session_that_has_set_no_mode_has_its_servers() {
        let oracle = FirstMode::new(Box::from(&b"PIPES_AS_CONCAT,ORACLE"[..]));
        let own = |mode: &str| Vars::from([(Box::from("sql_mode"), Box::from(mode.as_bytes()))]);
        for (vars, first, expected) in [
            (Vars::default(), None, false),
            (Vars::default(), Some(&oracle), true),
            (own("ANSI_QUOTES"), Some(&oracle), false),
            (own("oracle"), None, true),
        ] {
            assert_eq!(is_oracle(&vars, first), expected, "{vars:?}");
        }
    }
}
