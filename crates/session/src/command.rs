//! The commands: one file for each, which decodes it. Those on the path of a query are called by `serve` directly, all others go
//! through `serve_rare`, whose futures are boxed so that an idle session does not carry their room. Where a rare one needs a
//! server, its way there is in this file.

mod bulk_execute;
mod change_user;
mod execute;
mod execution;
mod fetch;
mod kill;
pub(crate) mod long_data;
mod params;
mod prepare;
mod query;
mod reset;
mod simple;
mod special;
mod stmt_close;
mod stmt_reset;

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::{LoginEnd, NetError, rt};
use delphinus_pool::{Checkout, StatementKey};
use delphinus_route::Question;
use delphinus_sql::{Flavor, Kill, KillScope, KillTarget, SqlText, Statement, digest};
use delphinus_telemetry::{ClusterCounters, Counter};
use delphinus_wire::command::{ClientStmtId, Code};
use delphinus_wire::handshake::Packet;
use delphinus_wire::handshake::server::Refusal;
use delphinus_wire::{Command, HEADER_LEN, query_text_at};

use crate::answer;
use crate::client_error::{ClientError, Lost, ProxyError};
use crate::follow::AT_RISK;
use crate::io::{Cut, Input, LastBytes, Relayed, Text};
use crate::login::{remark_of, say_welcome};
use crate::needs::pinning;
use crate::rescue::Tries;
use crate::run::{Carried, Job};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::state::Ran;
use crate::statements::Own;
use crate::steer::check_listener;

use self::simple::Simple;

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
            Rare::Fetch(id) => {
                self.count_fetch(id);
                self.carry_to_own(input, id, &fetch::FETCH).await
            }
            Rare::BulkExecute(id) => {
                self.costs.executes(id);
                bulk_execute::bulk_execute(self, input, id).await
            }
            Rare::ChangeUser => self.change_user(input).await,
            Rare::ResetConnection => self.reset_connection(input).await,
            Rare::SetOption(option) => {
                self.client.skip(input).await?;
                simple::set_option(option, &mut self.client, &mut self.held, &mut self.state).await
            }
            Rare::FieldList => self.pass_on(input, Simple::field_list()).await,
            Rare::Statistics => self.pass_on(input, Simple::statistics()).await,
            Rare::ProcessInfo => self.pass_on(input, Simple::process_info()).await,
            Rare::Debug => self.pass_on(input, Simple::debug()).await,
            Rare::Refresh(what) => {
                let (lex, mode) = (self.state.lex(), self.login.listener.mode);
                let flush = Simple::refresh(what, lex);
                let question = Question { sql: flush.sql(), lex, statement: flush.statement() };
                if let Err(error) = check_listener(mode, &question) {
                    return self.refuse(input, error.into()).await;
                }
                // As FLUSH does, it ends a transaction on a replica first.
                let here = self.route().check_where_it_is(&question).await;
                if let Err(error) = here {
                    return self.refuse(input, error).await;
                }
                self.note_flush(&flush);
                self.pass_on(input, flush).await
            }
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

    async fn init_db(&mut self, input: Input) -> Outcome {
        let name = &self.client.buffer.data()[HEADER_LEN + 1..input.held];
        let name = String::from_utf8_lossy(name).into_owned();
        if let Err(error) = self.next_user.clusters.check_schema(self.worker.cluster, &name) {
            return self.refuse(input, error.into()).await;
        }
        self.pass_on(input, Simple::init_db(name)).await
    }

    /// Counts a command that is refused before it is looked at: by its kind, and by the digest of its statement. Whatever is counted in one
    /// place is in all.
    #[cold]
    pub(crate) fn count_refused(&mut self, input: Input) {
        let counters = &self.worker.counters;
        let payload = self.client.buffer.data().get(HEADER_LEN..input.held).unwrap_or_default();
        match Command::parse(payload) {
            Ok(Command::Query(_)) => {
                counters.command_query.increment();
                let Ok(text_at) = query_text_at(payload, self.client.capabilities) else { return };
                let lex = self.state.lex();
                self.classify_counted(Text::in_payload(input, text_at), lex);
            }
            Ok(Command::StmtExecute { id, .. } | Command::StmtBulkExecute(id)) => {
                counters.command_stmt_execute.increment();
                let id = self.statements.meant_by(id, self.state.flavor());
                self.costs.executes(id);
                self.is_of(id);
            }
            Ok(other) => {
                let command = Rare::from(other);
                command.counter(counters).increment();
                if let Rare::Fetch(id) = self.as_meant(command) {
                    self.count_fetch(id);
                }
            }
            // Its arguments are cut off.
            Err(_) => match payload.first().and_then(|code| Code::from_byte(*code)) {
                Some(Code::StmtExecute | Code::StmtBulkExecute) => counters.command_stmt_execute.increment(),
                Some(Code::StmtFetch) => {
                    counters.command_stmt_fetch.increment();
                    self.costs.fetches(ClientStmtId(0));
                }
                _ => counters.command_other.increment(),
            },
        }
    }

    /// What follows is counted with the statement whose rows are fetched.
    fn count_fetch(&mut self, id: ClientStmtId) {
        self.costs.fetches(id);
        self.is_of(id);
    }

    /// What runs has the digest of this prepared statement.
    fn is_of(&mut self, id: ClientStmtId) {
        let Some(found) = self.statements.look(id) else { return };
        if let Some(sketch) = found.sketch {
            let read = self.state.text_of(&found.key);
            self.costs.is(&self.held.activity, || {
                self.worker.recorder.digest(sketch, |text| digest(read.sql, read.lex, text))
            });
        }
    }

    /// Takes in what is about to run, and may change rights.
    fn note_flush(&mut self, flush: &Simple) {
        let statement = flush.statement();
        if statement.effects.intersects(AT_RISK) {
            let text = SqlText::new(flush.sql(), self.state.lex());
            self.noted.note_rights(statement, &text, &self.state, &self.held.identity.user);
            self.looks_after_noted();
        }
        self.begin_statement(statement);
    }

    /// Passes a command on as it is.
    async fn pass_on(&mut self, input: Input, mut job: Simple) -> Outcome {
        let (checkout, relayed) = match self.carry(input, &mut job).await? {
            Carried::Through(checkout, relayed, _) => (checkout, relayed),
            Carried::Served(served) => return Ok(served),
        };
        let Relayed { mut response, rest, len, is_untouched } = relayed;
        job.learn(&mut response, &mut self.state);
        let text = SqlText::new(job.sql(), self.state.lex());
        let ran = Ran { statement: job.statement(), text: &text, response: &response };
        let settled = self.settle(checkout, ran).await;
        self.answer_last(settled, ran, LastBytes { rest, len, is_untouched }).await
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
        let expired = self.held.bound.take_if(|bound| bound.connection().had_expired());
        self.reset().await;
        reset::keeps(schema, &mut self.state);
        if let Some(checkout) = expired {
            self.held.goes_on_expired(checkout, &mut self.state).await;
        }
        answer::give_ok(&mut self.client, self.state.status, &self.held.memory).await?;
        Ok(Served::Answered)
    }

    async fn change_user(&mut self, input: Input) -> Outcome {
        if !input.is_whole() {
            self.client.skip(input).await?;
            return Ok(Served::Fatal(ProxyError::Malformed));
        }
        let payload = self.client.buffer.data()[HEADER_LEN..input.held].to_vec();
        self.client.skip(input).await?;
        // Whatever comes of it, the old user's session is over.
        let schema = self.state.want.schema.clone();
        self.reset().await;
        if self.next_user.refusals >= change_user::MOST_REFUSALS {
            rt::sleep(change_user::REFUSAL_PAUSE).await;
            change_user::stay_as_before(schema, &mut self.state);
            change_user::say_refusal(&mut self.client, &change_user::unknown_command(), 1, None).await?;
            return Ok(Served::Answered);
        }
        let limit = Duration::from_millis(self.settings.connect_timeout_ms);
        let who = (&self.login, &*self.held.activity);
        let asked = (&payload[..], limit);
        match change_user::attempt(&mut self.client, who, &self.next_user, &self.worker, asked).await {
            Ok(outcome) => match self.become_user(&outcome).await {
                Ok(()) => {
                    self.held.activity.enters(self.state.want.schema.as_deref());
                    let (status, account) = (self.state.status, &self.worker.memory);
                    let remark = remark_of(&outcome, &self.login, &self.next_user.settings.nonce);
                    say_welcome(&mut self.client, status, (&outcome, &remark), account).await?;
                    Ok(Served::Answered)
                }
                Err(error) => {
                    let error = ClientError::from(&error).of_login();
                    let told = (outcome.next_seq, outcome.before_ok.as_ref());
                    self.refuse_change(&error, told, schema).await
                }
            },
            Err(LoginEnd::Broken(error)) => Err(error),
            Err(LoginEnd::Refused(Refusal { code, state, message, seq, .. })) => {
                self.refuse_change(&ClientError::new(code, state, message), (seq, None), schema).await
            }
        }
    }

    /// MySQL closes the connection; on MariaDB the old user goes on with a session like new, in the same schema.
    async fn refuse_change(
        &mut self,
        error: &ClientError,
        (seq, before): (u8, Option<&Packet>),
        schema: Option<Rc<str>>,
    ) -> Outcome {
        self.worker.process.logins_denied.increment();
        let goes_on = self.state.flavor() == Flavor::MariaDb;
        if goes_on {
            rt::sleep(change_user::REFUSAL_PAUSE).await;
            self.next_user.refusals += 1;
            change_user::stay_as_before(schema, &mut self.state);
        }
        change_user::say_refusal(&mut self.client, error, seq, before).await?;
        if goes_on { Ok(Served::Answered) } else { Err(NetError::Closed) }
    }

    /// COM_STMT_SEND_LONG_DATA, which has no answer.
    async fn long_data(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        let Some(found) = self.statements.find(id).filter(|found| found.late_error.is_none()) else {
            // Servers say nothing of one that they do not know; an earlier piece is missing to the other one.
            self.client.skip(input).await?;
            return Ok(Served::Answered);
        };
        let (statement, key, own) = (found.statement, found.key.clone(), found.own.clone());
        let (mut checkout, own) = match self.connection_for_pieces(&statement, &key, own).await {
            Ok(found) => found,
            Err(ProxyError::ClientGone) => return Err(NetError::Closed),
            Err(error) => {
                self.client.skip(input).await?;
                long_data::miss_piece(&mut self.statements, id, error);
                return Ok(Served::Answered);
            }
        };
        self.client.write_stmt_id(own.statement.id);
        let (client, mut watch) = self.watch();
        match client.send(&mut checkout, input, &mut watch).await {
            Ok(()) => {}
            Err(Cut::Client(error)) => return Err(error),
            Err(Cut::Backend { .. }) => return Ok(Served::End),
        }
        self.client.drop_kept();
        if let Some(found) = self.statements.find(id) {
            found.has_long_data.set(true);
            found.own = Some(own);
        }
        self.statements.pin(key.text(), &mut self.state);
        self.held.keep_or_give_back(checkout, &mut self.state);
        Ok(Served::Answered)
    }

    /// The connection that will run the statement, and the statement there.
    async fn connection_for_pieces(
        &mut self,
        statement: &Statement,
        key: &Rc<StatementKey>,
        own: Option<Own>,
    ) -> Result<(Checkout, Own), ProxyError> {
        if let Some(why) = self.held.why_unbound(&self.state) {
            // What is lost with it is told by whatever comes next: here is no answer that could say so.
            self.held.bound = None;
            return Err(Lost::Answer(why.to_owned()).into());
        }
        let mut tries = Tries::new(&self.worker.outlook);
        let mut checkout = self.route().choose(&pinning(*statement), &mut tries).await?;
        if let Some(own) = own {
            return Ok((checkout, own));
        }
        // When it runs, the statement has its time anew: nobody knows how long its client takes until then.
        self.steering.of_command.timeout = self.time_limit(&self.state.text_of(key), statement);
        let (client, mut watch) = self.watch();
        let prepared = long_data::prepare(key, &mut checkout, client, &mut watch).await;
        self.steering.of_command.timeout = None;
        match prepared {
            Ok(own) => Ok((checkout, own)),
            Err(error) => {
                self.held.leave_without(checkout, &error, &mut self.state);
                Err(error)
            }
        }
    }
}
