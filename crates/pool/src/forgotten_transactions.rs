//! Transactions that a server has forgotten. One that has read a table while it turned autocommit off takes those that follow on the
//! connection for ones without `InnoDB`, on both products. On `MySQL` a later connection inherits that from one that is closed
//! (docs/protocol-notes.md).
//!
//! Owns: what ends that before the connection is closed. Until then its session is pinned to it.

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt;

use crate::ask::{AskError, query};
use crate::budget::Permit;
use crate::connection::Connection;
use crate::pool::Pool;

/// Whether a server knows of all transactions on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// It does.
    Known,
    /// It may take them for ones without `InnoDB`, until the connection is closed.
    MayBeForgotten,
}

/// The longest that this may take before a connection is closed.
const LIMIT: Duration = Duration::from_secs(5);

/// Whatever `completion_type` is. One that the server knows of would be committed by what follows.
const ROLLBACK_KNOWN: &str = "ROLLBACK AND NO CHAIN NO RELEASE";
const AUTOCOMMIT: &str = "SET @@session.autocommit = 1";
/// It fails behind what it has read, and is rolled back with all that is open. (A SELECT gives its tables back before it fails, which
/// commits.)
const ROLLBACK: &str =
    "SET @`delphinus none` = (SELECT EXP(1000 + ID) FROM information_schema.COLLATIONS LIMIT 1)";

async fn roll_back(connection: &mut Connection) -> Result<(), AskError> {
    query(connection, ROLLBACK_KNOWN).await?;
    query(connection, AUTOCOMMIT).await?;
    match query(connection, ROLLBACK).await {
        Ok(_) | Err(AskError::Refused(_)) => Ok(()),
        Err(broken) => Err(broken),
    }
}

impl Pool {
    /// Closes a connection of a server that may have forgotten transactions on it: what is open is rolled back first.
    pub(crate) fn close_forgetful(self: &Rc<Self>, mut connection: Box<Connection>) {
        connection.leave();
        self.close_by(async move {
            // If it cannot be done, there is nothing else to try.
            let _ = rt::timeout(LIMIT, roll_back(&mut connection)).await;
            let permit: Permit = Self::close_now(connection).await;
            permit
        });
    }
}
