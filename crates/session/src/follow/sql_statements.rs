//! Statements prepared in SQL text follow their session: before one is run or dropped, or code in the database may do so,
//! the connection is made to have those of the session, and none that other sessions have left there.
//!
//! Owns: when that is. Which ones can follow is in `delphinus_state::SqlStatements`.

use std::collections::BTreeSet;
use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{
    Class, Effects, PreparedChange, SqlPrepared, SqlText, Statement, prepared_from, sql_prepared,
};
use delphinus_state::{Executed, PinReason, SqlStatement, quote_identifier};
use delphinus_wire::error_code;

use crate::client_error::ProxyError;
use crate::state::Wanted;

/// Statements about them.
const ABOUT: Effects = Effects::SQL_PREPARES.union(Effects::SQL_EXECUTES).union(Effects::SQL_DEALLOCATES);

/// Statements after which a session may be in another state. Those that it has prepared stay with the connection then.
const LEAVES_HOME: Effects =
    Effects::SETS_SYSTEM_VARS.union(Effects::CHANGES_SCHEMA).union(Effects::CALLS_ROUTINE);

/// Which of them a statement may touch.
enum Touched {
    /// These; the last part are those that it only drops.
    Named(Vec<String>, Vec<String>),
    /// All that the session has.
    Own,
    /// Whatever there is on the connection.
    All,
}

/// The work of making a connection have what a statement may touch, name by name. It says what has to be run there; who runs it is told
/// by KILL and by the end of the client.
pub(crate) struct Bringing {
    /// What the statement only drops.
    dropped: std::vec::IntoIter<String>,
    names: std::vec::IntoIter<String>,
    /// What cannot be prepared any more is missed by whoever runs it.
    is_lenient: bool,
}

/// One statement to run on the connection, and for which name.
pub(crate) struct Step {
    name: String,
    pub sql: String,
    leaves: Leaves,
}

/// What a step leaves on the connection.
enum Leaves {
    Nothing,
    /// The session's own.
    Own(Rc<SqlStatement>),
    /// One that is there only to be dropped.
    Any,
}

impl Bringing {
    /// All of these, as far as they can be brought.
    fn all(names: BTreeSet<String>) -> Self {
        let names: Vec<_> = names.into_iter().collect();
        Self { dropped: Vec::new().into_iter(), names: names.into_iter(), is_lenient: true }
    }

    /// What has to be run next; `None` at the end.
    pub(crate) fn next(
        &mut self,
        state: &Wanted,
        checkout: &mut Checkout,
    ) -> Result<Option<Step>, ProxyError> {
        for name in self.dropped.by_ref() {
            match missing(&name, state, checkout) {
                Missing::None => {}
                Missing::Drop => return Ok(Some(Step::drop(name))),
                // Any will do: the right one might not be to be had any more.
                Missing::Own(_) => {
                    let sql = format!("PREPARE {} FROM 'DO 0'", quote_identifier(&name));
                    return Ok(Some(Step { name, sql, leaves: Leaves::Any }));
                }
            }
        }
        for name in self.names.by_ref() {
            match missing(&name, state, checkout) {
                Missing::None => {}
                Missing::Drop => return Ok(Some(Step::drop(name))),
                Missing::Own(own) if own.is_at_home(&state.want) => {
                    // Whatever comes of it, what was there before is not to be relied on.
                    checkout.connection().sql.put(&name, None);
                    let sql = own.prepare().to_owned();
                    return Ok(Some(Step { name, sql, leaves: Leaves::Own(own) }));
                }
                Missing::Own(_) if self.is_lenient => {}
                // The session has left the state that it could be prepared in when it could not be.
                Missing::Own(_) => return Err(ProxyError::CannotPrepareAgain(name)),
            }
        }
        Ok(None)
    }

    /// Takes in what has come of a step.
    pub(crate) fn has_run(
        &self,
        step: Step,
        result: Result<(), ProxyError>,
        checkout: &mut Checkout,
    ) -> Result<(), ProxyError> {
        let there = &mut checkout.connection().sql;
        match (result, step.leaves) {
            (Err(ProxyError::Pool(PoolError::Refused { error, .. })), Leaves::Nothing)
                if error.code == error_code::ER_UNKNOWN_STMT_HANDLER =>
            {
                there.remove(&step.name);
            }
            (Err(ProxyError::Pool(PoolError::Refused { error, .. })), _)
                if self.is_lenient && !ENDS.contains(&error.code) => {}
            (Err(error), _) => return Err(error),
            (Ok(()), Leaves::Nothing) => there.remove(&step.name),
            (Ok(()), Leaves::Own(own)) => there.put(&step.name, Some(own)),
            (Ok(()), Leaves::Any) => there.put(&step.name, None),
        }
        Ok(())
    }
}

impl Step {
    fn drop(name: String) -> Self {
        let sql = format!("DEALLOCATE PREPARE {}", quote_identifier(&name));
        Self { name, sql, leaves: Leaves::Nothing }
    }
}

/// What a connection misses of a name.
enum Missing {
    None,
    /// What is there is another session's.
    Drop,
    /// What the session has.
    Own(Rc<SqlStatement>),
}

fn missing(name: &str, state: &Wanted, checkout: &mut Checkout) -> Missing {
    match (state.sql.find(name), checkout.connection().sql.find(name)) {
        // The session is pinned to where it is.
        (Some(None), _) | (None, None) => Missing::None,
        (Some(Some(own)), Some(Some(there))) if Rc::ptr_eq(own, there) => Missing::None,
        (Some(Some(own)), _) => Missing::Own(own.clone()),
        (None, Some(_)) => Missing::Drop,
    }
}

impl Wanted {
    /// True if `to_bring` may find something to do.
    #[inline]
    pub(crate) fn may_touch_sql(&self, checkout: &mut Checkout, statement: &Statement) -> bool {
        !statement.effects.is_empty()
            && statement.effects.intersects(ABOUT.union(LEAVES_HOME).union(Effects::UNKNOWN))
            && (!self.sql.is_empty() || !checkout.connection().sql.is_empty())
    }

    /// What the connection has to have that the statement may touch.
    pub(crate) fn to_bring(
        &self,
        checkout: &mut Checkout,
        statement: &Statement,
        text: &SqlText<'_>,
    ) -> Bringing {
        match Self::touched(statement, text) {
            Touched::Named(names, dropped) => {
                Bringing { dropped: dropped.into_iter(), names: names.into_iter(), is_lenient: false }
            }
            Touched::Own => self.to_bring_all(),
            Touched::All => {
                let there = checkout.connection().sql.names().map(str::to_owned);
                Bringing::all(there.chain(self.sql.names().map(str::to_owned)).collect())
            }
        }
    }

    /// The same for all that the session has: it is about to enter another state.
    pub(crate) fn to_bring_all(&self) -> Bringing {
        Bringing::all(self.sql.names().map(str::to_owned).collect())
    }

    fn touched(statement: &Statement, text: &SqlText<'_>) -> Touched {
        let effects = statement.effects;
        if is_opaque(statement) {
            return Touched::All;
        }
        if !effects.intersects(ABOUT) {
            return Touched::Own;
        }
        let SqlPrepared { changes, mut run } = sql_prepared(text.sql, text.lex);
        // Whether it replaces the one before, or is wrong itself, shows by that one.
        let shows_by_former = prepared_from(text.sql, text.lex).is_none();
        let mut dropped = Vec::new();
        for change in changes {
            match change {
                PreparedChange::Makes(name) if shows_by_former => run.push(name),
                PreparedChange::Makes(_) => {}
                PreparedChange::Drops(name) => dropped.push(name),
            }
        }
        if !run.iter().chain(&dropped).all(|name| is_plain(name)) {
            // Servers take some names for equal that differ here.
            return Touched::All;
        }
        Touched::Named(run, dropped)
    }

    /// What EXECUTE has run, where that is known.
    pub(crate) fn ran_by_execute(
        &self,
        statement: &Statement,
        text: &SqlText<'_>,
    ) -> Option<Rc<SqlStatement>> {
        if statement.class != Class::Execute || self.sql.is_empty() {
            return None;
        }
        self.sql.run_by(statement, text).cloned()
    }

    /// Takes in what a statement has prepared and dropped, and whether the session has to stay with that. So many more are kept: `left`.
    pub(super) fn learn_sql(&mut self, checkout: &mut Checkout, executed: &Executed<'_>, left: usize) {
        let effects = executed.statement.effects;
        if effects.intersects(Effects::SQL_PREPARES.union(Effects::SQL_DEALLOCATES)) {
            let touched = self.sql.learn(&self.want, executed, left);
            for name in &touched {
                checkout.connection().sql.copy(name, &self.sql);
            }
            let is_cut_short = executed.statement.class == Class::Multi && !executed.response.is_ok();
            if touched.is_empty() || is_cut_short {
                // Which of them is not known.
                self.pins.add(PinReason::UnknownState, rt::now(), executed.text.sql);
            }
        } else if self.sql.is_empty() {
            return;
        }
        let holds = self.sql.hold(&self.want);
        self.pins.set(PinReason::SqlPrepared, holds, executed.now, executed.text.sql);
    }
}

/// True for what may run or drop any of them.
fn is_opaque(statement: &Statement) -> bool {
    let effects = statement.effects;
    effects.contains(Effects::UNKNOWN)
        || statement.class == Class::Call
        || statement.class == Class::Multi && effects.intersects(ABOUT.union(Effects::CALLS_ROUTINE))
}

/// Somebody wants the statement that all this is for to end.
const ENDS: [u16; 4] = [
    error_code::ER_SERVER_SHUTDOWN,
    error_code::ER_QUERY_INTERRUPTED,
    error_code::ER_STATEMENT_TIMEOUT,
    error_code::ER_QUERY_TIMEOUT,
];

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$')
}
