//! The source: a server that is asked as a replica asks.
//!
//! Owns: the connection and the conversation of both families. Must not know files.
//!
//! | question | file |
//! |---|---|
//! | logging in, asking | `connection` |
//! | who the source is, what it has | `facts` |
//! | MySQL's and MariaDB's words before a dump, and the dumps | `conversation` |
//! | what is wrong | `error` |

mod connection;
mod conversation;
mod error;
mod facts;

pub(crate) use connection::Connection;
pub(crate) use conversation::{From, RELAY, Replica, first_file, prepare, request};
pub(crate) use error::SourceError;
pub(crate) use facts::Facts;
