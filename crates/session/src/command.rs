//! The commands: one file for each. Those on the path of a query are called by `serve` directly, all others go
//! through `serve_rare`, whose futures are boxed so that an idle session does not carry their room.

mod change_user;
mod execute;
mod fetch;
mod kill;
mod long_data;
mod params;
mod prepare;
mod query;
mod reset;
mod simple;
mod special;
mod stmt_close;
mod stmt_reset;

use delphinus_sql::{Kill, KillScope, KillTarget};
use delphinus_telemetry::{ClusterCounters, Counter};
use delphinus_wire::Command;
use delphinus_wire::command::ClientStmtId;

use crate::answer;
use crate::client_error::ProxyError;
use crate::io::Input;
use crate::served::{Outcome, Served};
use crate::session::Session;

pub(crate) use self::params::with_types;

/// A command without its bytes, which stay in the session's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rare {
    Quit,
    InitDb,
    FieldList,
    Refresh(u8),
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
            Command::Refresh(what) => Self::Refresh(what),
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

impl Rare {
    fn counter(self, counters: &ClusterCounters) -> &Counter {
        match self {
            Self::Quit => &counters.command_quit,
            Self::InitDb => &counters.command_init_db,
            Self::FieldList => &counters.command_field_list,
            Self::Statistics => &counters.command_statistics,
            Self::Ping => &counters.command_ping,
            Self::ChangeUser => &counters.command_change_user,
            Self::Prepare => &counters.command_stmt_prepare,
            Self::BulkExecute(_) => &counters.command_stmt_execute,
            Self::LongData(_) => &counters.command_stmt_send_long_data,
            Self::StmtClose(_) => &counters.command_stmt_close,
            Self::StmtReset(_) => &counters.command_stmt_reset,
            Self::SetOption(_) => &counters.command_set_option,
            Self::Fetch(_) => &counters.command_stmt_fetch,
            Self::ResetConnection => &counters.command_reset_connection,
            Self::Refresh(_) | Self::ProcessInfo | Self::ProcessKill(_) | Self::Debug | Self::Unknown => {
                &counters.command_other
            }
        }
    }
}

impl Session {
    fn as_meant(&self, command: Rare) -> Rare {
        let flavor = self.state.flavor();
        match command {
            Rare::BulkExecute(id) => Rare::BulkExecute(self.statements.meant_by(id, flavor)),
            Rare::LongData(id) => Rare::LongData(self.statements.meant_by(id, flavor)),
            Rare::StmtClose(id) => Rare::StmtClose(self.statements.meant_by(id, flavor)),
            Rare::StmtReset(id) => Rare::StmtReset(self.statements.meant_by(id, flavor)),
            Rare::Fetch(id) => Rare::Fetch(self.statements.meant_by(id, flavor)),
            other => other,
        }
    }

    pub(crate) async fn serve_rare(&mut self, input: Input, command: Rare) -> Outcome {
        command.counter(&self.worker.counters).increment();
        let command = self.as_meant(command);
        match command {
            Rare::Quit => Ok(Served::End),
            Rare::Ping => {
                self.client.skip(input).await?;
                simple::ping(&mut self.client, &mut self.held, &mut self.state).await
            }
            Rare::InitDb => self.init_db(input).await,
            Rare::Prepare => self.prepare(input).await,
            Rare::StmtClose(id) => {
                self.client.skip(input).await?;
                Ok(stmt_close::close(id, &mut self.statements, &mut self.held, &mut self.state).await)
            }
            Rare::StmtReset(id) => self.stmt_reset(input, id).await,
            Rare::LongData(id) => self.long_data(input, id).await,
            Rare::Fetch(id) => self.carry_to_own(input, id, &fetch::FETCH).await,
            Rare::BulkExecute(id) => self.bulk_execute(input, id).await,
            Rare::ChangeUser => self.change_user(input).await,
            Rare::ResetConnection => self.reset_connection(input).await,
            Rare::SetOption(option) => {
                self.client.skip(input).await?;
                simple::set_option(option, &mut self.client, &mut self.held, &mut self.state).await
            }
            Rare::FieldList => self.field_list(input).await,
            Rare::Refresh(what) => self.refresh(input, what).await,
            Rare::Statistics => self.statistics(input).await,
            Rare::ProcessInfo | Rare::Debug => self.pass_through(input, command).await,
            Rare::ProcessKill(id) => {
                self.client.skip(input).await?;
                let target = KillTarget::Connection(u64::from(id));
                self.kill(&Kill { target, scope: KillScope::Connection }, None).await
            }
            Rare::Unknown => {
                self.client.skip(input).await?;
                Ok(Served::Error(ProxyError::UnknownCommand))
            }
        }
    }

    async fn stmt_reset(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        if let Some(found) = self.statements.find(id) {
            found.late_error = None;
            if found.own.is_none() {
                self.client.skip(input).await?;
                self.worker.counters.routed_local.increment();
                answer::give_ok(&mut self.client, self.state.status, &self.held.memory).await?;
                return Ok(Served::Answered);
            }
        }
        self.carry_to_own(input, id, &stmt_reset::RESET).await
    }

    async fn reset_connection(&mut self, input: Input) -> Outcome {
        self.client.skip(input).await?;
        let schema = self.state.want.schema.clone();
        self.reset().await;
        reset::keeps(schema, &mut self.state);
        answer::give_ok(&mut self.client, self.state.status, &self.held.memory).await?;
        Ok(Served::Answered)
    }
}
