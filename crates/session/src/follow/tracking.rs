//! The variables that have changes of a session told (`session_track_*`). On the connections to backends they are the proxy's: it has
//! everything reported. SHOW VARIABLES shows what the client has set. What of a report it is told, says `crate::state::AskedTracking`.

use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Class, Effects, SqlText, Statement, Uses, may_list_variable};
use delphinus_wire::response::Status;

use crate::state::{AskedTracking, Wanted};

/// What a statement may do while these variables are not the proxy's. Of anything else it would be told nothing.
const IS_SEEN: Effects = Effects::SETS_USER_VARS.union(Effects::MAY_COUNT_ROWS);

impl Wanted {
    /// True if the statement may show these variables, and they can be hidden while it runs.
    #[inline]
    pub(crate) fn shows_tracking(statement: &Statement, text: &SqlText<'_>) -> bool {
        statement.uses.contains(Uses::TRACKING)
            && statement.effects.without(IS_SEEN).is_empty()
            && (statement.class != Class::Show
                || may_list_variable(text.sql, text.lex, AskedTracking::PREFIX))
    }

    /// Hides what the proxy has set on the connection, for a statement that would show it.
    pub(crate) async fn hide_own_tracking(&mut self, checkout: &mut Checkout) -> Result<(), PoolError> {
        let sql = self.tracking_statement(true);
        if !sql.is_empty() {
            checkout.query(&sql).await?;
        }
        Ok(())
    }

    /// Has everything reported again, behind the answer to such a statement. What that has left on the connection is not asked for.
    pub(crate) async fn track_again(
        &mut self,
        checkout: &mut Checkout,
        text: &[u8],
    ) -> Result<(), PoolError> {
        let sql = self.tracking_statement(false);
        if sql.is_empty() {
            return Ok(());
        }
        let tracked = checkout.query_in_between(&sql).await;
        self.unless_refused(tracked, text).map(|_| ())
    }

    fn tracking_statement(&self, to_defaults: bool) -> String {
        let in_transaction = self.status.contains(Status::IN_TRANS);
        self.asked_tracking.set_those_of_the_proxy(to_defaults, self.flavor(), in_transaction)
    }
}
