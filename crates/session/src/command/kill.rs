//! KILL and COM_PROCESS_KILL: what of them needs a backend. Whom they mean, and who may, is in `answer/kill`.

use std::rc::Rc;

use delphinus_pool::PoolError;
use delphinus_sql::{Class, Effects, Kill, KillTarget, SqlText, Statement, kill_target};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::{ExecuteParams, HEADER_LEN, first_integer};

use crate::answer::{Answer, Killed, check_spelled_kill, kill_named_by, killed};
use crate::client_error::ProxyError;
use crate::follow::{TextExecuted, TextsRun, with_kind};
use crate::io::Input;
use crate::served::{Outcome, Served};
use crate::session::Session;

impl Session {
    /// A `KILL` of any kind; `value`: that of its parameter.
    pub(crate) async fn kill(&mut self, kill: &Kill, value: Option<u64>) -> Outcome {
        let count = match self.sessions().kill(kill, value) {
            Ok(Killed::Done(count)) => count,
            Ok(Killed::OnBackend(victim, backend, thread)) => {
                // It may have ended meanwhile, and its connection may run somebody else's statement.
                let still_there = || (victim.place() == Some((backend, thread))).then_some(thread);
                let pool = &self.worker.pool;
                if let Err(error) = pool.kill_query_if(backend, &self.held.identity, still_there).await {
                    return Ok(Served::Error(ProxyError::Pool(error)));
                }
                0
            }
            Ok(Killed::Own) => return Ok(Served::Fatal(killed(self.state.flavor()))),
            Err(error) => return Ok(Served::Error(error)),
        };
        self.answer(&Answer::ok(count)).await
    }

    /// Does what a prepared `KILL` says; `None` if that is the server's to do.
    pub(crate) async fn execute_kill(
        &mut self,
        input: Input,
        id: ClientStmtId,
        params: Option<&ExecuteParams>,
    ) -> Option<Outcome> {
        let found = self.statements.find(id)?;
        let (text, types) = (found.key.text().clone(), found.types.clone());
        let kill = match kill_named_by(&text, self.state.lex()) {
            Ok(Kill { target: KillTarget::QueryId, .. }) => return None,
            Ok(kill) => kill,
            Err(error) => return Some(self.refuse(input, error).await),
        };
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let value = params.and_then(|params| first_integer(payload, params, &types));
        if let Err(error) = self.client.skip(input).await {
            return Some(Err(error));
        }
        Some(self.kill(&kill, value).await)
    }

    /// Does what SQL `EXECUTE` would have a server kill; `None` if it kills nothing, or what is the server's own. What a text puts
    /// together to kill is refused.
    pub(crate) async fn execute_kill_in_sql(
        &mut self,
        input: Input,
        sql: &[u8],
        statement: &Statement,
    ) -> Option<Outcome> {
        let lex = self.state.lex();
        let texts = match self.texts_run(statement, sql).await {
            Ok(texts) => texts,
            Err(error) => return Some(self.refuse(input, error).await),
        };
        if !texts.iter().flatten().any(|(_, ran)| ran.effects.contains(Effects::KILLS)) {
            return None;
        }
        let mut known = texts.iter().flatten();
        let only = known.next().filter(|_| known.next().is_none() && statement.class == Class::Execute);
        let kill = match only.and_then(|(text, _)| kill_target(text.as_bytes(), lex)) {
            Some(Kill { target: KillTarget::QueryId, .. }) => return None,
            Some(kill) if kill.target != KillTarget::Parameter => kill,
            _ => return Some(self.refuse(input, ProxyError::KillOfExpression).await),
        };
        if let Err(error) = self.client.skip(input).await {
            return Some(Err(error));
        }
        Some(self.kill(&kill, None).await)
    }

    /// The texts that a statement runs, or prepares to run, as far as they are not known to kill nothing. The server is asked for what an
    /// expression makes of them.
    async fn texts_run(
        &mut self,
        statement: &Statement,
        sql: &[u8],
    ) -> Result<Rc<Vec<TextExecuted>>, ProxyError> {
        let text = SqlText::new(sql, self.state.lex());
        let texts = self.noted.texts_run(statement, &text, &self.state);
        self.looks_after_noted();
        match texts {
            TextsRun::Known(texts) => Ok(texts),
            TextsRun::MadeBy(expression) => {
                let made = self.value_of(statement, &expression).await?;
                Ok(Rc::new(vec![made.map(|made| with_kind(made, text.lex))]))
            }
            TextsRun::Spelled => check_spelled_kill(statement, sql, &mut self.state).map(|()| Rc::default()),
        }
    }

    /// What the server makes of an expression, if it can.
    async fn value_of(
        &mut self,
        statement: &Statement,
        expression: &str,
    ) -> Result<Option<String>, ProxyError> {
        let mut tries = self.tries();
        tries.begin();
        let mut checkout = self.choose(statement, &mut tries).await?;
        match checkout.query(&format!("SELECT {expression} LIMIT 1")).await {
            Ok(answer) => {
                self.held.keep_or_give_back(checkout, &mut self.state);
                let value = answer.rows.into_iter().next().and_then(|row| row.into_iter().next()?);
                Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
            }
            // So does it refuse to run that.
            Err(PoolError::Refused { .. }) => {
                self.held.keep_or_give_back(checkout, &mut self.state);
                Ok(None)
            }
            Err(error) => {
                let error = ProxyError::Pool(error);
                self.held.leave_without(checkout, &error, &mut self.state);
                Err(error)
            }
        }
    }
}
