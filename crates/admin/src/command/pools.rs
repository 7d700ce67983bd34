//! `SHOW POOLS`.

use super::Call;
use crate::answer::{Answer, Refused};
use crate::table::{Table, text};

const COLUMNS: [&str; 8] =
    ["#worker", "backend", "user", "#idle", "#held", "#in_use", "#waiting", "#max_connections"];

pub(super) async fn show(call: &Call<'_>) -> Result<Answer, Refused> {
    let console = call.console;
    let mut rows = Vec::new();
    for (worker, census) in console.census().await.into_iter().enumerate() {
        let Some(census) = census else {
            return Err(Refused::because(format!("worker {worker} does not answer")));
        };
        for ((target, budget), pool) in console.parts.backends.iter().zip(census) {
            for one in pool.users {
                let counts = [one.idle, one.held, one.in_use, one.waiting, budget.max()].map(text);
                let mut row = vec![text(worker), text(&target.name), text(one.user)];
                row.extend(counts);
                rows.push(row);
            }
        }
    }
    Ok(Answer::Rows(Table::new(COLUMNS).with(rows)))
}
