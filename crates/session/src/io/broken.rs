//! A command that has no answer, or not all of it: whose end broke, and how far it had come.

use delphinus_net::NetError;

/// Why a command was not forwarded, or its response not to the end.
pub(crate) enum Cut {
    /// The client is gone or breaks the protocol: the session ends.
    Client(NetError),
    /// The backend connection broke.
    Backend {
        /// How.
        error: NetError,
        /// The whole command is here, and nothing of a response has reached the client: it can be sent again.
        is_repeatable: bool,
        /// The client has sent the whole command, and knows an error for the end of the response.
        is_in_step: bool,
    },
}

impl Cut {
    /// Where nothing of a response has come yet.
    pub(crate) fn before_response(error: NetError, is_whole: bool) -> Self {
        Self::Backend { error, is_repeatable: is_whole, is_in_step: is_whole }
    }
}
