//! The short way to an answer that is kept: the same text in a session that is alike was steered before, and what came of that is kept beside
//! the answer. Nothing of the text is read then.
//!
//! Owns: what has to be the same, beside the question itself, for the same steering to come of it. What a shortcut cannot tell (hints, rules
//! that do more than have answers kept, rules about clients or listeners, settings of the session) makes none.

use std::sync::Arc;

use delphinus_cache::{Command, Kept};
use delphinus_net::rt;
use delphinus_route::{Rule, Rules};
use delphinus_sql::{Consistency, Digest, Statement, Uses};

use super::{Answers, Asking, Wanting};
use crate::steer::Steering;

/// So many questions in a row find no shortcut until none is looked for any more. The next answer from the cache has them looked for again.
const PATIENCE: u8 = 32;

/// What steering has found for a question.
#[derive(Debug)]
pub(crate) struct Shortcut {
    /// What its text is.
    pub statement: Statement,
    /// What it counts for.
    pub digest: Option<Digest>,
    /// How old what it reads may be.
    pub consistency: Option<Consistency>,
    wanting: Wanting,
    /// The rules, of which this is the one that has matched.
    rules: Arc<Rules>,
    rule: usize,
}

impl Shortcut {
    fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.statement, one.digest, one.consistency, one.wanting.clone(), one.rule);
        of(self) == of(other) && Arc::ptr_eq(&self.rules, &other.rules)
    }

    /// Counts that its rule has matched.
    pub(crate) fn count_rule(&self) {
        if let Some(rule) = self.rules.at(self.rule) {
            rule.count();
        }
    }
}

impl Steering {
    /// True if it is worth a look. A text that a rule has made has been steered: what another rule says of it does not count.
    #[inline]
    pub(crate) fn may_be_short(&self) -> bool {
        self.shortcuts_left > 0
            && !self.of_command.is_rewritten
            && self.own.is_none()
            && self.limits.is_none()
            && !self.traces
    }

    /// An answer was found by a shortcut, or could have been.
    pub(crate) fn is_shorter(&mut self) {
        self.shortcuts_left = PATIENCE;
    }

    /// None was.
    pub(crate) fn is_no_shorter(&mut self) {
        self.shortcuts_left = self.shortcuts_left.saturating_sub(1);
    }

    /// The shortcut to what this statement is answered by, if steering has found nothing that it cannot tell.
    pub(crate) fn shortcut(
        &self,
        (statement, digest): (&Statement, Option<Digest>),
        wanting: &Wanting,
        rules: &Arc<Rules>,
    ) -> Option<Shortcut> {
        let name = wanting.rule.as_deref()?;
        let rule = rules.iter().position(|rule| *rule.name == *name)?;
        let is_plain = self.own.is_none()
            && !statement.uses.contains(Uses::HINTS)
            && !self.of_command.is_rewritten
            && rules.look_at_statements_only()
            && rules.at(rule).is_some_and(only_keeps);
        is_plain.then(|| Shortcut {
            statement: *statement,
            digest,
            consistency: self.of_command.consistency,
            wanting: wanting.clone(),
            rules: rules.clone(),
            rule,
        })
    }

    /// Takes over what steering has found before.
    pub(crate) fn take_shortcut(&mut self, shortcut: &Shortcut) {
        self.of_command.is_asked = true;
        self.of_command.consistency = shortcut.consistency;
    }
}

/// True for a rule that does nothing but have answers kept.
fn only_keeps(rule: &Rule) -> bool {
    let then = &rule.then;
    then.place.is_none()
        && then.reject.is_none()
        && then.delay.is_zero()
        && then.rewrite.is_none()
        && !then.dedicates
        && then.mirror.is_none()
        && !then.log
}

impl Answers {
    /// The same shortcut as that of the last answer, if it is alike.
    pub(crate) fn share(&self, shortcut: Shortcut) -> Arc<Shortcut> {
        let mut last = self.last_shortcut.borrow_mut();
        match &*last {
            Some(last) if last.is_like(&shortcut) => last.clone(),
            _ => last.insert(Arc::new(shortcut)).clone(),
        }
    }

    /// An answer that is there, young enough, and was kept with a shortcut that holds under these rules.
    pub(crate) fn look_short(
        &self,
        asking: &Asking<'_>,
        command: Command<'_>,
        rules: &Arc<Rules>,
    ) -> Option<Arc<Kept>> {
        let mut key = self.scratch.borrow_mut();
        self.write_key(&mut key, asking, command);
        let kept = self.cache.peek(&key)?;
        let shortcut = shortcut_of(&kept)?;
        let is_young = shortcut.wanting.age().is_aging(&kept, rt::now()) == Some(false);
        (is_young && Arc::ptr_eq(&shortcut.rules, rules)).then_some(kept)
    }
}

/// The shortcut that is kept with an answer.
pub(crate) fn shortcut_of(kept: &Kept) -> Option<&Shortcut> {
    kept.beside.as_deref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_a_rule_has_made_has_no_shortcut() {
        let mut steering = Steering::default();
        assert!(!steering.may_be_short(), "none was ever found");
        steering.is_shorter();
        assert!(steering.may_be_short());
        (steering.of_command.is_asked, steering.of_command.is_rewritten) = (true, true);
        assert!(!steering.may_be_short());
        steering.end_command();
        assert!(steering.may_be_short());
    }
}
