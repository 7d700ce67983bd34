//! Accepts operators. Their connections are counted by themselves: applications cannot take their places.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::{Listener, rt};
use delphinus_session::ListenerSettings;

use crate::connection;
use crate::console::Console;

/// The error for a connection too many, as servers send it before their greeting: without SQLSTATE.
const TOO_MANY: &[u8] = b"\x17\x00\x00\x00\xff\x10\x04Too many connections";

impl Console {
    /// Accepts on one listener until the task is ended.
    pub async fn accept(self: Rc<Self>, listener: Listener, settings: Arc<ListenerSettings>) {
        loop {
            match listener.accept().await {
                Ok(peer) if self.open.get() >= self.parts.max_connections => {
                    if let Ok(mut stream) = peer.into_stream() {
                        // A client that is gone cannot be told.
                        let _ = rt::timeout(Duration::from_secs(1), stream.write_bytes(TOO_MANY)).await;
                        stream.close().await;
                    }
                }
                Ok(peer) => {
                    let place = Place::take(&self);
                    rt::spawn_local(connection::run(self.clone(), peer, settings.clone(), place));
                }
                Err(error) => {
                    tracing::warn!(listener = %settings.name, %error, "cannot accept an operator");
                    rt::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Counts a connection for as long as it lives.
pub(crate) struct Place(Rc<Console>);

impl Place {
    fn take(console: &Rc<Console>) -> Self {
        console.open.set(console.open.get() + 1);
        Self(console.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}
