//! State that moves with the session from connection to connection.
//!
//! Owns: what a statement that has run has made of the session, what has to be asked for that, and what has to be there before one
//! runs. The state itself is in `crate::state`, and what follows from an answer in `delphinus_state`.

mod questions;
mod room;
mod temporary_tables;
mod user_variables;
