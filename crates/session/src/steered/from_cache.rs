//! A question to the cache: what makes it the same as another one, what is there for it, and that it is asked anew where the answer will
//! soon be too old. Changes nothing of the session.

use std::sync::Arc;

use delphinus_cache::{Command, Group, Kept, Named, Origin, Tally};
use delphinus_sql::{SqlText, Statement, TableName, tables};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::{ExecuteParams, HEADER_LEN};

use crate::costs::Costs;
use crate::fresh::{Depends, TextHere};
use crate::io::{Client, Input, Text};
use crate::planner::Planner;
use crate::statements::ClientStatements;
use crate::steer::{Answers, Asking, CommandCopy, Looked, Miss, Refresh, Wanting, Ways, execution, text_of};
use crate::worker::Worker;

/// A question that may be answered from the cache; its command is in the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asks<'a> {
    /// By a text.
    Text(Text),
    /// By a statement that was prepared.
    Prepared { input: Input, id: ClientStmtId, params: Option<&'a ExecuteParams> },
}

impl Asks<'_> {
    pub(super) fn input(self) -> Input {
        match self {
            Self::Text(text) => text.input,
            Self::Prepared { input, .. } => input,
        }
    }
}

/// What of a session the answers to its questions depend on, and by what it asks.
#[derive(Clone, Copy)]
pub(super) struct FromCache<'a> {
    pub planner: Planner<'a>,
    pub worker: &'a Worker,
    pub client: &'a Client,
    pub statements: &'a ClientStatements,
    pub costs: &'a Costs,
}

impl<'a> FromCache<'a> {
    /// The answer that is there, which is asked for anew if it is due; an error is a question that has none. `None`: it cannot be asked, or
    /// an answer is there that is too large for this client, perhaps. Its own is neither looked for nor kept.
    pub(super) fn look(
        self,
        asks: Asks<'_>,
        statement: &Statement,
        wanting: Wanting,
    ) -> Option<Result<Arc<Kept>, Miss>> {
        let command = self.command(asks)?;
        match self.find(command, &wanting)? {
            Looked::Has { kept, is_due } => {
                if is_due && self.renew((asks, command), statement, (wanting, &kept)).is_none() {
                    kept.renew_later();
                }
                Some(Ok(kept))
            }
            Looked::HasNot(key, tally) => Some(Err(Miss { key, wanting, tally })),
        }
    }

    /// What is asked, as the cache knows it.
    fn command(self, asks: Asks<'_>) -> Option<Command<'a>> {
        match asks {
            Asks::Text(text) => Some(Command::Query(self.client.held_text(text))),
            Asks::Prepared { input, id, params } => {
                execution(self.statements.look(id)?, self.payload(input), params)
            }
        }
    }

    fn payload(self, input: Input) -> &'a [u8] {
        &self.client.buffer.data()[HEADER_LEN..input.held]
    }

    fn asking<T>(self, ask: impl FnOnce(&Asking<'_>) -> T) -> T {
        let around = self.planner.around;
        let place = &self.planner.steering.cache_place(around.login.listener.mode);
        let (want, capabilities) = (&around.state.want, self.client.capabilities);
        ask(&Asking { held: around.held, want, capabilities, place })
    }

    fn find(self, command: Command<'_>, wanting: &Wanting) -> Option<Looked> {
        let fitness = |origin: &Origin| self.planner.fitness(origin, self.worker.ledger.as_deref());
        let answers = self.worker.answers.as_ref()?;
        Some(match self.asking(|asking| answers.look(asking, command, wanting, fitness)) {
            Ok((kept, is_due)) if !self.planner.steering.may_give(&kept) => {
                if is_due {
                    kept.renew_later();
                }
                return None;
            }
            Ok((kept, is_due)) => Looked::Has { kept, is_due },
            Err(key) => Looked::HasNot(key, self.tally(answers, wanting, command)),
        })
    }

    /// Has the question asked anew beside this session, which gets the answer that is there; `None` if it cannot be now.
    #[cold]
    fn renew(
        self,
        (asks, command): (Asks<'_>, Command<'_>),
        statement: &Statement,
        (wanting, older): (Wanting, &Kept),
    ) -> Option<()> {
        if self.worker.outlook.is_paused() {
            // Nothing is sent while operators have statements wait.
            return None;
        }
        let capabilities = self.client.capabilities;
        let asked = match asks {
            Asks::Text(text) => CommandCopy::Text(self.client.held_text(text).to_vec()),
            Asks::Prepared { input, id, params } => {
                CommandCopy::execution(self.statements.look(id)?, self.payload(input), params, capabilities)?
            }
        };
        let answers = self.worker.answers.clone()?;
        let key = self.asking(|asking| answers.key(asking, command));
        let held = self.planner.around.held;
        let refresh = Refresh {
            asked,
            target: self.planner.plan(statement, &[]).target,
            identity: held.identity.clone(),
            rights: held.rights,
            _keys: held.keys.clone(),
            want: self.planner.around.state.want.clone(),
            capabilities,
            depends: self.depends(asks),
        };
        let ways = Ways {
            answers,
            pool: self.worker.pool.clone(),
            buffers: self.worker.buffers.clone(),
            outlook: self.worker.outlook.clone(),
            ledger: self.worker.ledger.clone(),
        };
        refresh.begin(ways, (key, wanting), older)
    }

    /// What counts the answer to this.
    fn tally(self, answers: &Answers, wanting: &Wanting, command: Command<'_>) -> Arc<Tally> {
        let state = self.planner.around.state;
        let (text, lex, schema) = text_of(command, &state.want, &state.lex);
        let group = Group {
            cluster: self.worker.cluster,
            rule: wanting.rule.clone(),
            schema: schema.map(Arc::from),
            digest: self.costs.digest().map(|digest| digest.0),
        };
        let named =
            |table: TableName| Named { schema: table.schema.map(Into::into), table: table.name.into() };
        let all = || tables(text, lex).into_iter().map(named).collect();
        answers.cache.tallies.of(&group, all)
    }

    /// Which tables a question reads, where that matters.
    pub(super) fn depends(self, asks: Asks<'_>) -> Option<Depends> {
        let ledger = self.worker.ledger.as_ref()?;
        let state = self.planner.around.state;
        let (sql, lex, schema) = match asks {
            Asks::Text(text) => {
                let sql = self.client.held_text(text);
                (sql, state.lex.as_read(), state.want.schema.as_deref())
            }
            Asks::Prepared { id, .. } => {
                let key = &self.statements.look(id)?.key;
                let SqlText { sql, lex, .. } = state.text_of(key);
                (sql, lex, key.state().schema.as_deref())
            }
        };
        Some(ledger.read_by(TextHere { sql, lex, schema, has_temporary: false }))
    }
}
