//! What the operator's filters say about a statement. An ordinary one is only compared with the user's `Guard`.

use delphinus_route::{FilterAction, Filtered, Guard};
use delphinus_sql::{
    Class, Effects, Risks, SqlText, Statement, classify, digest, immediate_from, sql_prepared,
};
use delphinus_state::text_of;

use super::Around;
use crate::client_error::Steered;

/// So many bytes of a statement's normalised text go to the log.
const LOGGED: usize = 256;

/// What is decided about a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// It is about to run.
    Runs,
    /// It is prepared: what is refused is refused now, and what is logged is logged when it runs.
    Prepared,
}

impl Around<'_> {
    /// An error if a filter refuses the statement, of which `guard` says that it has to be looked at.
    #[cold]
    pub(crate) fn check_filters(
        self,
        guard: Guard,
        (statement, text): (&Statement, &SqlText<'_>),
        occasion: Occasion,
    ) -> Result<(), Steered> {
        let risks = self.risks_seen(statement, text);
        if !guard.concerns(risks) || (occasion == Occasion::Prepared && !guard.refuses(risks)) {
            return Ok(());
        }
        let user = self.held.activity.user();
        let Some((filter, risk, action)) = self.routing.filters.verdict(&user, risks) else { return Ok(()) };
        filter.count(action);
        match action {
            FilterAction::Off => Ok(()),
            FilterAction::Log => {
                let mut normalised = Vec::new();
                let hash = digest(text.sql, text.lex, &mut normalised);
                normalised.truncate(LOGGED);
                tracing::info!(
                    session.id = self.held.activity.id.0,
                    user = %user,
                    filter = %filter.name,
                    risk = risk.text(),
                    digest = %hash,
                    text = %String::from_utf8_lossy(&normalised),
                    "a filter matched a statement"
                );
                Ok(())
            }
            FilterAction::Reject => {
                Err(Steered::RejectedByFilter(Filtered { filter: filter.name.clone(), risk }))
            }
        }
    }

    /// Why a filter would refuse the statement; nothing is counted.
    pub(crate) fn refusal_by_filter(
        self,
        guard: Guard,
        statement: &Statement,
        text: &SqlText<'_>,
    ) -> Option<Steered> {
        let risks = self.risks_seen(statement, text);
        let refusal = || self.routing.filters.refusal(&self.held.activity.user(), risks);
        guard.refuses(risks).then(refusal).flatten().map(Steered::RejectedByFilter)
    }

    /// The risks of a statement; of an EXECUTE whose text is known, those of the text.
    fn risks_seen(self, statement: &Statement, text: &SqlText<'_>) -> Risks {
        let is_only_execute = statement.class == Class::Execute
            && statement.count == 1
            && !statement.effects.contains(Effects::CALLS_ROUTINE);
        if !is_only_execute {
            return statement.risks;
        }
        match self.risks_of_executed(text) {
            Some(inner) => statement.risks.without(Risks::UNSEEN) | inner,
            None => statement.risks,
        }
    }

    fn risks_of_executed(self, text: &SqlText<'_>) -> Option<Risks> {
        if let Some(from) = immediate_from(text.sql, text.lex) {
            let inner = text_of(&from, &self.state.want)?;
            return Some(classify(inner.as_bytes(), text.lex).risks);
        }
        let prepared = sql_prepared(text.sql, text.lex);
        let [name] = prepared.run.as_slice() else { return None };
        if let Some(Some(movable)) = self.state.sql.find(name) {
            return Some(movable.runs().0.risks);
        }
        let (inner, lex) = self.state.sql.text(name)?;
        // One that a server prepares again, because a table has changed, may be read as the session reads now.
        Some(classify(inner.as_bytes(), lex).risks | classify(inner.as_bytes(), text.lex).risks)
    }
}
