//! `SHOW POOLS`.

use super::Call;
use super::backends::warning;
use crate::answer::{Answer, Refused};
use crate::table::{Table, text};

const COLUMNS: [&str; 10] = [
    "#worker",
    "backend",
    "user",
    "#idle",
    "#held",
    "#in_use",
    "#waiting",
    "#max_connections",
    "#reserved_connections",
    "warning",
];

pub(super) async fn show(call: &Call<'_>) -> Result<Answer, Refused> {
    let console = call.console;
    let snapshot = console.parts.reader.load();
    let mut rows = Vec::new();
    for (worker, census) in console.census().await.into_iter().enumerate() {
        let Some(census) = census else {
            return Err(Refused::because(format!("worker {worker} does not answer")));
        };
        let backends = console.parts.backends.iter().zip(&snapshot.backends);
        for (((target, budget), backend), pool) in backends.zip(census) {
            for one in pool.users {
                let limits = [budget.max(), budget.reserved()];
                let counts =
                    [one.idle, one.held, one.in_use, one.waiting].into_iter().chain(limits).map(text);
                let mut row = vec![text(worker), text(&target.name), text(one.user)];
                row.extend(counts);
                row.push(warning(budget, backend));
                rows.push(row);
            }
        }
    }
    Ok(Answer::Rows(Table::new(COLUMNS).with(rows)))
}
