//! Transactions that a `MySQL` server has forgotten: one that has read a table while it turned autocommit off takes those that follow
//! on the connection for ones without `InnoDB`, and a later connection inherits that from one that is closed (docs/protocol-notes.md).
//!
//! Owns: what ends that, on the connection itself. When that is known, and may be done, is the session's.

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt;

use crate::ask::{AskError, query};
use crate::budget::Permit;
use crate::checkout::Checkout;
use crate::connection::Connection;
use crate::error::PoolError;
use crate::pool::Pool;
use crate::ready::empty_list;

/// Whether a server knows of all transactions on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// It does.
    Known,
    /// It may take them for ones without `InnoDB`.
    MayBeForgotten,
}

/// What becomes of what is open in `InnoDB`, and ended as far as the server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is committed.
    Commit,
    /// It is rolled back.
    Rollback,
}

/// The longest that this may take before a connection is closed.
const LIMIT: Duration = Duration::from_secs(5);

/// Whatever `completion_type` is.
const ROLLBACK_KNOWN: &str = "ROLLBACK AND NO CHAIN NO RELEASE";
const AUTOCOMMIT: &str = "SET @@session.autocommit = 1";
/// With autocommit the server commits behind what has read a table.
const COMMIT: &str = "SELECT /*+ MAX_EXECUTION_TIME(10000) */ COUNT(*) FROM information_schema.COLLATIONS WHERE ID = 0 LIMIT 1";
/// It fails behind what it has read, and is rolled back with all that is open. (A SELECT gives its tables back before it fails, which
/// commits.)
const ROLLBACK: &str =
    "SET @`delphinus none` = (SELECT EXP(1000 + ID) FROM information_schema.COLLATIONS LIMIT 1)";

/// Ends what the server has forgotten; from there on it forgets nothing. Leaves the connection with autocommit.
async fn end(connection: &mut Connection, ending: Ending) -> Result<(), AskError> {
    if ending == Ending::Rollback {
        // One that the server knows of would be committed by what follows.
        query(connection, ROLLBACK_KNOWN).await?;
    }
    query(connection, AUTOCOMMIT).await?;
    match ending {
        Ending::Commit => {
            query(connection, COMMIT).await?;
        }
        Ending::Rollback => {
            match query(connection, ROLLBACK).await {
                Ok(_) | Err(AskError::Refused(_)) => {}
                Err(broken) => return Err(broken),
            }
            empty_list(connection).await?;
        }
    }
    connection.transactions = Transactions::Known;
    Ok(())
}

/// The same where nobody will use the connection as it is any more: what is open is rolled back, as it would be. False if that
/// could not be done: the connection can only be closed then, and nothing more is tried on it.
pub(crate) async fn roll_back(connection: &mut Connection) -> bool {
    if connection.transactions == Transactions::Known {
        return true;
    }
    let is_done =
        rt::timeout(LIMIT, end(connection, Ending::Rollback)).await.is_some_and(|ended| ended.is_ok());
    connection.transactions = Transactions::Known;
    is_done
}

impl Checkout {
    /// Ends what the server has forgotten, and leaves the session's autocommit as it is.
    pub async fn end_forgotten(&mut self, ending: Ending, autocommit: bool) -> Result<(), PoolError> {
        self.save().await?;
        let backend = self.backend_name();
        let connection = self.connection();
        let ended = async {
            end(connection, ending).await?;
            if !autocommit {
                query(connection, "SET @@session.autocommit = 0").await?;
            }
            Ok(())
        };
        ended.await.map_err(|error: AskError| error.into_pool_error(backend))
    }
}

impl Pool {
    /// Closes a connection of a server that may have forgotten transactions on it.
    pub(crate) fn close_forgetful(self: &Rc<Self>, mut connection: Box<Connection>) {
        connection.leave();
        self.close_by(async move {
            roll_back(&mut connection).await;
            let permit: Permit = Self::close_now(connection).await;
            permit
        });
    }
}
