//! What a statement may have changed without a word of the server is asked on its connection, right after it and before another session
//! gets that connection.
//!
//! Owns: the questions about variables, the schema, the role and the collation, and what becomes of one that the server refuses.

use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError, Transactions};
use delphinus_sql::{Effects, Flavor};
use delphinus_state::{
    Changed, HiddenCollation, Learnt, PinReason, is_derived, is_movable, is_wide, quote_identifier,
    set_reported,
};
use delphinus_topology::{Collation, Collations};
use delphinus_wire::error_code;
use delphinus_wire::response::TextResult;

use super::full_answers::uncut;
use crate::state::{Ran, Wanted};

impl Wanted {
    /// Asks what is not known yet after a statement; `collations`: those of the servers, where `learnt` needs them. Returns what the
    /// server has reported only now.
    pub(crate) async fn ask(
        &mut self,
        checkout: &mut Checkout,
        learnt: &Learnt,
        ran: Ran<'_>,
        collations: Option<&Collations>,
    ) -> Result<Vec<Changed>, PoolError> {
        // What is saved on the way is in the character set that the statement has left.
        checkout.connection().have.vars = self.want.vars.clone();
        if self.pins.are_recorded() {
            if learnt.asks_by_statements() {
                // The questions would be recorded, too.
                self.leave_unasked(ran.text.sql);
            }
        } else if self.reads_results() {
            self.ask_about_session(checkout, learnt, ran, collations).await?;
        }
        if learnt.may_lose_transactions {
            checkout.connection().transactions = Transactions::MayBeForgotten;
        }
        if learnt.ping {
            let answer = checkout.ping().await;
            if let Some((status, changes)) = self.unless_refused(answer, ran.text.sql)? {
                self.status = status.of_session();
                self.pins.follow(status, rt::now(), ran.text.sql);
                self.apply_late(&changes, ran);
                return Ok(changes);
            }
        }
        Ok(Vec::new())
    }

    async fn ask_about_session(
        &mut self,
        checkout: &mut Checkout,
        learnt: &Learnt,
        ran: Ran<'_>,
        collations: Option<&Collations>,
    ) -> Result<(), PoolError> {
        let sql = ran.text.sql;
        if !learnt.user_vars.is_empty() {
            let asked = self.ask_user_vars(checkout, &learnt.user_vars, sql).await;
            self.unless_refused(asked, sql)?;
        }
        if !learnt.vars.is_empty() {
            let asked = if learnt.has_failed {
                self.ask_vars_after_error(checkout, &learnt.vars).await
            } else {
                self.ask_vars(checkout, &learnt.vars).await
            };
            self.unless_refused(asked, sql)?;
        }
        self.learn_collations(learnt, collations);
        if learnt.schema {
            let answer = checkout.query("SELECT DATABASE() LIMIT 1").await;
            if let Some(answer) = self.unless_refused(answer, sql)? {
                let name = answer.rows.first().and_then(|row| row.first()?.as_deref());
                self.want.schema = name.map(|name| Rc::from(String::from_utf8_lossy(name)));
            }
        }
        if learnt.role {
            self.ask_role(checkout).await?;
        }
        if learnt.temporary_tables {
            let asked = self.ask_temporary_tables(checkout, ran).await;
            self.unless_refused(asked, sql)?;
        }
        if learnt.hidden_user_vars {
            let asked = self.ask_hidden_user_vars(checkout, ran).await;
            self.unless_refused(asked, sql)?;
        }
        Ok(())
    }

    /// An answer to a question of the proxy's own. The server may refuse that, for a limit that the session has set, or because it was
    /// killed: what it was to tell stays on the connection, and with it the session. The client is told nothing of that.
    pub(crate) fn unless_refused<T>(
        &mut self,
        answer: Result<T, PoolError>,
        sql: &[u8],
    ) -> Result<Option<T>, PoolError> {
        match answer {
            Err(error @ PoolError::Refused { .. }) => {
                tracing::debug!(session.id = self.id.0, %error, "the proxy cannot read the state of this session");
                self.leave_unasked(sql);
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// What a statement has made of the session stays on the connection, and with it the session.
    pub(crate) fn leave_unasked(&mut self, sql: &[u8]) {
        self.pins.add(PinReason::UnknownState, rt::now(), sql);
        // What they were before must not be taken for what they are.
        self.want.user_vars = Rc::default();
    }

    /// False if answers come in a character set that the proxy cannot read: the session is pinned for it until the reset.
    pub(crate) fn reads_results(&self) -> bool {
        !self.want.vars.get("character_set_results").is_some_and(|charset| is_wide(charset))
    }

    /// SET ROLE pins until the role is that of a new login again: none, where the user has no default roles. MySQL
    /// connections that have had a role were seen to refuse what the user may do: there it pins until the reset.
    async fn ask_role(&mut self, checkout: &mut Checkout) -> Result<(), PoolError> {
        if self.flavor() == Flavor::MySql {
            return Ok(());
        }
        // One by one: CURRENT_ROLE() beside a table counts as unsafe, as LIMIT does (`uncut`).
        let role = checkout.query("SELECT CURRENT_ROLE() LIMIT 1").await;
        if !is_first(role, |role| matches!(role, None | Some(b"" | b"NONE")))? {
            return Ok(());
        }
        let defaults = "SELECT COUNT(*) FROM information_schema.APPLICABLE_ROLES WHERE IS_DEFAULT = 'YES'";
        let defaults = checkout.query(&uncut(&self.want.vars, defaults)).await;
        if is_first(defaults, |count| count == Some(b"0"))? {
            self.pins.remove(PinReason::Role);
        }
        Ok(())
    }

    async fn ask_vars(&mut self, checkout: &mut Checkout, names: &[Box<str>]) -> Result<(), PoolError> {
        let list: Vec<_> = names.iter().map(|name| format!("@@session.{}", quote_identifier(name))).collect();
        let answer = match checkout.query(&format!("SELECT {} LIMIT 1", list.join(", "))).await {
            Ok(answer) => answer,
            Err(error) if is_no_variable(&error) && names.len() == 1 => return Ok(()),
            Err(error) if is_no_variable(&error) => {
                for name in names {
                    Box::pin(self.ask_vars(checkout, std::slice::from_ref(name))).await?;
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Some(row) = answer.rows.first() else { return Ok(()) };
        let vars = Rc::make_mut(&mut self.want.vars);
        for (name, value) in names.iter().zip(row) {
            vars.insert(name.clone(), value.as_deref().unwrap_or_default().into());
        }
        Ok(())
    }

    /// What was not allowed must not be taken for set: setting it back would not be allowed either.
    async fn ask_vars_after_error(
        &mut self,
        checkout: &mut Checkout,
        names: &[Box<str>],
    ) -> Result<(), PoolError> {
        for name in names {
            let name = quote_identifier(name);
            let answer =
                match checkout.query(&format!("SELECT @@session.{name}, @@global.{name} LIMIT 1")).await {
                    Ok(answer) => answer,
                    // Or one that has no global value and is not reported.
                    Err(error) if is_no_variable(&error) => continue,
                    Err(error) => return Err(error),
                };
            let Some([value, default]) = answer.rows.first().map(Vec::as_slice) else { continue };
            let key = name.trim_matches('`');
            if value != default || self.want.vars.contains_key(key) {
                let value = value.as_deref().unwrap_or_default().into();
                Rc::make_mut(&mut self.want.vars).insert(key.into(), value);
            }
        }
        Ok(())
    }

    /// SET NAMES hides the collation behind the character sets, too. So does a collation's number in the place of a character set's
    /// name.
    fn learn_collations(&mut self, learnt: &Learnt, all: Option<&Collations>) {
        if !learnt.names_collation.is_empty()
            && let Some(name) = self.want.vars.get("collation_connection")
        {
            let found = std::str::from_utf8(name).ok().and_then(|name| all?.by_name(name));
            self.learn_hidden(&learnt.names_collation, found);
        }
        for (hidden, id) in &learnt.numbered_collations {
            self.learn_hidden(&[hidden], all.and_then(|all| all.by_id(*id)));
        }
    }

    fn learn_hidden(&mut self, hidden: &[&'static str], found: Option<&Collation>) {
        match found {
            Some(found) if found.is_default => {}
            Some(found) => {
                let value = HiddenCollation { name: &found.name, number: found.id }.to_value();
                let vars = Rc::make_mut(&mut self.want.vars);
                vars.extend(hidden.iter().map(|key| ((*key).into(), value.clone())));
            }
            // It could not be set on another connection.
            None => self.pins.add(PinReason::UnknownState, rt::now(), b"an unknown collation"),
        }
    }

    fn apply_late(&mut self, changes: &[Changed], ran: Ran<'_>) {
        for change in changes {
            match change {
                Changed::Var(name, value) => {
                    if is_movable(name) && !is_derived(name) {
                        set_reported(Rc::make_mut(&mut self.want.vars), name, value);
                    }
                }
                Changed::Schema(schema) => self.want.schema = schema.as_deref().map(Rc::from),
                // Of other statements it is known what they change.
                Changed::State if ran.statement.effects.intersects(Effects::OPAQUE) => {
                    self.pins.add(PinReason::UnknownState, rt::now(), ran.text.sql);
                }
                Changed::State | Changed::Gtids(_) => {}
            }
        }
    }
}

/// True if the answer begins with a value that `is_wanted`; false if the server has refused it.
fn is_first(
    answer: Result<TextResult, PoolError>,
    is_wanted: impl Fn(Option<&[u8]>) -> bool,
) -> Result<bool, PoolError> {
    match answer {
        Err(PoolError::Refused { .. }) => Ok(false),
        answer => Ok(answer?
            .rows
            .first()
            .and_then(|row| row.first())
            .is_some_and(|cell| is_wanted(cell.as_deref()))),
    }
}

/// True if there is no such variable, or it has no value for the session, as some of plugins: it is not the session's state.
fn is_no_variable(error: &PoolError) -> bool {
    const NONE: [u16; 2] =
        [error_code::ER_UNKNOWN_SYSTEM_VARIABLE, error_code::ER_INCORRECT_GLOBAL_LOCAL_VAR];
    matches!(error, PoolError::Refused { error, .. } if NONE.contains(&error.code))
}
