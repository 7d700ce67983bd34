//! Logging in to find out whether a password is right. The connection is closed at once: it was opened beside the
//! limit of the pool, and in no session's shape.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{BackendSecret, Password};
use delphinus_wire::command::Code;
use delphinus_wire::handshake::ConnectAttributes;

use crate::connection::Identity;
use crate::error::PoolError;
use crate::keys::Keys;
use crate::open::log_in_as;
use crate::pool::Pool;

impl Pool {
    /// Whether `backend` lets `user` in with `password`: an error of another kind than `is_about_password` means that
    /// nobody knows. `shape`: what the client can do, as far as that is of interest.
    pub async fn prove(
        &self,
        backend: BackendId,
        (user, client_ip): (&str, Option<IpAddr>),
        (password, shape): (&Password, Capabilities),
    ) -> Result<(), PoolError> {
        let secret = BackendSecret::Plain(password.clone());
        let keys = Arc::new(Keys::listed([secret.clone()]));
        // Accounts may be bound to the client's address, where backends are told of it.
        let identity = Identity::new(user.to_owned(), Capabilities::default(), &keys)
            .of_client(client_ip, ConnectAttributes::default());
        let (place, settings) = (self.place(backend), self.settings());
        let proven = log_in_as(place, (&identity, secret), shape, &settings).await;
        match &proven {
            Ok(_) => self.counters.backend_connects_ok.increment(),
            Err(_) => self.counters.backend_connects_failed.increment(),
        }
        let mut stream = proven?.stream;
        rt::spawn_local(async move {
            let quit = [1, 0, 0, 0, Code::Quit as u8];
            rt::timeout(Duration::from_secs(1), async {
                // If it is gone already, there is nobody to say goodbye to.
                let _ = stream.write_bytes(&quit).await;
                stream.finish().await;
            })
            .await;
        });
        Ok(())
    }
}
