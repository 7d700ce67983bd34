//! SHOW PROCESSLIST: the server lists its own connections; those on which a client's statement runs get the id that
//! the client knows, and that KILL takes.

use std::collections::HashMap;

use delphinus_pool::{Checkout, PoolError};
use delphinus_topology::BackendId;
use delphinus_wire::response::TextResult;

use crate::client_error::ProxyError;
use crate::input::Input;
use crate::registry::Registry;
use crate::serve::{Outcome, Served};
use crate::session::Session;

impl Session {
    /// Asks the server and answers with the clients' ids.
    pub(crate) async fn process_list(&mut self, mut checkout: Checkout, input: Input, sql: &[u8]) -> Outcome {
        self.skip(input).await?;
        let backend = checkout.backend();
        self.info.runs_on(backend, checkout.connection().thread_id);
        match checkout.query(&String::from_utf8_lossy(sql)).await {
            Ok(mut result) => {
                rename(&mut result, &ids_on(&self.worker.registry, backend));
                self.memory.row_count.set(-1);
                self.memory.found_rows.set(result.rows.len() as u64);
                *self.memory.warnings.borrow_mut() = None;
                self.keep_or_give_back(checkout);
                self.answer_rows(&result).await?;
                Ok(Served::Answered)
            }
            Err(error @ PoolError::Refused { .. }) => {
                self.keep_or_give_back(checkout);
                Ok(Served::Error(ProxyError::Pool(error)))
            }
            Err(error) if self.pins.is_empty() => Ok(Served::Error(ProxyError::Pool(error))),
            Err(error) => {
                let error = self.lost_state(&error.to_string());
                Ok(Served::Fatal(error))
            }
        }
    }
}

/// The clients' ids by the server's, for the connections that run something for somebody.
fn ids_on(registry: &Registry, backend: BackendId) -> HashMap<u32, u32> {
    let running = registry.list().into_iter().filter_map(|info| Some((info.place()?, info.id.0)));
    running.filter(|((at, _), _)| *at == backend).map(|((_, thread), id)| (thread, id)).collect()
}

/// The id is the first column.
fn rename(result: &mut TextResult, ids: &HashMap<u32, u32>) {
    for cell in result.rows.iter_mut().filter_map(|row| row.first_mut()?.as_mut()) {
        let theirs = std::str::from_utf8(cell).ok().and_then(|text| text.parse::<u32>().ok());
        if let Some(ours) = theirs.and_then(|theirs| ids.get(&theirs)) {
            *cell = ours.to_string().into_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_clients_take_the_place_of_the_servers() {
        let row = |id: &str| vec![Some(id.as_bytes().to_vec()), Some(b"7".to_vec())];
        let mut result = TextResult { columns: Vec::new(), rows: vec![row("7"), row("8"), vec![None]] };
        rename(&mut result, &HashMap::from([(7, 1000)]));
        assert_eq!(result.rows, [row("1000"), row("8"), vec![None]]);
    }
}
