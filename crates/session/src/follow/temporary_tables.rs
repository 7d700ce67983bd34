//! Temporary tables that code in the database has made: servers only count them.

use std::io;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Class, Effects, Flavor};
use delphinus_state::PinReason;
use delphinus_wire::response::TextResult;

use super::full_answers::uncut;
use crate::state::{Ran, Wanted};

/// More than any server has counted: the next question shows another number.
const UNKNOWN: u64 = u64::MAX;

impl Wanted {
    /// A routine that has made temporary tables pins, whatever has become of them.
    pub(super) async fn ask_temporary_tables(
        &mut self,
        checkout: &mut Checkout,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        // MySQL counts them among all tables.
        let answer = match self.flavor() {
            Flavor::MySql => self.ask_mysql_status(checkout).await?,
            Flavor::MariaDb if self.want.vars.contains_key("sql_select_limit") => {
                // That cuts the answer of SHOW STATUS short, too.
                let table = "information_schema.SESSION_STATUS";
                let counter = "Com_create_temporary_table";
                let sql = format!("SELECT * FROM {table} WHERE VARIABLE_NAME = '{counter}'");
                checkout.query(&uncut(&self.want.vars, &sql)).await?
            }
            Flavor::MariaDb => {
                checkout.query("SHOW SESSION STATUS LIKE 'Com_create_temporary_table'").await?
            }
        };
        let count = answer.rows.first().and_then(|row| row.get(1)?.clone()).unwrap_or_default();
        let count = std::str::from_utf8(&count).ok().and_then(|count| count.parse().ok());
        let known = &mut checkout.connection().temporary_tables_made;
        let is_new = count != Some(*known);
        *known = count.unwrap_or_default();
        if is_new {
            self.pins.add(PinReason::UnknownState, rt::now(), ran.text.sql);
        }
        Ok(())
    }

    /// The counter of tables made counts the session's own ones, too. It is not asked for them: what the client asks of its
    /// statement would be about that question then.
    pub(crate) fn count_own_tables(&mut self, checkout: &mut Checkout, ran: Ran<'_>) {
        let known = self.ran_by_execute(ran.statement, ran.text);
        let statement = known.as_ref().map_or(ran.statement, |known| known.runs().0);
        let counts = match statement.class {
            Class::CreateTable => self.flavor() == Flavor::MySql,
            _ => statement.effects.contains(Effects::CREATES_TEMP_TABLE),
        };
        if !counts {
            return;
        }
        let is_one = matches!(statement.class, Class::CreateTable | Class::CreateTemporaryTable);
        let made = &mut checkout.connection().temporary_tables_made;
        // Whether one that failed has counted depends on the error, and of several on the first that failed.
        *made = if is_one && ran.response.is_ok() { made.saturating_add(1) } else { UNKNOWN };
    }

    /// The counter in full: MySQL cuts the answer of SHOW STATUS short at `sql_select_limit`, too, and not every user may read the table
    /// behind it.
    async fn ask_mysql_status(&self, checkout: &mut Checkout) -> Result<TextResult, PoolError> {
        let sql = "SHOW SESSION STATUS LIKE 'Com_create_table'";
        let Some(limit) = self.want.vars.get("sql_select_limit") else {
            return checkout.query(sql).await;
        };
        let back = format!("SET SESSION sql_select_limit = {}", String::from_utf8_lossy(limit));
        checkout.query("SET SESSION sql_select_limit = 18446744073709551615").await?;
        let answer = checkout.query(sql).await;
        // Also where it was refused or killed: the limit is the client's.
        match checkout.query(&back).await {
            Err(error @ PoolError::Refused { .. }) => {
                Err(checkout.lost(io::Error::other(error.to_string()).into()))
            }
            done => done.and(answer),
        }
    }
}
