//! What a mirror is asked: a text, or an execution of a statement that is prepared there for it.

use std::rc::Rc;

use delphinus_journal::Origin;
use delphinus_net::{BufferPool, NetError};
use delphinus_pool::{Checkout, Means, Memory, PoolError, Question, StatementKey};
use delphinus_state::{Progress, Response, ResponseTracker, SessionState, Shape};
use delphinus_wire::command::{Code, STMT_ID_AT};
use delphinus_wire::response::Status;
use delphinus_wire::{Capabilities, ExecuteParams, error_code, put_packet};

use crate::hold::prepare_in;
use crate::statements::ClientStatement;

/// A copy of what a session has asked.
pub(crate) enum CommandCopy {
    /// A text.
    Text(Vec<u8>),
    /// An execution.
    Execution(ExecutionCopy),
}

/// An execution of a prepared statement.
pub(crate) struct ExecutionCopy {
    /// What is executed.
    pub(super) statement: Rc<StatementKey>,
    /// The whole command, with the types of the parameters.
    pub(super) payload: Vec<u8>,
    /// What the client has agreed on, which says how the command is to be read.
    pub(super) capabilities: Capabilities,
}

/// Why there is no answer.
pub(crate) enum NotAnswered {
    /// The mirror has refused to prepare the statement; the connection is as good as before.
    Refused(String),
    /// The connection is not.
    Broken(String),
}

impl From<NetError> for NotAnswered {
    fn from(error: NetError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<PoolError> for NotAnswered {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Refused { error, .. } => Self::Refused(format!("error {} of the mirror", error.code)),
            error => Self::Broken(error.to_string()),
        }
    }
}

impl CommandCopy {
    /// An execution of this statement, which is prepared on the mirror, too; `None` for one with parameters that came ahead of it,
    /// and for one whose types the client has never sent: the server will say what is wrong with that.
    pub(crate) fn execution(
        found: &ClientStatement,
        payload: &[u8],
        params: Option<&ExecuteParams>,
        capabilities: Capabilities,
    ) -> Option<Self> {
        if found.has_long_data.is_set() {
            return None;
        }
        let payload = match params {
            Some(ExecuteParams { types: None, .. }) if found.types.is_empty() => return None,
            Some(params @ ExecuteParams { types: None, .. }) => params.with_types(payload, &found.types),
            _ => payload.to_vec(),
        };
        Some(Self::Execution(ExecutionCopy { statement: found.key.clone(), payload, capabilities }))
    }

    /// What is executed, where it is no text itself.
    pub(crate) fn executed(&self) -> Option<&StatementKey> {
        match self {
            Self::Text(_) => None,
            Self::Execution(execution) => Some(&execution.statement),
        }
    }

    /// So much it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Execution(execution) => execution.statement.text().len() + execution.payload.len(),
        }
    }

    /// The command as this connection takes it.
    pub(crate) async fn command(
        &self,
        checkout: &mut Checkout,
        (want, memory): (&SessionState, &Rc<Memory>),
    ) -> Result<Vec<u8>, NotAnswered> {
        let capabilities = checkout.connection().capabilities;
        let has_attributes = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        match self {
            Self::Text(text) => {
                let mut payload = vec![Code::Query as u8];
                if has_attributes {
                    payload.extend_from_slice(&[0, 1]);
                }
                payload.extend_from_slice(text);
                Ok(payload)
            }
            Self::Execution(execution) => {
                if has_attributes != execution.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
                    let why = "the mirror and the client's backends do not agree on query attributes";
                    return Err(NotAnswered::Refused(why.to_owned()));
                }
                let statement = &execution.statement;
                let prepare = async |checkout: &mut Checkout| checkout.prepare(statement.text()).await;
                let id = prepare_in(checkout, statement, (want, memory), Means::All, prepare).await?;
                if let Some(prepared) = checkout.connection().statements.find(&execution.statement) {
                    // Types come with every copy: nobody relies on those of another.
                    prepared.bound_by = 0;
                    prepared.has_run_with_values = true;
                }
                let mut payload = execution.payload.clone();
                payload[STMT_ID_AT].copy_from_slice(&id.0.to_le_bytes());
                Ok(payload)
            }
        }
    }
}

impl NotAnswered {
    /// Gives the connection back, if it is as good as before; why there is no answer.
    pub(crate) fn leave(self, checkout: Checkout) -> String {
        match self {
            Self::Refused(why) => {
                checkout.release();
                why
            }
            Self::Broken(why) => why,
        }
    }
}

/// A command that no client waits for.
pub(crate) struct Errand<'a> {
    /// Who wants it.
    pub origin: Origin,
    pub payload: &'a [u8],
    /// What is executed, where the command is no text.
    pub text: Option<&'a StatementKey>,
    /// What the client has agreed on whose answer it would be.
    pub client: Capabilities,
}

/// Sends a command and reads its answer to the end, as its client would get it. The log is told, as of all that backends are asked.
/// `pass` is told of each part of the answer, or nothing where a client is told of changes that are its own.
pub(crate) async fn exchange(
    buffers: &BufferPool,
    checkout: &mut Checkout,
    errand: Errand<'_>,
    pass: impl FnMut(Option<&[u8]>),
) -> Result<Response, NetError> {
    let Errand { origin, payload, text, client } = errand;
    let began = checkout.connection().begin_question();
    let answered = send_and_read(buffers, checkout, (payload, client), pass).await;
    if let Some(began) = began {
        let (error, rows) = match &answered {
            Ok(response) => (response.error.unwrap_or(0), response.rows),
            Err(_) => (error_code::CR_SERVER_LOST, 0),
        };
        checkout.connection().log_question(Question { origin, payload, text, began, error, rows });
    }
    answered
}

async fn send_and_read(
    buffers: &BufferPool,
    checkout: &mut Checkout,
    (payload, client): (&[u8], Capabilities),
    mut pass: impl FnMut(Option<&[u8]>),
) -> Result<Response, NetError> {
    let capabilities = checkout.connection().capabilities;
    let mut packet = Vec::with_capacity(payload.len() + 4);
    put_packet(&mut packet, 0, payload);
    checkout.connection().stream.write_bytes(&packet).await?;
    let mut tracker = ResponseTracker::new(Shape::Results, capabilities, client);
    let mut bytes = buffers.take();
    loop {
        let (read, passed, is_over) = match tracker.advance(bytes.data_mut())? {
            Progress::Done(n) => (n, n, true),
            Progress::Shortened(n, len) => (n + len, n + len, true),
            Progress::Rewrite(n, len) => {
                pass(None);
                (n + len, 0, tracker.is_done())
            }
            Progress::More(n) | Progress::ResultEnd(n) => (n, n, false),
            Progress::LocalInfile(_) => {
                return Err(delphinus_wire::Malformed("a read asks for a file").into());
            }
        };
        if passed > 0 {
            pass(Some(&bytes.data()[..passed]));
        }
        if is_over {
            break;
        }
        bytes.consume(read);
        if read > 0 {
            continue;
        }
        let (result, buffer) = checkout.connection().stream.read(bytes).await;
        bytes = buffer;
        if result? == 0 {
            return Err(NetError::Closed);
        }
    }
    bytes.clear();
    buffers.give(bytes);
    Ok(tracker.into_response())
}

/// True if the connection is as it was.
pub(crate) fn leaves_nothing(response: &Response) -> bool {
    response.changes.is_empty() && response.status.is_none_or(|status| !status.contains(Status::IN_TRANS))
}
