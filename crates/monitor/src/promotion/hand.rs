//! The actor's hold on one server: a connection of its own account, opened when it is needed. A server that does not answer is not asked
//! again at once, so that a dead one holds nobody up.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::{Announce, rt};
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Server, Standing};

use super::look::{self, Product};
use super::settings::Account;
use crate::probe::connection::Connection;
use crate::probe::error::ProbeError;
use crate::probe::query;
use crate::settings::Settings;

/// So long a server that has not answered is left alone.
const REST: Duration = Duration::from_millis(500);

/// A server as the actor reaches it.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) id: BackendId,
    settings: Rc<Settings>,
    account: Account,
    open: Option<Open>,
    /// When it did not answer, and what was said.
    lost: Option<(Instant, Arc<str>)>,
}

/// A connection that is logged in.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) connection: Connection,
    pub(super) product: Product,
}

impl Hand {
    pub(super) fn new(id: BackendId, settings: Rc<Settings>, account: Account) -> Self {
        Self { id, settings, account, open: None, lost: None }
    }

    /// What the server says now.
    pub(super) async fn look(&mut self, limit: Duration) -> Server {
        let spec = self.settings.spec(self.id);
        let spot = spec.place.spot();
        let (host, port) = match &spot.address {
            Some(delphinus_net::Address::Tcp(host, port)) => (Arc::from(host.as_str()), *port),
            _ => (Arc::from(""), 0),
        };
        let mut server = Server { id: self.id, name: spot.name.clone(), host, port, seen: Err("".into()) };
        server.seen = match self.lost.clone().filter(|(at, _)| at.elapsed() < REST) {
            Some((_, why)) => Err(why),
            None => match rt::timeout(limit, self.ask(&mut server)).await {
                Some(Ok(standing)) => Ok(standing),
                Some(Err(error)) => Err(error.to_string().into()),
                None => Err(format!("no answer within {} ms", limit.as_millis()).into()),
            },
        };
        match &server.seen {
            Ok(_) => self.lost = None,
            Err(why) => {
                self.open = None;
                let at = self.lost.take().map_or_else(rt::now, |(at, _)| at);
                let at = if at.elapsed() < REST { at } else { rt::now() };
                self.lost = Some((at, why.clone()));
            }
        }
        server
    }

    /// Adds what the account may not do there, and whether the server starts read-only.
    pub(super) async fn add_rights(&mut self, server: &mut Server, limit: Duration) {
        let Ok(standing) = &mut server.seen else { return };
        let is_group = standing.group.is_some();
        let found = RefCell::new(None);
        let asked = self.act(limit, async |open| {
            *found.borrow_mut() = Some(look::more(open, is_group).await?);
            Ok(String::new())
        });
        match asked.await {
            Ok(_) => {
                if let Some(more) = found.into_inner() {
                    standing.missing_rights = more.missing.into();
                    standing.lacks_system_user = more.lacks_system_user;
                    standing.starts_read_only = more.starts_read_only;
                }
            }
            Err(why) => server.seen = Err(why.into()),
        }
    }

    async fn ask(&mut self, server: &mut Server) -> Result<Standing, ProbeError> {
        let mut open = self.take().await?;
        let seen = look::look(&mut open).await?;
        if server.host.is_empty()
            && let Some((host, port)) = seen.1
        {
            (server.host, server.port) = (host, port);
        }
        self.open = Some(open);
        Ok(seen.0)
    }

    /// The connection, or a new one. Put back only whole: one on which an answer is still to come is dropped.
    async fn take(&mut self) -> Result<Open, ProbeError> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        let spec = self.settings.spec(self.id);
        let announce = spec.place.reach().proxy_protocol.map(|version| Announce { version, client: None });
        let spot = spec.place.spot();
        let stream = delphinus_net::dial_at(&spot, announce, self.settings.timeout()).await?;
        let account = (self.account.user.clone(), self.account.password.clone());
        let mut connection = Connection::log_in_as(stream, (&spec.place, spot.host()), account).await?;
        let product = look::product(&mut connection).await?;
        // What servers may have set otherwise: an open transaction would keep its snapshot, locks are not waited for, and a statement has
        // the time that its step has.
        let own_time = if product.is_mariadb() { "max_statement_time" } else { "max_execution_time" };
        let sql = format!("SET SESSION autocommit = 1, lock_wait_timeout = 1, {own_time} = 0, sql_mode = ''");
        query::execute(&mut connection, &sql).await?;
        Ok(Open { connection, product })
    }

    /// Has something done there. An error of the server leaves the connection as it is.
    pub(super) async fn act<F>(&mut self, limit: Duration, act: F) -> Result<String, String>
    where
        F: AsyncFnOnce(&mut Open) -> Result<String, ProbeError>,
    {
        let work = async {
            let mut open = self.take().await?;
            match act(&mut open).await {
                Err(error @ ProbeError::Answer(_)) => {
                    self.open = Some(open);
                    Err(error)
                }
                Err(error) => Err(error),
                Ok(done) => {
                    self.open = Some(open);
                    Ok(done)
                }
            }
        };
        match rt::timeout(limit, work).await {
            Some(done) => done.map_err(|error| error.to_string()),
            None => Err(format!(
                "no answer within {} s; it is not known whether it was done",
                limit.as_secs_f32()
            )),
        }
    }

    /// Says goodbye.
    pub(super) async fn quit(mut self) {
        if let Some(open) = self.open.take() {
            rt::timeout(Duration::from_millis(500), open.connection.quit()).await;
        }
    }
}
