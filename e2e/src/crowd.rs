//! The operators' tables while ten thousand clients are connected, and a thousand operators at once: how long they wait, what that takes
//! of memory, and what ordinary clients notice.

mod page;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use delphinus_sandbox::{APP2, Flavor};

use crate::client::{Client, Login};
use crate::config_file::ConfigFile;
use crate::hostile::{Bystanders, Highest, Times};
use crate::operators::Operators;
use crate::stage::Stage;

pub use page::write_row;

/// How long ordinary clients are looked at before and after.
const LOOK: Duration = Duration::from_secs(3);
/// What answers may take beside the limit of one statement, in MiB.
const GROWTH_MIB: u64 = 128;
/// A statement waits for its turn for 30 seconds, and runs for 3.
const LONGEST: Duration = Duration::from_secs(35);
/// Logins at the same time.
const LOGINS: usize = 8;

/// One question.
pub struct Question {
    /// What is asked.
    pub sql: &'static str,
    /// By how many operators at the same time.
    pub operators: usize,
    /// How often by each.
    pub times: usize,
}

/// All of them.
pub const QUESTIONS: &[Question] = &[
    Question { sql: "SELECT COUNT(*) FROM sessions", operators: 1, times: 50 },
    Question { sql: "SELECT user, COUNT(*) FROM sessions GROUP BY user", operators: 1, times: 50 },
    Question { sql: "SHOW SESSIONS", operators: 1, times: 20 },
    Question { sql: "SELECT COUNT(*) FROM backends", operators: 1000, times: 1 },
    Question { sql: "SELECT user, COUNT(*) FROM sessions GROUP BY user", operators: 1000, times: 1 },
];

/// What came of one.
#[derive(Debug)]
pub struct Row {
    /// What was asked.
    pub sql: &'static str,
    /// By how many.
    pub operators: usize,
    /// Clients that were connected.
    pub clients: usize,
    /// How long an answer took: half of them, 99 of 100, the last.
    pub took: [Duration; 3],
    /// Questions that were refused because others had not ended in time.
    pub refused: usize,
    /// Memory of the proxy before, at most during, and after, in MiB.
    pub mib: [u64; 3],
    /// What ordinary clients noticed at these times.
    pub times: [Times; 3],
    /// Errors of ordinary clients.
    pub errors: u64,
}

impl Row {
    /// Why this is not what it has to be, if it is not.
    pub fn fault(&self) -> Option<String> {
        let [before, during, _] = self.mib;
        if self.took[2] > LONGEST {
            return Some(format!("an answer took {:?}", self.took[2]));
        }
        if during > before + GROWTH_MIB {
            return Some(format!("{during} MiB are more than {before} and {GROWTH_MIB}"));
        }
        (self.errors > 0).then(|| format!("ordinary clients got {} errors", self.errors))
    }
}

/// Servers, the proxy, and the clients that only are there.
pub struct Crowd {
    stage: Stage,
    operators: Operators,
    clients: Vec<Client>,
}

impl Crowd {
    /// So many clients of two users.
    pub fn gather(count: usize) -> Result<Self> {
        let operators = Operators::default();
        let section = operators.section().replace("[[admin.user]]", "max_connections = 1000\n[[admin.user]]");
        let config = ConfigFile {
            proxy: vec![
                format!("max_connections = {}", count + 2000),
                "connect_timeout_ms = 60000".to_owned(),
            ],
            sections: vec![section],
            ..ConfigFile::default()
        };
        let stage = Stage::with_servers(Flavor::MariaDb, &["general_log=OFF"], &config)?;
        let mut setup = stage.address.connect()?;
        setup.query("CREATE TABLE app.ordinary (a INT PRIMARY KEY, b INT)")?;
        setup.query("INSERT INTO app.ordinary VALUES (1, 0), (2, 0), (3, 0), (4, 0)")?;
        stage.wait_for_replicas("SELECT COUNT(*) FROM app.ordinary")?;
        let logins = [
            Login::new(&stage.address),
            Login {
                user: APP2.user.to_owned(),
                password: APP2.password.to_owned(),
                ..Login::new(&stage.address)
            },
        ];
        let part = |first: usize| {
            let logins = logins.clone();
            thread::spawn(move || -> Result<Vec<Client>> {
                (first..count)
                    .step_by(LOGINS)
                    .map(|number| Client::connect(&logins[number % 5 / 4]))
                    .collect()
            })
        };
        let parts: Vec<_> = (0..LOGINS).map(part).collect();
        let mut clients = Vec::with_capacity(count);
        for part in parts {
            clients.extend(part.join().map_err(|_| anyhow!("a login has panicked"))??);
        }
        Ok(Self { stage, operators, clients })
    }

    /// Asks one question, as often and by as many as it says.
    pub fn ask(&mut self, question: &Question) -> Result<Row> {
        let bystanders = Bystanders::start(&self.stage)?;
        let askers: Vec<Client> = (0..question.operators)
            .map(|_| self.operators.connect(&self.stage.address))
            .collect::<Result<_>>()?;
        thread::sleep(LOOK);
        let before = bystanders.take();
        let memory = Highest::watch(&mut self.stage)?;
        let first = memory.now();
        let (mut took, refused) = ask_all(askers, question)?;
        let during = bystanders.take();
        let most = memory.end();
        thread::sleep(LOOK);
        let after = bystanders.take();
        let last = self.stage.proxy()?.resident_kib()? / 1024;
        let errors = bystanders.end()?;
        took.sort_unstable();
        ensure!(!took.is_empty(), "there is no answer at all");
        let at = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)];
        Ok(Row {
            sql: question.sql,
            operators: question.operators,
            clients: self.clients.len(),
            took: [at(50), at(99), at(100)],
            refused,
            mib: [first, most, last],
            times: [before, during, after],
            errors,
        })
    }
}

/// How long each answer took, and how many were refused.
fn ask_all(askers: Vec<Client>, question: &Question) -> Result<(Vec<Duration>, usize)> {
    let (start, sql, times) = (Arc::new(Barrier::new(askers.len())), question.sql, question.times);
    let one = |mut operator: Client| {
        let start = start.clone();
        thread::Builder::new().stack_size(256 << 10).spawn(move || -> Result<(Vec<Duration>, usize)> {
            start.wait();
            let (mut took, mut refused) = (Vec::new(), 0);
            for _ in 0..times {
                let began = Instant::now();
                match operator.rows(sql) {
                    Ok(rows) => ensure!(!rows.is_empty(), "{sql}: no rows"),
                    Err(error) if error.to_string().contains("try again") => refused += 1,
                    Err(error) => return Err(error.context(sql)),
                }
                took.push(began.elapsed());
            }
            Ok((took, refused))
        })
    };
    let threads: Vec<_> = askers.into_iter().map(one).collect::<std::io::Result<_>>()?;
    let (mut took, mut refused) = (Vec::new(), 0);
    for thread in threads {
        let (more, of_these) = thread.join().map_err(|_| anyhow!("an operator has panicked"))??;
        took.extend(more);
        refused += of_these;
    }
    Ok((took, refused))
}
