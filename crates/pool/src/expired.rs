//! Connections of a user whose password has expired. The server lets such a user in who says that it can deal with that, and then
//! refuses nearly everything until the password is changed: `MySQL` all but that, `MariaDB` all but SET. So the proxy cannot set such a
//! connection up. It tries again behind each statement that succeeds, of which one has changed the password.
//!
//! Owns: how far a connection is on this way, and that it is for no other session. Knows nothing of pins, which keep its session there.

use std::rc::Rc;

use delphinus_net::{Place, rt};
use delphinus_state::SessionState;
use delphinus_wire::command::Code;
use delphinus_wire::error_code;
use delphinus_wire::response::ErrPacket;

use crate::ask::command;
use crate::checkout::Checkout;
use crate::connection::Connection;
use crate::error::PoolError;
use crate::memory::Memory;
use crate::open::initialise;
use crate::ready::{Means, Ready, bounded, fix_up_silently, save};

/// What the server lets a connection do.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    /// Whatever its user may.
    Full,
    /// Little until the password is changed, in these words: the connection could not be set up.
    Expired(ErrPacket),
    /// The password had expired, and the connection is set up.
    SetUp,
}

impl PoolError {
    /// True if the server lets nobody in whose client cannot change an expired password.
    pub(crate) fn is_expired_login(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error.code == error_code::ER_MUST_CHANGE_PASSWORD_LOGIN)
    }

    /// True if the server demands another password before it does this.
    pub(crate) fn is_expired_statement(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error.code == error_code::ER_MUST_CHANGE_PASSWORD)
    }

    /// True if the user's password has expired.
    pub fn is_expired(&self) -> bool {
        self.is_expired_login() || self.is_expired_statement()
    }
}

impl Connection {
    /// True if its user's password has expired, also if it was changed since.
    pub fn had_expired(&self) -> bool {
        !matches!(self.standing, Standing::Full)
    }

    /// The server has refused a statement because the password has expired.
    pub fn note_expired(&mut self) {
        self.stands(Standing::SetUp);
    }

    /// Of no use for anybody else: also when the password is changed, other sessions may be about another account.
    pub(crate) fn stands(&mut self, standing: Standing) {
        self.standing = standing;
        self.retire_at = rt::now();
    }

    /// Notes that it cannot be set up, if that is what this error says.
    pub(crate) fn is_limited_by(&mut self, error: PoolError) -> Result<(), PoolError> {
        match error {
            PoolError::Refused { error, .. } if error.code == error_code::ER_MUST_CHANGE_PASSWORD => {
                self.stands(Standing::Expired(error));
                Ok(())
            }
            error => Err(error),
        }
    }
}

impl Checkout {
    /// The server's words, if it demands another password before the connection can be set up.
    pub fn demands_password(&mut self) -> Option<PoolError> {
        let Standing::Expired(error) = &self.connection().standing else { return None };
        let error = error.clone();
        Some(PoolError::Refused { backend: self.name(), error })
    }

    /// Lets the server do what COM_RESET_CONNECTION does, for which no password is needed.
    pub async fn reset_in_place(
        &mut self,
        want: &SessionState,
        memory: &Rc<Memory>,
    ) -> Result<(), PoolError> {
        let (pool, backend) = (self.pool().clone(), self.backend());
        self.connection().belong_to(memory.clone());
        let connection = self.connection();
        let reset = async { command(connection, &[Code::ResetConnection as u8]).await.map(drop) };
        bounded(pool.place(backend), reset).await?;
        initialise(self.connection(), pool.place(backend)).await?;
        self.make_ready(want, memory).await.map(drop)
    }
}

/// Sets the connection up, if the server lets it; if not, it may be used as it is, to change the password.
pub(crate) async fn set_up(
    connection: &mut Connection,
    place: &Place,
    want: &SessionState,
) -> Result<Ready, PoolError> {
    match try_to_set_up(connection, place, want).await {
        Ok(()) => {
            connection.stands(Standing::SetUp);
            Ok(Ready::FixedUp)
        }
        Err(error) => connection.is_limited_by(error).map(|()| Ready::AsItWas),
    }
}

async fn try_to_set_up(
    connection: &mut Connection,
    place: &Place,
    want: &SessionState,
) -> Result<(), PoolError> {
    bounded(place, save(connection)).await?;
    initialise(connection, place).await?;
    if connection.have.is_same(want) {
        return Ok(());
    }
    fix_up_silently(connection, place, want, Means::Settings).await
}
