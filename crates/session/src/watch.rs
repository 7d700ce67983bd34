//! What a session looks after while a command of it is on its way: others that ask, KILL, backends that do not answer any more,
//! and what passes to its client.

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use delphinus_clients::{Activity, without_literals};
use delphinus_net::rt;
use delphinus_net::{NetError, Stream};
use delphinus_pool::{Checkout, Doing, PoolError};
use delphinus_topology::BackendId;
use delphinus_view::StoredCode;
use delphinus_wire::response::SessionChanges;
use delphinus_wire::{Capabilities, Command, HEADER_LEN, query_text_at};

use crate::client_error::{ClientError, ProxyError};
use crate::costs::Costs;
use crate::follow::Noted;
use crate::hold::Held;
use crate::interruptions::attend;
use crate::io::{Beside, Break, Client, Ending, while_wanted};
use crate::outlook::{HUNG, Outlook};
use crate::rescue::Waits;
use crate::state::Wanted;
use crate::statements::ClientStatements;
use crate::steer::Steering;

/// The parts of a session that are looked at while its client's end is busy.
pub(crate) struct Watch<'a> {
    pub held: &'a Held,
    pub state: &'a Wanted,
    pub steering: &'a mut Steering,
    pub noted: &'a Noted,
    /// Where the text is that runs.
    pub statements: &'a ClientStatements,
    pub costs: &'a Costs,
    pub waits: &'a Waits,
    pub stored_code: &'a StoredCode,
    /// A write is on its way.
    pub writes: bool,
    /// Since when the backend of a write is not the primary any more.
    pub deposed: Option<Instant>,
}

impl Beside for Watch<'_> {
    #[inline]
    fn activity(&self) -> &Arc<Activity> {
        &self.held.activity
    }

    fn disturbed(
        &mut self,
        client: &Client,
        checkout: Option<&mut Checkout>,
        backend: BackendId,
    ) -> Result<(), Break> {
        let Some(checkout) = checkout else {
            self.attend(client, None);
            return self.may_wait(client, backend);
        };
        self.attend(client, Some(checkout));
        if self.held.activity.is_killed() {
            checkout.note(Doing::Killed);
        }
        self.may_wait(client, backend)?;
        self.may_wait_for_write(backend)
    }

    #[inline]
    fn is_too_large(&mut self, rows: u64, bytes: u64) -> bool {
        let is_too_large =
            self.steering.of_command.cap.as_mut().is_some_and(|cap| cap.is_exceeded(rows, bytes));
        if is_too_large {
            // Its client gets a part, or an error: others may have all of it.
            self.steering.keep_nothing();
        }
        is_too_large
    }

    fn ends_statement(&self, checkout: &mut Checkout) -> Ending {
        let (running, is_over) = (self.held.running_on(checkout), Rc::<Cell<bool>>::default());
        let seen = is_over.clone();
        let task = rt::spawn_local(async move {
            let failed = "the proxy could not end a statement whose result is too large";
            running.end(|| !seen.get(), failed).await;
        });
        Ending { is_over, task }
    }

    fn error_of_limit(&self, seq: u8, client: Capabilities) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(reached) = self.steering.of_command.cap.as_ref().map(|cap| cap.reached()) {
            ClientError::from(&ProxyError::from(reached)).put(&mut out, seq, client);
        }
        out
    }

    #[inline]
    fn passes(&mut self, bytes: &[u8]) {
        if self.steering.of_command.is_asked {
            self.steering.keep_more(bytes);
            self.answer_begins();
        }
    }

    fn changes(&mut self) {
        // Changes of the session: they are its own.
        self.steering.keep_nothing();
        self.answer_begins();
    }

    fn told(&self, changes: SessionChanges<'_>) -> Vec<u8> {
        self.state.asked_tracking.told(changes)
    }
}

/// What the proxy itself runs for a statement.
impl Watch<'_> {
    /// Runs `work` of the proxy's own on a backend in the time that the client's statement has, and watched over like that.
    pub(crate) async fn run_own<T>(
        &mut self,
        client: &Client,
        checkout: &mut Checkout,
        work: impl AsyncFnOnce(&mut Checkout) -> Result<T, PoolError>,
    ) -> Result<T, ProxyError> {
        let deadline = self.steering.begin_deadline(checkout, self.held);
        let done = client.attended(checkout, work, self).await;
        match deadline {
            Some(deadline) if !matches!(done, Err(ProxyError::ClientGone)) => {
                let (rest, done) = deadline.end_own(done, self.state.flavor()).await;
                self.steering.of_command.timeout = Some(rest);
                done
            }
            _ => done,
        }
    }
}

/// A session of whose statement the proxy asks what it has left: its other parts are in use meanwhile.
pub(crate) struct Vigil<'a> {
    pub activity: &'a Activity,
    pub outlook: &'a Outlook,
    pub waits: &'a Waits,
    /// The client's end.
    pub stream: &'a Stream,
}

impl Vigil<'_> {
    /// Asks a backend, as long as the session wants that and it may answer. A connection that is left in the middle of it counts as lost,
    /// and is closed by whoever drops it.
    pub(crate) async fn over<T>(
        &self,
        checkout: &mut Checkout,
        ask: impl AsyncFnOnce(&mut Checkout) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        let broken = match self.wait_for(checkout, ask).await {
            Ok(done) => return done,
            Err(Break::Client(broken) | Break::Backend(broken)) => broken,
        };
        checkout.note(if self.activity.is_killed() { Doing::Killed } else { Doing::Running });
        Err(checkout.lost(broken))
    }

    async fn wait_for<T>(
        &self,
        checkout: &mut Checkout,
        ask: impl AsyncFnOnce(&mut Checkout) -> T,
    ) -> Result<T, Break> {
        let backend = checkout.backend();
        let disturbed = || {
            // A KILL QUERY comes too late: the statement has ended.
            if self.activity.take_calls().asks() {
                self.waits.registry.answer(self.activity.id, || None);
            }
            self.may_wait(backend)
        };
        while_wanted(pin!(ask(checkout)), self.activity, disturbed).await
    }

    /// An error if nothing will come from this backend any more, or nobody waits for it. Asked once a second: to wait for
    /// that all the time would cost every statement something.
    fn may_wait(&self, backend: BackendId) -> Result<(), Break> {
        if self.activity.is_killed() {
            // As on a server: the client of a killed connection is told nothing more, and finds it closed.
            return Err(Break::Client(NetError::Closed));
        }
        if self.outlook.is_hung(backend) {
            return Err(timed_out("it does not answer, or another backend has taken its place"));
        }
        if self.waits.kills_abandoned.get() && self.stream.is_gone() {
            return Err(Break::Client(NetError::Closed));
        }
        Ok(())
    }
}

impl Watch<'_> {
    fn answer_begins(&self) {
        self.noted.answer_begins(self.stored_code, &self.held.keys, &self.held.source.users);
    }

    fn may_wait(&self, client: &Client, backend: BackendId) -> Result<(), Break> {
        let (activity, outlook) = (&self.held.activity, &self.held.source.outlook);
        Vigil { activity, outlook, waits: self.waits, stream: &client.stream }.may_wait(backend)
    }

    /// The same for a write, whose backend has to be the primary still.
    fn may_wait_for_write(&mut self, backend: BackendId) -> Result<(), Break> {
        if !self.writes {
            return Ok(());
        }
        if self.held.source.outlook.is_left(backend) {
            return Err(timed_out("it has left its group, and another backend has taken its place"));
        }
        // In a minority of a group a commit waits for ever; what becomes of it is not known.
        if self.held.source.outlook.is_deposed(backend)
            && self.deposed.get_or_insert_with(rt::now).elapsed() >= HUNG
        {
            return Err(NetError::TimedOut(HUNG.as_millis() as u64).into());
        }
        Ok(())
    }

    /// Does what others want of the session; `checkout` is what its statement runs on.
    fn attend(&self, client: &Client, checkout: Option<&mut Checkout>) {
        let statement = || checkout.and_then(|_| self.statement_on(client));
        attend(self.held, &self.waits.registry, statement);
    }

    /// The statement that runs, if it is still at the front of the buffer.
    fn statement_on(&self, client: &Client) -> Option<String> {
        let shown = |text: &[u8]| without_literals(text, self.state.lex.as_read());
        let payload = client.buffer.data().get(HEADER_LEN..client.kept)?;
        match Command::parse(payload).ok()? {
            Command::Query(_) => {
                let at = query_text_at(payload, client.capabilities).ok()?;
                Some(shown(payload.get(at..)?))
            }
            Command::StmtPrepare(text) => Some(shown(text)),
            // Whose id is in it, the client's or the backend's, depends on how far it is.
            Command::StmtExecute { .. } | Command::StmtBulkExecute(_) => {
                let found = self.statements.look(self.costs.prepared()?)?;
                let text = self.state.text_of(&found.key);
                Some(without_literals(text.sql, text.lex))
            }
            _ => None,
        }
    }
}

fn timed_out(why: &'static str) -> Break {
    io::Error::new(io::ErrorKind::TimedOut, why).into()
}
