//! User variables: what a statement has made of them is read back from the server, so that they can be set elsewhere.

use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Flavor, SqlText};
use delphinus_state::{MOST_USER_VARS, PinReason, READ_AT_ONCE, UserValue, read_back_sql, room_for_values};

use super::full_answers::uncut;
use crate::state::{Ran, Wanted};

impl Wanted {
    /// What the statement `sql` has made of these variables.
    pub(super) async fn ask_user_vars(
        &mut self,
        checkout: &mut Checkout,
        names: &[Box<str>],
        sql: &[u8],
    ) -> Result<(), PoolError> {
        for names in names.chunks(READ_AT_ONCE) {
            self.ask_some_user_vars(checkout, names, sql).await?;
        }
        Ok(())
    }

    async fn ask_some_user_vars(
        &mut self,
        checkout: &mut Checkout,
        names: &[Box<str>],
        sql: &[u8],
    ) -> Result<(), PoolError> {
        if self.pins.has(PinReason::LargeVariables) {
            self.leave_user_vars(names, sql);
            return Ok(());
        }
        let room = room_for_values(&self.want.user_vars, names);
        let question = read_back_sql(names.iter().map(|name| &**name), room);
        let answer = checkout.query(&question).await;
        if answer.as_ref().is_err_and(PoolError::is_no_room) {
            self.leave_user_vars(names, sql);
            return Ok(());
        }
        let answer = answer?;
        let Some(row) = answer.rows.first().filter(|_| room > 0) else {
            self.leave_user_vars(names, sql);
            return Ok(());
        };
        let values = match UserValue::from_row(&answer.columns, row) {
            Some(values) if are_literals(checkout, &values).await? => Some(values),
            _ => None,
        };
        let Some(values) = values else {
            // A value that no other statement can make again: better to keep the connection than to lose it.
            tracing::debug!(
                session.id = self.id.0,
                ?names,
                "a user variable of this session has a value that cannot be moved to another connection"
            );
            self.pins.add(PinReason::UnknownState, rt::now(), sql);
            return Ok(());
        };
        let vars = Rc::make_mut(&mut self.want.user_vars);
        for (name, value) in names.iter().zip(values) {
            vars.insert(name.clone(), value);
        }
        Ok(())
    }

    /// These variables stay on the connection, and with them the session.
    fn leave_user_vars(&mut self, names: &[Box<str>], sql: &[u8]) {
        self.pins.add(PinReason::LargeVariables, rt::now(), sql);
        // What they were before must not be taken for what they are.
        let vars = Rc::make_mut(&mut self.want.user_vars);
        for name in names {
            vars.remove(name);
        }
    }

    /// Preparing `SELECT @a := ?` gives the variable another character set already, on MariaDB.
    pub(crate) async fn ask_prepared_user_vars(
        &mut self,
        checkout: &mut Checkout,
        text: &SqlText<'_>,
    ) -> Result<(), PoolError> {
        let mut names: Vec<Box<str>> =
            text.names().user_variables.iter().map(|name| name.as_str().into()).collect();
        names.sort_unstable();
        if !names.is_empty() {
            self.ask_user_vars(checkout, &names, text.sql).await?;
            checkout.connection().have.user_vars = self.want.user_vars.clone();
        }
        Ok(())
    }

    /// What a function or trigger has assigned is read back where the server lists it. `MySQL` lists it to nobody but
    /// administrators: there the connection starts over before another session gets it.
    pub(crate) async fn ask_hidden_user_vars(
        &mut self,
        checkout: &mut Checkout,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        if self.flavor() == Flavor::MySql {
            checkout.connection().may_hide_user_vars = true;
            return Ok(());
        }
        if self.pins.has(PinReason::LargeVariables) {
            return Ok(());
        }
        // An answer that has no room is read to its end, and the session is pinned.
        let sql = uncut(&self.want.vars, "SELECT VARIABLE_NAME FROM information_schema.USER_VARIABLES");
        let answer = checkout.query(&sql).await?;
        let cells = answer.rows.iter().filter_map(|row| row.first()?.as_deref());
        let names: Vec<Box<str>> =
            cells.map(|name| String::from_utf8_lossy(name).to_lowercase().into_boxed_str()).collect();
        if names.len() > MOST_USER_VARS {
            self.leave_user_vars(&names, ran.text.sql);
        } else if !names.is_empty() {
            self.ask_user_vars(checkout, &names, ran.text.sql).await?;
        }
        Ok(())
    }
}

/// What is asked at once, in bytes of SQL.
const LITERALS_MAX: usize = 1 << 20;

/// True if the server makes these values again of their texts: of a string that is invalid in its character set it would not.
async fn are_literals(checkout: &mut Checkout, values: &[UserValue]) -> Result<bool, PoolError> {
    let unproven: Vec<_> =
        values.iter().filter_map(|value| Some((value.sql(), value.unproven_digits()?))).collect();
    if unproven.is_empty() {
        return Ok(true);
    }
    // In one packet, of which the server may take no longer ones than the value itself was.
    if unproven.iter().map(|(sql, _)| sql.len()).sum::<usize>() > LITERALS_MAX {
        return Ok(false);
    }
    let list: Vec<String> = unproven.iter().map(|(sql, _)| format!("HEX({sql})")).collect();
    match checkout.query(&format!("SELECT {} LIMIT 1", list.join(", "))).await {
        Ok(answer) => {
            let row = answer.rows.first().map(Vec::as_slice).unwrap_or_default();
            Ok(row
                .iter()
                .map(Option::as_deref)
                .eq(unproven.iter().map(|(_, digits)| Some(digits.as_bytes()))))
        }
        Err(PoolError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
