//! How long files stay: removed by age, by size, by what replicas have, or by an operator's word; archived before that.
//!
//! Owns: which files go, what holds them, which replicas are waited for. Must not know sockets, or what is in the files.
//! Nothing that a replica may still need goes by itself, and nothing that is read.
//!
//! | question | file |
//! |---|---|
//! | may this file go? (pure) | `rules` |
//! | which files does each replica have? (pure) | `memory` |
//! | what outlives the process | `state` |
//! | handing files to the archive, again and again | `archive` |
//! | the thread that removes, and purging by command | `keeper` |

mod archive;
mod keeper;
mod memory;
mod rules;
mod state;

pub use archive::{Archive, ToArchive};
pub use keeper::{Keeper, KeptFile, KeptTotals};
pub(crate) use memory::Seen;
pub use rules::Rules;

#[cfg(test)]
mod tests;
