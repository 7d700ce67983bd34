//! COM_STMT_PREPARE. The statement is prepared where it would run now; other connections prepare it when they
//! first run it.

use std::rc::Rc;

use delphinus_memory::Kept;
use delphinus_net::rt;
use delphinus_pool::{BackendStatement, Checkout, LeftBehind, RowsLeft, StatementKey};
use delphinus_route::Question;
use delphinus_sql::{
    Class, Effects, Hints, LexOptions, Sketch, SqlText, Statement, Uses, classify, classify_and_sketch,
    kill_target, most_parameters,
};
use delphinus_state::{PinReason, Shape, bytes_of_vars};
use delphinus_wire::MAX_PAYLOAD;
use delphinus_wire::command::{BackendStmtId, ClientStmtId, Code};

use crate::answer::{Known, check_spelled_kill, kill_named_by, list_left, splice};
use crate::client_error::{ProxyError, Steered};
use crate::follow::uncover;
use crate::io::Relayed;
use crate::io::{Client, Input, Text};
use crate::needs::as_unknown;
use crate::run::{Carried, Job, leave_no_old_list};
use crate::served::Outcome;
use crate::session::Session;
use crate::state::{Ran, Wanted};
use crate::statements::{ClientStatement, Own};
use crate::steer::Occasion;

/// What a statement takes beside its text, in bytes: in its session, and on a connection.
const STATEMENT: usize = 1024;
/// What a parameter takes: its type and its class, in the session and on a connection.
const PARAMETER: usize = 6;

/// A text to be prepared.
struct TextToPrepare<'a> {
    /// All of it, or the beginning.
    bytes: Rc<[u8]>,
    /// The client's own, from which it differs in no name.
    read: &'a SqlText<'a>,
    /// The room that the statement has.
    kept: Rc<Kept>,
    /// There is none for the text.
    is_large: bool,
    /// By which executions find its digest.
    sketch: Option<Sketch>,
}

/// A text on its way to a server that prepares it.
struct Preparation {
    statement: Statement,
    id: ClientStmtId,
}

impl Job for Preparation {
    fn statement(&self) -> &Statement {
        &self.statement
    }

    fn runs(&self) -> bool {
        false
    }

    fn shape(&self) -> Shape {
        Shape::Prepared(self.id.0)
    }

    async fn ready(
        &mut self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError> {
        leave_no_old_list(session, checkout, &self.statement).await?;
        Ok(input)
    }
}

impl Session {
    pub(crate) async fn prepare(&mut self, input: Input) -> Outcome {
        self.statements.begin_to_prepare();
        let limit = self.settings.max_prepared_statements;
        if self.statements.len() >= limit {
            return self.refuse(input, ProxyError::TooManyStatements(limit)).await;
        }
        if !input.is_whole() {
            return self.prepare_large(input).await;
        }
        // The text is needed to prepare it elsewhere.
        let sent: Rc<[u8]> = self.client.held_text(Text::in_payload(input, 1)).into();
        let read = &SqlText::new(&sent, self.state.lex());
        let (statement, sketch) = self.classify_prepared(read.sql, read.lex);
        let own = own_text(read, &statement, self.held.activity.id.0);
        let (input, bytes) = match own {
            Some(own) => prepare_instead(&mut self.client, input, own),
            None => (input, sent.clone()),
        };
        match keep(&bytes, &self.state) {
            Some(kept) => {
                let text = TextToPrepare { bytes, read, kept, is_large: false, sketch };
                self.prepare_text(input, text, statement).await
            }
            None => self.prepare_large(input).await,
        }
    }

    /// A text that is too long to be held, or that there is no room for: only the connection that gets it has it, and keeps
    /// the session.
    async fn prepare_large(&mut self, input: Input) -> Outcome {
        let Some(kept) = self.state.share.keep(STATEMENT) else {
            let error = ProxyError::MemoryFull(self.worker.memory.limit());
            return self.refuse(input, error).await;
        };
        let sent = Text::in_payload(input, 1);
        let lex = self.state.lex();
        let mut statement = as_unknown(self.classify(sent, lex));
        if self.worker.stored_code.concerns(&statement) {
            let sql = self.client.held_text(sent);
            if let Err(error) = uncover(&self.worker.stored_code, &mut statement, sql, lex).await {
                return self.refuse(input, error).await;
            }
        }
        let bytes: Rc<[u8]> = self.client.held_text(sent).into();
        let read = &SqlText::new(&bytes, lex);
        let kept = Rc::new(kept);
        let text = TextToPrepare { bytes: bytes.clone(), read, kept, is_large: true, sketch: None };
        self.prepare_text(input, text, statement).await
    }

    async fn prepare_text(&mut self, input: Input, text: TextToPrepare<'_>, statement: Statement) -> Outcome {
        if statement.uses.intersects(Uses::PROXY_SETTINGS.union(Uses::ROUTE)) {
            return self.refuse(input, Steered::NotPreparable.into()).await;
        }
        if let Err(error) = self.check_schemas(text.read, &statement) {
            return self.refuse(input, error).await;
        }
        if statement.effects.contains(Effects::KILLS)
            && let Err(error) = kill_named_by(&text.bytes, text.read.lex)
        {
            return self.refuse(input, error).await;
        }
        if let Err(error) = check_spelled_kill(&statement, &text.bytes, &mut self.state) {
            return self.refuse(input, error).await;
        }
        if self.steering.guard.looks_at(&statement)
            && let Err(error) = self.check_filters((&statement, text.read), Occasion::Prepared)
        {
            return self.refuse(input, error).await;
        }
        if self.is_steered(&statement) {
            let question = Question { sql: &text.bytes, lex: text.read.lex, statement: &statement };
            match self.steer_statement(&question, Hints::default()).await {
                Ok(None) => {}
                Ok(Some(instead)) => return Box::pin(self.prepare_rewritten(input, instead)).await,
                Err(error) => return self.refuse(input, error).await,
            }
        }
        // The preparation is not what the limit is for.
        self.steering.of_command.timeout = None;
        self.steering.of_command.mirror = None;
        let id = self.statements.next_id();
        match self.carry(input, &mut Preparation { statement, id }).await? {
            Carried::Through(checkout, relayed, _) => {
                self.finish_prepare(checkout, relayed, (id, text), statement).await
            }
            Carried::Served(served) => Ok(served),
        }
    }

    /// What a text is, and how its executions are counted.
    fn classify_prepared(&self, sql: &[u8], lex: LexOptions) -> (Statement, Option<Sketch>) {
        let recorder = &self.worker.recorder;
        if !recorder.wants_digests() {
            return (classify(sql, lex), None);
        }
        let (statement, sketch) = classify_and_sketch(sql, lex, recorder.seed());
        (statement, Some(sketch))
    }

    /// A rule has another text for it.
    async fn prepare_rewritten(&mut self, input: Input, text: Vec<u8>) -> Outcome {
        let kept = if input.is_whole() { keep(&text, &self.state) } else { None };
        let Some(kept) = kept.filter(|_| text.len() + 1 < MAX_PAYLOAD) else {
            return self.refuse(input, ProxyError::PacketTooLarge).await;
        };
        let (input, bytes) = prepare_instead(&mut self.client, input, text);
        let read = &SqlText::new(&bytes, self.state.lex());
        let (statement, sketch) = self.classify_prepared(read.sql, read.lex);
        let text = TextToPrepare { bytes: bytes.clone(), read, kept, is_large: false, sketch };
        self.prepare_text(input, text, statement).await
    }

    async fn finish_prepare(
        &mut self,
        mut checkout: Checkout,
        Relayed { response, rest, len, .. }: Relayed,
        (id, TextToPrepare { bytes: text, read, kept, is_large, sketch }): (ClientStmtId, TextToPrepare<'_>),
        statement: Statement,
    ) -> Outcome {
        let ran = Ran { statement: &statement, text: read, response: &response };
        let list = list_left(&mut checkout, ran);
        // To prepare GET DIAGNOSTICS makes nothing of its variables, and it may be about the statement before.
        let may_assign =
            statement.effects.contains(Effects::SETS_USER_VARS) && statement.class != Class::Diagnostics;
        let assigns = response.prepared.is_some() && may_assign;
        if let Some(prepared) = response.prepared.as_deref() {
            let known = if is_large { Rc::default() } else { text.clone() };
            let key = Rc::new(StatementKey::new(known, self.state.want.clone()).with_room(kept));
            let own = if is_large {
                self.state.pins.add(PinReason::LargeStatement, rt::now(), &text);
                Some(Own { key: key.clone(), statement: BackendStatement::new(prepared.id) })
            } else {
                remember_prepared(&mut checkout, &key, prepared.id).await?;
                None
            };
            let (has_cursor, has_long_data) = self.statements.marks();
            let statement = ClientStatement {
                key,
                statement,
                sketch,
                params: prepared.params,
                types: Vec::new(),
                token: self.worker.tokens.next(),
                own,
                has_cursor,
                has_long_data,
                late_error: None,
            };
            self.statements.insert(id, statement);
        }
        self.held.last_backend = Some(checkout.backend());
        let left = LeftBehind { rows: RowsLeft::Kept, list, sets_insert_id: false };
        checkout.connection().remember_prepared(&response, left);
        let settled = if (is_large || assigns) && self.state.pins.are_recorded() {
            // The question would be recorded, too.
            self.state.leave_unasked(&text);
            Ok(())
        } else if is_large {
            self.state.ask_hidden_user_vars(&mut checkout, ran).await
        } else if assigns {
            self.state.ask_prepared_user_vars(&mut checkout, read).await
        } else {
            Ok(())
        };
        let settled = self.state.unless_refused(settled, &text).map(|_| ());
        self.held.keep_or_give_back(checkout, &mut self.state);
        let rest = self.client.write(rest, len).await?;
        self.worker.buffers.give(rest);
        Ok(self.after_settling(settled))
    }
}

/// Room for a statement with this text, if there is any.
fn keep(text: &[u8], state: &Wanted) -> Option<Rc<Kept>> {
    let bytes = STATEMENT + text.len() + PARAMETER * most_parameters(text) + bytes_of_vars(&state.want.vars);
    Some(Rc::new(state.share.keep(bytes)?))
}

/// Another text to prepare: CONNECTION_ID() is the id that this client knows, wherever the statement runs.
fn own_text(text: &SqlText<'_>, statement: &Statement, connection_id: u32) -> Option<Vec<u8>> {
    if !statement.uses.contains(Uses::CONNECTION_ID) || kill_target(text.sql, text.lex).is_some() {
        return None;
    }
    let known = Known { connection_id, found_rows: None, row_count: None, list: None };
    splice(text, known)
}

/// Puts another text in the place of the client's.
fn prepare_instead(client: &mut Client, input: Input, text: Vec<u8>) -> (Input, Rc<[u8]>) {
    let mut payload = vec![Code::StmtPrepare as u8];
    payload.extend_from_slice(&text);
    (client.replace_command(input, &payload), text.into())
}

/// What a client's own COM_STMT_PREPARE made is there for all who run the same text on this connection.
async fn remember_prepared(
    checkout: &mut Checkout,
    key: &Rc<StatementKey>,
    id: BackendStmtId,
) -> Result<(), delphinus_net::NetError> {
    for old in checkout.connection().statements.replace(key.clone(), id) {
        // An error shows when the connection is used next.
        let _ = checkout.close_statement(old).await;
    }
    Ok(())
}
