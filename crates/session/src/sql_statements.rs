//! Statements prepared in SQL text follow their session: before one is run or dropped, or code in the database may do so,
//! the connection is made to have those of the session, and none that other sessions have left there.
//!
//! Owns: when that is. Which ones can follow is in `delphinus_state::SqlStatements`.

use std::collections::BTreeSet;
use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Class, Effects, SqlText, Statement, prepared_from, sql_prepared};
use delphinus_state::{Executed, PinReason, SqlStatement, quote_identifier};
use delphinus_wire::error_code;

use crate::client_error::ProxyError;
use crate::session::Session;
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

impl Session {
    /// True if `bring_sql` may have something to do.
    #[inline]
    pub(crate) fn may_touch_sql(&self, checkout: &mut Checkout, statement: &Statement) -> bool {
        !statement.effects.is_empty()
            && statement.effects.intersects(ABOUT.union(LEAVES_HOME).union(Effects::UNKNOWN))
            && (!self.state.sql.is_empty() || !checkout.connection().sql.is_empty())
    }

    /// Makes the connection have what the statement may touch, as the session has it.
    pub(crate) async fn bring_sql(
        &mut self,
        checkout: &mut Checkout,
        statement: &Statement,
        sql: &[u8],
    ) -> Result<(), ProxyError> {
        match self.touched(statement, sql) {
            Touched::Named(names, dropped) => {
                for name in dropped {
                    self.bring_to_drop(checkout, &name).await?;
                }
                for name in names {
                    self.bring_one(checkout, &name).await?;
                }
            }
            Touched::Own => self.bring_own_sql(checkout).await?,
            Touched::All => {
                let there = checkout.connection().sql.names().map(str::to_owned);
                let names: BTreeSet<String> =
                    there.chain(self.state.sql.names().map(str::to_owned)).collect();
                self.bring_all(checkout, names).await?;
            }
        }
        self.steering.in_time(self.state.flavor())
    }

    /// The same for all that the session has: it is about to enter another state.
    pub(crate) async fn bring_own_sql(&mut self, checkout: &mut Checkout) -> Result<(), ProxyError> {
        let names = self.state.sql.names().map(str::to_owned).collect();
        self.bring_all(checkout, names).await
    }

    async fn bring_all(
        &mut self,
        checkout: &mut Checkout,
        names: BTreeSet<String>,
    ) -> Result<(), ProxyError> {
        for name in names {
            match self.bring_one(checkout, &name).await {
                // It cannot be prepared any more, and is missed by whoever runs it.
                Err(ProxyError::CannotPrepareAgain(_)) => {}
                Err(ProxyError::Pool(PoolError::Refused { error, .. })) if !ENDS.contains(&error.code) => {}
                brought => brought?,
            }
        }
        Ok(())
    }

    fn touched(&mut self, statement: &Statement, sql: &[u8]) -> Touched {
        let effects = statement.effects;
        if is_opaque(statement) {
            return Touched::All;
        }
        if !effects.intersects(ABOUT) {
            return Touched::Own;
        }
        let lex = self.state.lex();
        let mut found = sql_prepared(sql, lex);
        if prepared_from(sql, lex).is_none() {
            // Whether it replaces the one before, or is wrong itself, shows by that one.
            found.run.append(&mut found.made);
        }
        let all = found.run.iter().chain(&found.dropped);
        if !all.into_iter().all(|name| is_plain(name)) {
            // Servers take some names for equal that differ here.
            return Touched::All;
        }
        Touched::Named(found.run, found.dropped)
    }

    /// What the session has of this name, if the connection does not have it; `None` if there is nothing to do.
    async fn missing(
        &mut self,
        checkout: &mut Checkout,
        name: &str,
    ) -> Result<Option<Rc<SqlStatement>>, ProxyError> {
        let there = checkout.connection().sql.find(name).map(Option::<&Rc<_>>::cloned);
        match (self.state.sql.find(name), there) {
            // The session is pinned to where it is.
            (Some(None), _) | (None, None) => Ok(None),
            (Some(Some(own)), Some(Some(there))) if Rc::ptr_eq(own, &there) => Ok(None),
            (Some(Some(own)), _) => Ok(Some(own.clone())),
            (None, Some(_)) => {
                let drop = format!("DEALLOCATE PREPARE {}", quote_identifier(name));
                match self.run_own(checkout, &drop).await {
                    Err(ProxyError::Pool(PoolError::Refused { error, .. }))
                        if error.code == error_code::UNKNOWN_STMT_HANDLER => {}
                    dropped => dropped?,
                }
                checkout.connection().sql.remove(name);
                Ok(None)
            }
        }
    }

    async fn bring_one(&mut self, checkout: &mut Checkout, name: &str) -> Result<(), ProxyError> {
        let Some(own) = self.missing(checkout, name).await? else { return Ok(()) };
        if !own.is_at_home(&self.state.want) {
            // The session has left the state that it could be prepared in when it could not be.
            return Err(ProxyError::CannotPrepareAgain(name.to_owned()));
        }
        // Whatever comes of it, what was there before is not to be relied on.
        checkout.connection().sql.put(name, None);
        self.run_own(checkout, own.prepare()).await?;
        checkout.connection().sql.put(name, Some(own));
        Ok(())
    }

    /// One that is only to be dropped may be any: the right one might not be to be had any more.
    async fn bring_to_drop(&mut self, checkout: &mut Checkout, name: &str) -> Result<(), ProxyError> {
        if self.missing(checkout, name).await?.is_some() {
            let any = format!("PREPARE {} FROM 'DO 0'", quote_identifier(name));
            self.run_own(checkout, &any).await?;
            checkout.connection().sql.put(name, None);
        }
        Ok(())
    }

    /// Runs a statement of the proxy's own, of whose warnings the client is told nothing.
    async fn run_own(&mut self, checkout: &mut Checkout, sql: &str) -> Result<(), ProxyError> {
        let run = async |checkout: &mut Checkout| {
            let result = checkout.query(sql).await;
            if !matches!(result, Err(PoolError::Lost { .. })) {
                checkout.forget_warnings().await?;
            }
            result.map(|_| ())
        };
        self.watched(checkout, run).await
    }

    /// Takes in what a statement has prepared and dropped, and whether the session has to stay with that.
    pub(crate) fn learn_sql(&mut self, checkout: &mut Checkout, executed: &Executed<'_>) {
        let effects = executed.statement.effects;
        if effects.intersects(Effects::SQL_PREPARES.union(Effects::SQL_DEALLOCATES)) {
            let limit = self.worker.settings.max_prepared_statements;
            let left = limit.saturating_sub(self.statements.len());
            let touched = self.state.sql.learn(&self.state.want, executed, left);
            for name in &touched {
                checkout.connection().sql.copy(name, &self.state.sql);
            }
            let is_cut_short = executed.statement.class == Class::Multi && !executed.response.is_ok();
            if touched.is_empty() || is_cut_short {
                // Nobody knows which of them.
                self.state.pins.add(PinReason::UnknownState, rt::now(), executed.text.sql);
            }
        } else if self.state.sql.is_empty() {
            return;
        }
        let holds = self.state.sql.hold(&self.state.want);
        self.state.pins.set(PinReason::SqlPrepared, holds, executed.now, executed.text.sql);
    }
}

/// True for what may run or drop any of them.
fn is_opaque(statement: &Statement) -> bool {
    let effects = statement.effects;
    effects.contains(Effects::UNKNOWN)
        || statement.class == Class::Call
        || statement.class == Class::Multi && effects.intersects(ABOUT.union(Effects::CALLS_ROUTINE))
}

/// Somebody wants the statement that all this is for to end: ER_QUERY_INTERRUPTED, ER_QUERY_TIMEOUT, ER_SERVER_SHUTDOWN.
const ENDS: [u16; 4] = [1053, 1317, 1969, 3024];

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$')
}

impl Wanted {
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
}
