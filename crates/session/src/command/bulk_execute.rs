//! MariaDB's COM_STMT_BULK_EXECUTE: an array of parameters. On its way it is an execution like others.

use delphinus_sql::{Access, Hints, Statement};
use delphinus_wire::command::ClientStmtId;

use super::execution::{Execution, ToExecute};
use super::params::{forget_types, note_bulk_types};
use crate::client_error::ProxyError;
use crate::io::Input;
use crate::needs::Needs;
use crate::run::{Carried, Job};
use crate::served::Outcome;
use crate::session::Session;

/// An array of parameters: always on the primary, for it writes.
pub(super) async fn bulk_execute(session: &mut Session, input: Input, id: ClientStmtId) -> Outcome {
    if session.statements.may_hide(id, &session.worker.stored_code)
        && let Some(refused) = session.uncover_prepared(input, id).await
    {
        return refused;
    }
    let mut job = match start(session, input, id) {
        Ok(job) => job,
        Err(error) => return session.refuse(input, error).await,
    };
    let (statement, key) = (*job.statement(), job.key.clone());
    session.note_effects(Needs::of(&statement), (id, &statement));
    if session.is_steered(&statement)
        && let Err(error) = session.steer_prepared(&key, &statement, Hints::default()).await
    {
        return session.refuse(input, error).await;
    }
    if let Some(wanted) = session.steering.of_command.mirror.take() {
        wanted.skip(&session.worker.mirrors);
    }
    match session.carry(input, &mut job).await? {
        Carried::Through(mut checkout, relayed, _) => {
            if !relayed.response.is_ok() {
                forget_types(&mut checkout, session.statements.find(id), &job.key);
            }
            session.finish_execute(checkout, (id, &job.key), relayed).await
        }
        Carried::Served(served) => Ok(served),
    }
}

/// Finds the statement, and what the packet says of its parameters; takes in that it is about to run.
fn start(session: &mut Session, input: Input, id: ClientStmtId) -> Result<Execution, ProxyError> {
    let unknown = ProxyError::UnknownStatement(id.0, "mysqld_stmt_bulk_execute");
    let found = session.statements.find(id).ok_or(unknown)?;
    if let Some(error) = found.late_error.take() {
        return Err(*error);
    }
    let params = note_bulk_types((input, &session.client), found, &session.worker.tokens);
    let (statement, key, sketch) = (found.statement, found.key.clone(), found.sketch);
    session.admit_execution(&statement, &key, sketch)?;
    let statement = Statement { access: Access::Write, ..statement };
    session.begin_statement(&statement);
    session.tell_prepared(&statement, &key);
    session.causality.runs_several_times();
    Ok(Execution::of_array(ToExecute { id, flags: 0, statement, params: params? }, key))
}
