//! The primary's word on a password: logs in there with it, in its turn, unless another login has proven it meanwhile. Says why a
//! password is not proven; how a client is told that is up to those who serve it.

use std::net::IpAddr;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_pool::{Pool, PoolError};
use delphinus_topology::BackendId;
use delphinus_view::SnapshotReader;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::Password;
use delphinus_wire::error_code;
use delphinus_wire::response::ErrPacket;

use crate::failed_logins::user_key;
use crate::users::Users;

/// What the primary of a cluster is asked with.
pub struct Prover<'a> {
    /// What is known of passwords.
    pub users: &'a Users,
    /// By which the primary is reached.
    pub pool: &'a Pool,
    /// Which backend is the primary.
    pub reader: &'a SnapshotReader,
    /// So long a login waits for its turn.
    pub patience: Duration,
}

/// Why a password is not proven.
#[derive(Debug)]
pub enum Unproven {
    /// The primary refuses it, in these words. Not necessarily 1045: locked and expired accounts have their own.
    Refused(ErrPacket),
    /// There is no user of that name.
    NoSuchUser,
    /// Too many logins wait for the primary.
    NoTurn,
    /// There is no primary that could be asked; why.
    NoPrimary(String),
    /// The primary, which this is, could not be asked.
    NotAsked(BackendId, PoolError),
}

impl Prover<'_> {
    /// Whether the password of a user is right. It is, too, if it has expired and the client can change it (`takes_expired`): that is
    /// not remembered, for its next client may be another one.
    pub async fn prove(
        &self,
        (user, client_ip): (&str, Option<IpAddr>),
        password: &Password,
        takes_expired: bool,
    ) -> Result<(), Unproven> {
        match self.prove_valid(user, password, client_ip).await {
            Err(Unproven::Refused(error))
                if takes_expired && error.code == error_code::ER_MUST_CHANGE_PASSWORD_LOGIN =>
            {
                self.prove_expired((user, client_ip), password).await
            }
            proven => proven,
        }
    }

    async fn prove_expired(&self, who: (&str, Option<IpAddr>), password: &Password) -> Result<(), Unproven> {
        let gate = self.users.gate();
        let Some(Ok(turn)) = rt::timeout(self.patience, gate.acquire()).await else {
            return Err(Unproven::NoTurn);
        };
        let primary = self.primary_that_answers().map_err(Unproven::NoPrimary)?;
        let shape = Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
        let proven = self.pool.prove(primary, who, (password, shape)).await;
        drop(turn);
        proven.map_err(|error| match error {
            PoolError::Refused { error, .. } => Unproven::Refused(error),
            error => Unproven::NotAsked(primary, error),
        })
    }

    async fn prove_valid(
        &self,
        user: &str,
        password: &Password,
        client_ip: Option<IpAddr>,
    ) -> Result<(), Unproven> {
        if self.users.may_come(user, client_ip) {
            self.ask((user, client_ip), password).await
        } else {
            Err(self.refuse_like_the_primary(user, password, client_ip).await)
        }
    }

    /// Refuses a name of no user who may come from there. It takes as long as a question to the primary does. The primary is asked about
    /// another name: it may have an account with this one, which wrong passwords would lock.
    async fn refuse_like_the_primary(
        &self,
        user: &str,
        password: &Password,
        client_ip: Option<IpAddr>,
    ) -> Unproven {
        let nobody = format!("nobody_{:08x}", user_key(user) as u32);
        let wrong = if password.is_empty() { Password::new("") } else { Password::new(".") };
        match self.ask((&nobody, client_ip), &wrong).await {
            Err(Unproven::Refused(error)) if error.code == error_code::ER_ACCESS_DENIED_ERROR => {
                Unproven::NoSuchUser
            }
            Ok(()) => Unproven::NoSuchUser,
            Err(other) => other,
        }
    }

    async fn ask(
        &self,
        (user, client_ip): (&str, Option<IpAddr>),
        password: &Password,
    ) -> Result<(), Unproven> {
        let gate = self.users.gate();
        let Some(Ok(turn)) = rt::timeout(self.patience, gate.acquire()).await else {
            return Err(Unproven::NoTurn);
        };
        if self.users.is_verified(user, password, rt::now()) {
            return Ok(());
        }
        let was_verified = || self.users.was_verified(user, password, rt::now());
        let primary = match self.primary_that_answers() {
            Ok(primary) => primary,
            Err(_) if was_verified() => return Ok(()),
            Err(why) => return Err(Unproven::NoPrimary(why)),
        };
        let asked = self.users.state_of(user);
        let proven = self.pool.prove(primary, (user, client_ip), (password, Capabilities::default())).await;
        drop(turn);
        match proven {
            Ok(()) => {
                self.users.verify(user, (password, asked), rt::now());
                Ok(())
            }
            Err(PoolError::Refused { error, .. }) => {
                self.users.has_refused(user);
                Err(Unproven::Refused(error))
            }
            Err(_) if was_verified() => Ok(()),
            Err(error) => Err(Unproven::NotAsked(primary, error)),
        }
    }

    fn primary_that_answers(&self) -> Result<BackendId, String> {
        let snapshot = self.reader.load();
        match snapshot.primary() {
            Some(primary) if primary.is_up() => Ok(primary.id),
            Some(primary) => Err(format!("primary {} is down", primary.name)),
            None => Err(snapshot.why_no_primary().to_string()),
        }
    }
}
