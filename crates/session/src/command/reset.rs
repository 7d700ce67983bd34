//! COM_RESET_CONNECTION: a session like new, on the same client connection.

use crate::input::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn reset_connection(&mut self, input: Input) -> Outcome {
        self.skip(input).await?;
        self.reset();
        self.answer_ok().await?;
        Ok(Served::Answered)
    }
}
