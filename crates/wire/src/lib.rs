//! MySQL bytes to types and back. Pure: no sockets, no clock, no randomness of its own (nonces are passed in).
//!
//! | bytes | file |
//! |---|---|
//! | events of the binary log, and what replicas ask | `binlog` |
//! | integers and strings inside a payload | `cursor` |
//! | the 4-byte header around each payload | `frame` |
//! | the 7-byte header and the compression around packets | `compression` |
//! | capability flags of both sides | `capability` |
//! | what a client asks (first payload byte) | `command` |
//! | what a server answers: OK, ERR, EOF, columns, rows | `response` |
//! | numbers of servers' errors | `error_code` |
//! | login, as machines without I/O | `handshake` |
//! | what a load balancer puts before a login | `proxy_header` |
//! | scrambles and verifiers | `auth` |

pub mod auth;
pub mod binlog;
pub mod capability;
pub mod command;
pub mod compression;
mod cursor;
pub mod error_code;
mod frame;
pub mod gtid;
pub mod handshake;
pub mod proxy_header;
mod query_attributes;
pub mod response;

pub use capability::Capabilities;
pub use command::Command;
pub use cursor::{Malformed, Put, Reader};
pub use frame::{Frame, HEADER_LEN, MAX_PAYLOAD, begin_packet, end_packet, header, parse_header, put_packet};
pub use query_attributes::{
    ExecuteParams, QueryAttributes, bulk_params, execute_attributes, execute_params, first_integer,
    param_classes, query_attributes, query_text_at,
};
