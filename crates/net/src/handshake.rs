//! Drives wire's two login machines over a stream.

mod backend;
mod client;

pub use backend::{BackendLogin, LoggedIn, LoginError, change_user, log_in};
pub use client::{LoginEnd, LoginServices, Verifying, serve_change_user, serve_login};
