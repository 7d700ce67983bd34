//! What an operator changes while clients work, again and again: errors are counted by the clients, and there may be none.
//!
//! Owns: the run of one kind of change (`run_change`), the kinds (`steps`), and the table of docs/admin.md (`page`).

mod ground;
mod page;
mod steps;
pub(crate) mod sysbench;
mod visitors;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

pub use ground::Ground;
pub use page::write_row;
use steps::Clients;
pub use steps::{CHANGES, Change};
use sysbench::{Said, Sysbench};
use visitors::Visitors;

/// Clients of the application.
const VISITORS: usize = 8;
/// Logins and statements of a pause's first moment, which were under way.
const UNDER_WAY: u64 = 2 * VISITORS as u64;
/// Rounds of work that each of them does between two steps.
const WORK: u64 = 2;

/// All who work.
struct Load {
    visitors: Visitors,
    sysbench: Vec<Sysbench>,
}

/// What came of one kind of change.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// On which servers.
    pub flavor: Flavor,
    /// How often.
    pub rounds: u32,
    /// How long it took.
    pub took: Duration,
    /// Transactions of sysbench, and statements of the application's clients.
    pub work: [u64; 2],
    /// Sessions and logins of the application's clients that went to the other proxy.
    pub moved: u64,
    /// The longest statement or login of these.
    pub longest: Duration,
    /// Errors of all clients.
    pub errors: u64,
    /// Some of them, in their words.
    pub words: Vec<String>,
}

impl Load {
    fn start(ground: &Ground, clients: Clients) -> Result<Self> {
        let both = ground.addresses();
        let sysbench = match clients {
            Clients::All => vec![
                Sysbench::start(&both[0], "oltp_read_write", &[])?,
                // Reads that replicas get, too.
                Sysbench::start(&both[0], "oltp_read_only", &["--skip-trx=on"])?,
            ],
            Clients::AtBoth => Vec::new(),
        };
        let known = if clients == Clients::All { &both[..1] } else { &both[..] };
        Ok(Self { visitors: Visitors::start(known, VISITORS), sysbench })
    }

    /// Waits until everybody has worked for a while.
    fn go_on(&self) -> Result<()> {
        for one in &self.sysbench {
            ensure!(one.said().fatal.is_empty(), "sysbench has stopped: {:?}", one.said().fatal);
        }
        self.visitors.go_on(WORK)
    }
}

/// Does one kind of change so often.
pub fn run_change(ground: &mut Ground, change: &Change, rounds: u32) -> Result<Row> {
    let deadlocks = ground.deadlocks()?;
    let (load, began) = (Load::start(ground, change.clients)?, Instant::now());
    load.go_on()?;
    let done = (change.run)(ground, &load, rounds).and_then(|()| load.go_on());
    // sysbench tells of each second at its end.
    std::thread::sleep(Duration::from_millis(1500));
    let said: Vec<Said> = load.sysbench.into_iter().map(Sysbench::end).collect::<Result<_>>()?;
    let noticed = load.visitors.end()?;
    ground.check()?;
    let retried: u64 = said.iter().map(|said| said.retried + said.reconnects).sum();
    // A deadlock is the server's, and it has counted it.
    let unexplained = retried.div_ceil(100).saturating_sub(ground.deadlocks()? - deadlocks);
    let fatal: Vec<String> = said.iter().flat_map(|said| said.fatal.clone()).collect();
    let words = [fatal.as_slice(), noticed.first_errors()].concat();
    if let Err(error) = done {
        return Err(error).with_context(|| format!("{}: {}", change.name, words.join("; ")));
    }
    let transactions: u64 = said.iter().map(|said| said.transactions).sum();
    Ok(Row {
        name: change.name,
        flavor: ground.flavor,
        rounds,
        took: began.elapsed(),
        work: [transactions / 100, noticed.statements],
        moved: noticed.moved,
        longest: noticed.longest,
        errors: unexplained + fatal.len() as u64 + noticed.errors.len() as u64,
        words,
    })
}
