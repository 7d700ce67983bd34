//! A connection in the hands of a session. It goes back to the pool, or is closed; dropping it closes it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::{NetError, rt};
use delphinus_state::{Changed, SessionState};
use delphinus_topology::BackendId;
use delphinus_wire::command::{BackendStmtId, Code, put_stmt_command};
use delphinus_wire::header;
use delphinus_wire::response::{Status, TextResult};

use crate::ask::{Answer, AskError, aside, command, prepare, query};
use crate::connection::Connection;
use crate::error::PoolError;
use crate::idle::Seat;
use crate::memory::Memory;
use crate::pool::Pool;
use crate::ready::{LIMIT, Means, Ready, empty_list, make_ready, save, set, start_over};

/// What a backend is doing for the session, as far as it matters when the session ends in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Nothing: the connection is between two commands.
    Nothing,
    /// It has part of a command. Whatever is written now would be taken for the rest.
    Sending,
    /// It runs a command or sends the answer.
    Running,
    /// The same, and its session was killed: so is the connection.
    Killed,
    /// It has not answered a question of the proxy's own in time.
    Unanswered,
}

/// The only way to a connection, and back.
#[derive(Debug)]
pub struct Checkout {
    connection: Option<Box<Connection>>,
    pool: Rc<Pool>,
    backend: BackendId,
    doing: Doing,
    synced_us: u32,
}

impl Checkout {
    pub(crate) fn new(connection: Box<Connection>, pool: Rc<Pool>, backend: BackendId) -> Self {
        Self { connection: Some(connection), pool, backend, doing: Doing::Nothing, synced_us: 0 }
    }

    /// Says what the backend is doing from now on.
    #[inline]
    pub fn note(&mut self, doing: Doing) {
        self.doing = doing;
    }

    /// True if the backend has a command, or part of one: nobody can use the connection then.
    pub fn is_amid_command(&self) -> bool {
        self.doing != Doing::Nothing
    }

    /// True if the answer to a command may still come: whoever got the connection next would take it for its own.
    #[inline]
    fn is_at_work(&self) -> bool {
        matches!(self.doing, Doing::Running | Doing::Killed | Doing::Unanswered)
    }

    /// The error of a connection that nothing more is to be had from.
    pub fn lost(&self, error: NetError) -> PoolError {
        PoolError::Lost { backend: self.pool.place(self.backend).name(), error }
    }

    /// Which backend it leads to.
    #[inline]
    pub fn backend(&self) -> BackendId {
        self.backend
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.pool.place(self.backend).name()
    }

    /// The connection.
    #[inline]
    pub fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("invariant: a checkout has its connection until it is consumed")
    }

    /// True if nothing has to be run before a client in this state can use it.
    #[inline]
    pub fn is_ready(&self, want: &SessionState, memory: &Rc<Memory>) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| connection.is_owned_by(memory) && connection.have.is_same(want))
    }

    /// Brings it into the state `want`.
    pub async fn make_ready(&mut self, want: &SessionState, memory: &Rc<Memory>) -> Result<Ready, PoolError> {
        self.make_ready_by(want, memory, Means::All).await
    }

    /// The same by these means.
    pub async fn make_ready_by(
        &mut self,
        want: &SessionState,
        memory: &Rc<Memory>,
        means: Means,
    ) -> Result<Ready, PoolError> {
        let (pool, backend) = (self.pool.clone(), self.backend);
        let began = rt::now();
        let ready = make_ready(self.connection(), pool.place(backend), want, memory, means).await?;
        if ready == Ready::FixedUp {
            pool.counters.fixups.increment();
        }
        self.synced_us = began.elapsed().as_micros() as u32;
        Ok(ready)
    }

    /// How long it took to bring it into its session's state, in microseconds; told once.
    pub fn take_synced_us(&mut self) -> u32 {
        std::mem::take(&mut self.synced_us)
    }

    /// Runs a statement of the proxy's own; what the client's last statement left behind is saved first.
    /// Fails with `Refused` where the backend says no.
    pub async fn query(&mut self, sql: &str) -> Result<TextResult, PoolError> {
        self.query_for(sql, LIMIT).await
    }

    /// The same where the server is asked to wait for so long before it answers.
    pub async fn query_patiently(&mut self, sql: &str, wait: Duration) -> Result<TextResult, PoolError> {
        self.query_for(sql, LIMIT + wait).await
    }

    async fn query_for(&mut self, sql: &str, limit: Duration) -> Result<TextResult, PoolError> {
        let question = async |connection: &mut Connection| save_and_query(connection, sql).await;
        self.ask(limit, question).await.map(|answer| answer.result)
    }

    /// Asks this of the server. Where no session watches over the answer, a server that hangs would keep it, and its client, for ever: there
    /// is a limit. From then on the connection is in the middle of a command, and nobody gets it any more.
    async fn ask<T>(
        &mut self,
        limit: Duration,
        question: impl AsyncFnOnce(&mut Connection) -> Result<T, AskError>,
    ) -> Result<T, PoolError> {
        let backend = self.name();
        let answer = match self.doing {
            Doing::Running => Some(question(self.connection()).await),
            // What it may still say would be taken for the answer to this one.
            Doing::Unanswered => None,
            _ => rt::timeout(limit, question(self.connection())).await,
        };
        if let Some(answer) = answer {
            return answer.map_err(|error| error.into_pool_error(backend));
        }
        self.note(Doing::Unanswered);
        Err(self.lost(NetError::TimedOut(limit.as_millis() as u64)))
    }

    /// Runs one between a statement of the client's and the moment when it is known what that has left, which is not lost: a SET
    /// leaves FOUND_ROWS() and LAST_INSERT_ID() as they were.
    pub async fn query_in_between(&mut self, sql: &str) -> Result<(), PoolError> {
        self.ask(LIMIT, async |connection: &mut Connection| query(connection, sql).await.map(drop)).await
    }

    /// Moves what only the connection knows of the session's last statement into the session's memory.
    pub async fn save(&mut self) -> Result<(), PoolError> {
        self.ask(LIMIT, async |connection: &mut Connection| save(connection).await).await
    }

    /// Makes LAST_INSERT_ID() on this connection what the session's last statements made it.
    pub async fn restore_insert_id(&mut self, memory: &Rc<Memory>) -> Result<(), PoolError> {
        if memory.has_insert_id(self.connection().seen) {
            if !self.connection().unsaved.reported.is_empty() {
                self.save().await?;
            }
            if memory.has_insert_id(self.connection().seen) {
                return Ok(());
            }
        }
        let id = memory.last_insert_id.get();
        let sql = format!("SET @@session.last_insert_id={id}");
        self.ask(LIMIT, async |connection: &mut Connection| set(connection, &sql).await).await?;
        memory.is_restored(&mut self.connection().seen);
        Ok(())
    }

    /// Makes the server list no warnings, where the session has none and an older list may still be here.
    pub async fn forget_warnings(&mut self) -> Result<(), PoolError> {
        if self.connection().lists_warnings {
            self.save().await?;
            self.ask(LIMIT, async |connection: &mut Connection| empty_list(connection).await).await?;
        }
        Ok(())
    }

    /// Prepares `text` in the state that the connection is in.
    pub async fn prepare(&mut self, text: &[u8]) -> Result<BackendStmtId, PoolError> {
        self.save().await?;
        self.ask(LIMIT, async |connection: &mut Connection| prepare(connection, text).await).await
    }

    /// Closes a statement; there is no answer.
    pub async fn close_statement(&mut self, id: BackendStmtId) -> Result<(), PoolError> {
        let backend = self.pool.place(self.backend).name();
        let mut packet = header(5, 0).to_vec();
        put_stmt_command(&mut packet, Code::StmtClose, id);
        let written = self.connection().stream.write_bytes(&packet).await;
        written.map_err(|error| PoolError::Lost { backend, error: error.into() })
    }

    /// Makes the server drop what was sent ahead for a statement, and close its cursor.
    pub async fn reset_statement(&mut self, id: BackendStmtId) -> Result<(), PoolError> {
        self.save().await?;
        let mut payload = Vec::with_capacity(5);
        put_stmt_command(&mut payload, Code::StmtReset, id);
        let reset = async |connection: &mut Connection| command(connection, &payload).await.map(drop);
        self.ask(LIMIT, reset).await
    }

    /// Asks for the status flags and for changes not reported yet. What the client's last statement left behind stays there.
    pub async fn ping(&mut self) -> Result<(Status, Vec<Changed>), PoolError> {
        let ping = async |connection: &mut Connection| aside(connection, &[Code::Ping as u8]).await;
        self.ask(LIMIT, ping).await.map(|answer| (answer.status, answer.changes))
    }

    /// Gives the connection back, held for its session; the session finds it again in the seat, if there is
    /// one: a connection that others wait for goes to them.
    #[inline]
    pub fn give_back(mut self) -> Option<Seat> {
        if self.is_at_work() {
            return None;
        }
        let connection = self.connection.take()?;
        self.pool.clone().put_back(self.backend, connection)
    }

    /// Drops everything that the session has on the backend, and gives the connection back for anybody. One that cannot
    /// start over is closed.
    pub async fn start_over(mut self) -> Result<(), PoolError> {
        let (pool, backend) = (self.pool.clone(), self.backend);
        self.connection().belong_to(Rc::default());
        start_over(self.connection(), pool.place(backend)).await?;
        self.release();
        Ok(())
    }

    /// Gives the connection back for anybody: its session has ended.
    pub fn release(mut self) {
        if self.is_at_work() {
            return;
        }
        if let Some(mut connection) = self.connection.take() {
            connection.belong_to(Rc::default());
            self.pool.clone().put_back_unheld(self.backend, connection);
        }
    }
}

async fn save_and_query(connection: &mut Connection, sql: &str) -> Result<Answer, AskError> {
    save(connection).await?;
    query(connection, sql).await
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            // In the middle of a command: there is nothing to ask it any more.
            connection.belong_to(Rc::default());
            self.pool.abandon(self.backend, connection, self.doing);
        }
    }
}
