//! The parameter types of COM_STMT_EXECUTE: a client sends them once, and a backend connection that it shares with
//! others may have been told other ones since.

use std::rc::Rc;

use delphinus_pool::{Checkout, StatementKey};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::{ExecuteParams, HEADER_LEN, MAX_PAYLOAD, execute_params, header, param_classes};

use super::prepare::{is_about_insert_id, is_about_last_statement};
use crate::client_error::ProxyError;
use crate::io::Input;
use crate::session::Session;
use crate::statements::put_back;

impl Session {
    /// Notes the types that come with a COM_STMT_EXECUTE; gives where they stand.
    #[inline]
    pub(super) fn note_types(
        &mut self,
        input: Input,
        id: ClientStmtId,
    ) -> Result<Option<ExecuteParams>, ProxyError> {
        let capabilities = self.client.capabilities;
        let found =
            self.statements.find(id).ok_or(ProxyError::UnknownStatement(id.0, "mysqld_stmt_execute"))?;
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let params =
            execute_params(payload, found.params, capabilities).map_err(|_| ProxyError::Malformed)?;
        if let Some(ExecuteParams { types: Some(types), .. }) = &params {
            let types = &payload[types.clone()];
            // The connection that has a large one is the only one that has to know them.
            if !found.is_large() && found.types != types {
                found.types = types.to_vec();
                // A connection on which it ran with the old types does not have these.
                found.token = self.worker.token();
                self.note_classes(id);
            }
        }
        Ok(params)
    }

    /// MySQL gives a bare parameter the type of the first value, and converts later ones to it: 'abc' becomes 0 where
    /// somebody has sent a number before; MariaDB keeps flags of a result's columns. So only those share a statement whose parameters are of the same classes.
    fn note_classes(&mut self, id: ClientStmtId) {
        let capabilities = self.client.capabilities;
        let Some(found) = self.statements.find(id) else { return };
        let before = found.key.classes();
        let classes = param_classes(&found.types, usize::from(found.params), capabilities, before);
        if classes != before {
            found.key = Rc::new(found.key.with_classes(classes.into()));
        }
    }

    /// Puts the backend's id, and the parameter types where the backend does not have them, into the command.
    pub(super) async fn bind(
        &mut self,
        checkout: &mut Checkout,
        input: Input,
        (id, params): (ClientStmtId, Option<&ExecuteParams>),
        key: &Rc<StatementKey>,
    ) -> Result<Input, ProxyError> {
        let found =
            self.statements.find(id).ok_or(ProxyError::UnknownStatement(id.0, "mysqld_stmt_execute"))?;
        let (token, has_long_data) = (found.token, found.has_long_data.is_set());
        let is_other = found.own.as_ref().is_some_and(|own| own.key.has_cursor() != key.has_cursor());
        if is_other && !has_long_data && !found.is_large() {
            // Its cursor ends with this, and what has had one is not run without one.
            found.has_cursor.set(false);
            let own = found.own.take();
            put_back(checkout, own).await;
        }
        let own = self.statements.find(id).and_then(|found| found.own.as_mut());
        let own_id = own.map(|own| {
            // The classes of its parameters may be others now.
            own.key = if own.key.has_cursor() { Rc::new(key.with_cursor()) } else { key.clone() };
            own.statement.id
        });
        let backend_id = match own_id {
            Some(backend_id) => backend_id,
            None => self.ensure_prepared(checkout, key).await?,
        };
        let statement = self.statements.find(id).map(|found| found.statement);
        if let Some(statement) = statement
            && self.state.may_touch_sql(checkout, &statement)
        {
            Box::pin(self.bring_sql(checkout, &statement, key.text())).await?;
        }
        if let Some(statement) = statement.filter(is_about_insert_id)
            && !is_about_last_statement(&statement)
        {
            // To prepare it in a session without a schema the connection may have started over since it was chosen.
            self.held.restore_insert_id(checkout).await?;
        }
        self.client.write_stmt_id(backend_id);
        let Some(params) = params else { return Ok(input) };
        let bound = match own_id {
            Some(_) => self.statements.find(id).and_then(|found| Some(&mut found.own.as_mut()?.statement)),
            None => checkout.connection().statements.find(key),
        };
        let is_bound = bound.as_ref().is_some_and(|statement| statement.bound_by == token);
        let has_types = params.types.is_some() || is_bound;
        if let Some(statement) = bound {
            // Not before it is certain that the backend will be told.
            statement.bound_by = if has_types { token } else { 0 };
            statement.has_run_with_values |= !has_long_data;
        }
        if has_types {
            return Ok(input);
        }
        let input = self.insert_types(input, id, params)?;
        let bound = match own_id {
            Some(_) => self.statements.find(id).and_then(|found| Some(&mut found.own.as_mut()?.statement)),
            None => checkout.connection().statements.find(key),
        };
        if let Some(statement) = bound {
            statement.bound_by = token;
        }
        Ok(input)
    }

    /// A client sends the types once; another connection, or one on which somebody else has run the statement
    /// since, has to be told them again.
    fn insert_types(
        &mut self,
        input: Input,
        id: ClientStmtId,
        params: &ExecuteParams,
    ) -> Result<Input, ProxyError> {
        let types = self.statements.find(id).map(|found| found.types.clone()).unwrap_or_default();
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
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let packet = [&header(len, 0)[..], &with_types(payload, params.types_flag_at, &types)].concat();
        let held = packet.len();
        self.client.replace_command(input, &packet);
        Ok(Input { frame: delphinus_wire::Frame { len, seq: 0 }, held, shift })
    }
}

/// A COM_STMT_EXECUTE without types, with them; `flag_at` is where it says that there are none.
pub(crate) fn with_types(payload: &[u8], flag_at: usize, types: &[u8]) -> Vec<u8> {
    let (before, behind) = payload.split_at(flag_at);
    [before, &[1], types, &behind[1..]].concat()
}
