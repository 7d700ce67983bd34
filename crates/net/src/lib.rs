//! The only crate that touches sockets, timers and spawn.
