//! What the operator's rules say about a statement.

use delphinus_route::{Facts, Question, Rule};
use delphinus_sql::CacheWish;

use super::{Around, AskedPlace, CopyWanted, Steering};
use crate::client_error::Steered;
use crate::hold::Held;

impl<'a> Around<'a> {
    /// What rules look at.
    pub(crate) fn facts(self, question: &Question<'a>, user: &'a str) -> Facts<'a> {
        Facts {
            user,
            schema: self.state.want.schema.as_deref(),
            client: self.login.client_ip,
            listener: &self.login.listener.name,
            statement: question.statement,
            sql: question.sql,
            lex: question.lex,
        }
    }
}

impl Steering {
    /// Takes over what a rule that matches says, where hints say nothing else.
    pub(crate) fn take_rule(&mut self, rule: &Rule) -> Result<(), Steered> {
        self.of_command.mirror = CopyWanted::by(rule);
        if let Some(message) = &rule.then.reject {
            return Err(Steered::RejectedByRule(message.clone()));
        }
        if self.of_command.wish.is_none() {
            self.of_command.wish = rule.then.place.clone().map(AskedPlace::Rule);
        }
        if self.of_command.timeout.is_none() {
            self.of_command.timeout = rule.then.timeout;
        }
        let own = self.own.as_ref().and_then(|own| own.consistency);
        if self.of_command.consistency.is_none() && own.is_none() {
            self.of_command.consistency = rule.then.consistency;
        }
        if let (None, Some(ttl)) = (self.of_command.cache, rule.then.cache_ttl) {
            self.of_command.cache =
                Some(CacheWish::of_ms(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)));
            self.of_command.cache_rule = Some(Box::new((rule.name.clone(), rule.then.cache_terms)));
        }
        Ok(())
    }

    /// True if the rule wants the session to keep its connection. A transaction on a replica is not to stay there when it has ended.
    pub(crate) fn is_dedicated_by(&self, rule: &Rule, held: &Held) -> bool {
        rule.then.dedicates && !(self.replica.is_there && held.bound.is_some())
    }
}
