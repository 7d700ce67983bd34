//! Drives wire's two login machines over a stream.

mod backend;
mod client;
mod inspect;

pub use backend::{BackendLogin, LoggedIn, LoginError, change_user, log_in};
pub use client::{LoginEnd, LoginServices, Pausing, Verifying, serve_change_user, serve_login};
pub use inspect::{inspect_certificate, inspect_key};
