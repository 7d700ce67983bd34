//! COM_RESET_CONNECTION: a session like new, on the same client connection.

use delphinus_sql::Flavor;
use delphinus_state::set_names_collation;

use crate::answer::give_ok;
use crate::io::Input;
use crate::served::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn reset_connection(&mut self, input: Input) -> Outcome {
        self.client.skip(input).await?;
        // Servers keep the schema, and forget the one of the login.
        let schema = self.state.want.schema.clone();
        self.reset().await;
        self.state.want.schema = schema;
        if self.state.lex.options(&self.state.want.vars).flavor == Flavor::MySql {
            // MySQL forgets the login's character set too, and goes back to its own.
            self.forget_login_charset();
        }
        give_ok(&mut self.client, self.state.status, &self.held.memory).await?;
        Ok(Served::Answered)
    }

    /// The session's character sets are those that the server has by itself.
    pub(super) fn forget_login_charset(&mut self) {
        let vars = std::rc::Rc::make_mut(&mut self.state.want.vars);
        for name in ["character_set_client", "character_set_results", "collation_connection"] {
            vars.remove(name);
        }
        set_names_collation(vars, None);
    }
}
