//! The commands: one file for each. Those on the path of a query are called by `serve` directly, all others go
//! through `serve_rare`, whose futures are boxed so that an idle session does not carry their room.

mod change_user;
mod execute;
mod fetch;
mod kill;
mod long_data;
mod prepare;
mod query;
mod reset;
mod simple;
mod stmt_close;
mod stmt_reset;

use delphinus_wire::Command;
use delphinus_wire::command::ClientStmtId;

use crate::client_error::ProxyError;
use crate::input::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;

/// A command without its bytes, which stay in the session's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rare {
    Quit,
    InitDb,
    FieldList,
    Statistics,
    ProcessInfo,
    ProcessKill(u32),
    Debug,
    Ping,
    ChangeUser,
    Prepare,
    BulkExecute(ClientStmtId),
    LongData(ClientStmtId),
    StmtClose(ClientStmtId),
    StmtReset(ClientStmtId),
    SetOption(u16),
    Fetch(ClientStmtId),
    ResetConnection,
    Unknown,
}

impl From<Command<'_>> for Rare {
    fn from(command: Command<'_>) -> Self {
        match command {
            Command::Quit => Self::Quit,
            Command::InitDb(_) => Self::InitDb,
            Command::FieldList(_) => Self::FieldList,
            Command::Statistics => Self::Statistics,
            Command::ProcessInfo => Self::ProcessInfo,
            Command::ProcessKill(id) => Self::ProcessKill(id),
            Command::Debug => Self::Debug,
            Command::Ping => Self::Ping,
            Command::ChangeUser(_) => Self::ChangeUser,
            Command::StmtPrepare(_) => Self::Prepare,
            Command::StmtBulkExecute(id) => Self::BulkExecute(id),
            Command::StmtSendLongData(id) => Self::LongData(id),
            Command::StmtClose(id) => Self::StmtClose(id),
            Command::StmtReset(id) => Self::StmtReset(id),
            Command::SetOption(option) => Self::SetOption(option),
            Command::StmtFetch(id) => Self::Fetch(id),
            Command::ResetConnection => Self::ResetConnection,
            Command::Query(_) | Command::StmtExecute { .. } | Command::Unknown(_) => Self::Unknown,
        }
    }
}

impl Session {
    pub(crate) async fn serve_rare(&mut self, input: Input, command: Rare) -> Outcome {
        let counters = self.worker.counters.clone();
        match command {
            Rare::Quit => {
                counters.command_quit.increment();
                Ok(Served::End)
            }
            Rare::Ping => {
                counters.command_ping.increment();
                self.ping(input).await
            }
            Rare::InitDb => {
                counters.command_init_db.increment();
                self.init_db(input).await
            }
            Rare::Prepare => {
                counters.command_stmt_prepare.increment();
                self.prepare(input).await
            }
            Rare::StmtClose(id) => {
                counters.command_stmt_close.increment();
                self.stmt_close(input, id).await
            }
            Rare::StmtReset(id) => {
                counters.command_stmt_reset.increment();
                self.stmt_reset(input, id).await
            }
            Rare::LongData(id) => {
                counters.command_stmt_send_long_data.increment();
                self.long_data(input, id).await
            }
            Rare::Fetch(id) => {
                counters.command_stmt_fetch.increment();
                self.fetch(input, id).await
            }
            Rare::BulkExecute(id) => {
                counters.command_stmt_execute.increment();
                self.bulk_execute(input, id).await
            }
            Rare::ChangeUser => {
                counters.command_change_user.increment();
                self.change_user(input).await
            }
            Rare::ResetConnection => {
                counters.command_reset_connection.increment();
                self.reset_connection(input).await
            }
            Rare::SetOption(option) => {
                counters.command_set_option.increment();
                self.set_option(input, option).await
            }
            Rare::FieldList => {
                counters.command_field_list.increment();
                self.field_list(input).await
            }
            Rare::Statistics => {
                counters.command_statistics.increment();
                self.statistics(input).await
            }
            Rare::ProcessInfo | Rare::Debug => {
                counters.command_other.increment();
                self.pass_through(input, command).await
            }
            Rare::ProcessKill(id) => {
                counters.command_other.increment();
                self.skip(input).await?;
                self.kill(u64::from(id), delphinus_sql::KillScope::Connection).await
            }
            Rare::Unknown => {
                counters.command_other.increment();
                self.skip(input).await?;
                Ok(Served::Error(ProxyError::UnknownCommand))
            }
        }
    }
}
