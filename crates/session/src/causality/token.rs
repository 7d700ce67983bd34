//! The causality token: a session's demands as a text, which leaves it and enters another one.

use delphinus_route::Target;
use delphinus_sql::Flavor;
use delphinus_wire::gtid::GtidSet;

use crate::client_error::ProxyError;
use crate::session::Session;

/// The longest token that is taken from a client, in bytes.
const LONGEST_TOKEN: usize = 16 * 1024;

impl Session {
    /// What another session has to find to see all that this one has seen.
    pub(crate) async fn causality_token(&mut self) -> Result<String, ProxyError> {
        if self.causality.seen.is_some() {
            // Not known yet: the primary has it all.
            let mut checkout = match self.take_bound()? {
                Some(checkout) => checkout,
                None => self.checkout(Target::Primary).await?,
            };
            let variable = match self.lex.options(&self.want.vars).flavor {
                Flavor::MySql => "gtid_executed",
                Flavor::MariaDb => "gtid_current_pos",
            };
            let answer = checkout.query(&format!("SELECT @@global.{variable} LIMIT 1")).await;
            let answer = match answer.map_err(ProxyError::Pool) {
                Ok(answer) => answer,
                Err(error) => {
                    self.leave_without(checkout, &error);
                    return Err(error);
                }
            };
            self.keep_or_give_back(checkout);
            let position = answer.rows.first().and_then(|row| row.first()?.as_deref()).unwrap_or_default();
            self.causality.add(&String::from_utf8_lossy(position));
        }
        Ok(self.causality.token.as_ref().map(ToString::to_string).unwrap_or_default())
    }

    /// True if the servers here could have said this.
    pub(crate) fn is_causality_token(&mut self, text: &str) -> bool {
        let flavor = self.lex.options(&self.want.vars).flavor;
        text.len() <= LONGEST_TOKEN
            && GtidSet::parse(text).is_ok_and(|set| match set {
                GtidSet::MySql(_) => flavor == Flavor::MySql || set.is_empty(),
                GtidSet::MariaDb(_) => flavor == Flavor::MariaDb,
            })
    }

    /// What this names is what the session has to find from now on, beside its own.
    pub(crate) fn take_causality_token(&mut self, text: &str) {
        self.causality.is_foreign |= !text.is_empty() && self.causality.add(text);
    }
}
