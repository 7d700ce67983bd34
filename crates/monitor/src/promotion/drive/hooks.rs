//! Programs of the operators before and after a move. The one before may refuse it; the one after is told how it ended.

use std::time::Instant;

use delphinus_net::rt;
use delphinus_topology::promotion::Plan;
use tracing::warn;

use super::super::settings::PromotionSettings;
use super::super::story::Line;
use super::Driver;
use crate::promotion::hooks::Moment;

impl Driver {
    /// Runs the program for this moment, if there is one.
    ///
    /// # Errors
    /// Why it failed: what it has said, or that it took too long.
    pub(super) async fn hook(
        &self,
        moment: Moment,
        plan: &Plan,
        (set, began): (&PromotionSettings, Instant),
    ) -> Result<(), String> {
        let about = self.about(plan);
        let begun = rt::now();
        let done = self.parts.hooks.run(moment, about, set.hook).await;
        let result = match &done {
            Ok(None) => return Ok(()),
            Ok(Some(said)) => said.clone(),
            Err(why) => format!("failed: {why}"),
        };
        if let Err(why) = &done {
            warn!(program = moment.program(), why, "a program of hook_folder has failed");
        }
        self.story.borrow_mut().tell(Line {
            after: begun.saturating_duration_since(began),
            took: begun.elapsed(),
            backend: String::new(),
            step: format!("run {}", moment.program()),
            result,
        });
        done.map(drop).map_err(|why| format!("the program {} has failed: {why}", moment.program()))
    }

    fn about(&self, plan: &Plan) -> Vec<(&'static str, String)> {
        let snapshot = self.reader.load();
        let name = |id| snapshot.backend(id).map(|one| one.name.to_string());
        let mut about = vec![("DELPHINUS_FROM", name(plan.from).unwrap_or_default())];
        let mut story = self.story.borrow_mut();
        let told = story.last();
        let to = plan.to.or(plan.wanted.to).and_then(name);
        about.push(("DELPHINUS_TO", to.unwrap_or_default()));
        if let Some(told) = told {
            about.push(("DELPHINUS_NUMBER", told.number.to_string()));
            about.push(("DELPHINUS_KIND", told.kind.to_owned()));
            about.push(("DELPHINUS_BY", told.by.clone()));
            about.push(("DELPHINUS_STATE", told.state.to_owned()));
            about.push(("DELPHINUS_REASON", told.reason.clone().unwrap_or_default()));
        }
        about
    }
}
