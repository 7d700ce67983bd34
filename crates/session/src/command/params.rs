//! The parameters of COM_STMT_EXECUTE: a client sends their types once, and a backend connection that it shares with
//! others may have been told other ones since.

use std::rc::Rc;

use delphinus_pool::{BackendStatement, Checkout, StatementKey};
use delphinus_state::Shape;
use delphinus_wire::command::BackendStmtId;
use delphinus_wire::{ExecuteParams, HEADER_LEN, MAX_PAYLOAD, execute_params, header, param_classes};

use crate::client_error::ProxyError;
use crate::io::{Client, Input};
use crate::statements::{ClientStatement, Tokens, put_back};

/// True if a COM_STMT_EXECUTE with these flags asks for a cursor.
#[inline]
pub(super) fn asks_for_cursor(flags: u8) -> bool {
    Shape::of_execution(flags) == Shape::Cursor
}

/// The statement as it has to be prepared for an execution with these flags.
#[inline]
pub(super) fn in_shape(key: Rc<StatementKey>, flags: u8) -> Rc<StatementKey> {
    if asks_for_cursor(flags) { Rc::new(key.with_cursor()) } else { key }
}

/// Notes the types that come with a COM_STMT_EXECUTE; gives where they stand.
#[inline]
pub(super) fn note_types(
    (input, client): (Input, &Client),
    found: &mut ClientStatement,
    tokens: &Tokens,
) -> Result<Option<ExecuteParams>, ProxyError> {
    let capabilities = client.capabilities;
    let payload = &client.buffer.data()[HEADER_LEN..input.held];
    let params = execute_params(payload, found.params, capabilities).map_err(|_| ProxyError::Malformed)?;
    if let Some(ExecuteParams { types: Some(types), .. }) = &params {
        let types = &payload[types.clone()];
        // The connection that has a large one is the only one that has to know them.
        if !found.is_large() && found.types != types {
            found.types = types.to_vec();
            // A connection on which it ran with the old types does not have these.
            found.token = tokens.next();
            note_classes(found, client);
        }
    }
    Ok(params)
}

/// MySQL gives a bare parameter the type of the first value, and converts later ones to it: 'abc' becomes 0 where
/// somebody has sent a number before; MariaDB keeps flags of a result's columns. So only those share a statement whose parameters are of the same classes.
fn note_classes(found: &mut ClientStatement, client: &Client) {
    let before = found.key.classes();
    let classes = param_classes(&found.types, usize::from(found.params), client.capabilities, before);
    if classes != before {
        found.key = Rc::new(found.key.with_classes(classes.into()));
    }
}

/// The client's own statement on the connection, if it has one for `key`.
pub(super) async fn own_of(
    checkout: &mut Checkout,
    found: &mut ClientStatement,
    key: &Rc<StatementKey>,
) -> Option<BackendStmtId> {
    let is_other = found.own.as_ref().is_some_and(|own| own.key.has_cursor() != key.has_cursor());
    if is_other && !found.has_long_data.is_set() && !found.is_large() {
        // Its cursor ends with this, and what has had one is not run without one.
        found.has_cursor.set(false);
        let own = found.own.take();
        put_back(checkout, own).await;
    }
    let own = found.own.as_mut()?;
    // The classes of its parameters may be others now.
    own.key = if own.key.has_cursor() { Rc::new(key.with_cursor()) } else { key.clone() };
    Some(own.statement.id)
}

/// Puts the backend's id, and the parameter types where the backend does not have them, into the command. The statement is the
/// client's own on the connection, or the one that all share.
pub(super) fn bind(
    checkout: &mut Checkout,
    (input, client): (Input, &mut Client),
    (backend_id, params): (BackendStmtId, Option<&ExecuteParams>),
    key: &Rc<StatementKey>,
    found: &mut ClientStatement,
) -> Result<Input, ProxyError> {
    client.write_stmt_id(backend_id);
    let Some(params) = params else { return Ok(input) };
    let ClientStatement { token, ref types, .. } = *found;
    let has_long_data = found.has_long_data.is_set();
    let bound: Option<&mut BackendStatement> = match &mut found.own {
        Some(own) => Some(&mut own.statement),
        None => checkout.connection().statements.find(key),
    };
    let has_types = params.types.is_some() || bound.as_ref().is_some_and(|bound| bound.bound_by == token);
    let sent = if has_types { Ok(input) } else { insert_types(input, client, types, params) };
    if let Some(bound) = bound {
        // Not before it is certain that the backend will be told.
        bound.bound_by = if sent.is_ok() { token } else { 0 };
        bound.has_run_with_values |= !has_long_data;
    }
    sent
}

/// A client sends the types once; another connection, or one on which somebody else has run the statement
/// since, has to be told them again.
fn insert_types(
    input: Input,
    client: &mut Client,
    types: &[u8],
    params: &ExecuteParams,
) -> Result<Input, ProxyError> {
    if types.is_empty() {
        // The client never sent any: the backend says what is wrong with that.
        return Ok(input);
    }
    // Of several frames the first stays full: what the types displace goes into the next one.
    let (len, shift) = if input.frame.is_continued() {
        (input.frame.len, types.len())
    } else {
        (input.frame.len + types.len(), 0)
    };
    if len >= MAX_PAYLOAD && shift == 0 {
        return Err(ProxyError::PacketTooLarge);
    }
    let payload = &client.buffer.data()[HEADER_LEN..input.held];
    let packet = [&header(len, 0)[..], &params.with_types(payload, types)].concat();
    let held = packet.len();
    client.replace_packet(input, &packet);
    Ok(Input { frame: delphinus_wire::Frame { len, seq: 0 }, held, shift })
}
