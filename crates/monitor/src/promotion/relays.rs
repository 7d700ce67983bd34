//! The relays that acknowledge to a cluster's primary, as far as a move of its role is about them.

use std::pin::Pin;

use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Relay, RelayId};

use super::leave::Told;

/// What is asked of relays. Answers may take their time; whoever asks waits for them within bounds.
pub trait Relays {
    /// How this one stands; `id`: which one it is.
    fn look<'a>(&'a self, id: RelayId, name: &'a str) -> Pin<Box<dyn Future<Output = Relay> + 'a>>;

    /// Has one acknowledge to nobody any more, also after a restart; not if it is in another epoch than this one. In words what came of it.
    fn cut<'a>(&'a self, name: &'a str, epoch: u64) -> Told<'a, String>;

    /// Has one follow a backend, which calls itself `identity`, and acknowledge to it; not if it is in another epoch than this one.
    fn turn<'a>(&'a self, name: &'a str, to: (BackendId, &'a str), epoch: u64) -> Told<'a, String>;
}
