//! ORMs in ordinary use: what they do through Delphinus is right, and they are hardly ever pinned.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use crate::programs::run;
use crate::suites::arena::{Arena, Way};
use crate::suites::mysqlclient::PACKAGES;
use crate::suites::pinned::PinnedTime;
use crate::suites::python::environment;
use crate::suites::target::Variant;

const LIMIT: Duration = Duration::from_mins(5);
const SCHEMA: &str = "orm";
/// More than this part of the sessions' time must not be spent pinned, in percent.
const MOST_PINNED: f64 = 1.0;

/// One program: what it is, its file, its arguments.
#[derive(Debug, Clone, Copy)]
struct Program {
    title: &'static str,
    file: &'static str,
    argument: &'static str,
}

const PROGRAMS: [Program; 4] = [
    Program { title: "SQLAlchemy 2.1.9, PyMySQL 1.2.4", file: "use_sqlalchemy.py", argument: "pymysql" },
    Program { title: "SQLAlchemy 2.1.9, mysqlclient 2.3.1", file: "use_sqlalchemy.py", argument: "mysqldb" },
    Program { title: "Django 5.2.19, a connection for each request", file: "use_django.py", argument: "0" },
    Program { title: "Django 5.2.19, persistent connections", file: "use_django.py", argument: "none" },
];

/// What one program came to on one kind of servers.
#[derive(Debug)]
pub struct OrmOutcome {
    /// The ORM, its version and its driver.
    pub title: &'static str,
    /// Which servers it ran on.
    pub flavor: Flavor,
    /// The times of its sessions; an error if it failed.
    pub result: Result<PinnedTime, String>,
}

impl OrmOutcome {
    /// It did what it should, and less than one percent of the time was spent pinned.
    pub fn is_good(&self) -> bool {
        self.result.as_ref().is_ok_and(|time| time.sessions > 0 && time.percent() < MOST_PINNED)
    }

    /// The result, for a terminal.
    pub fn summary(&self) -> String {
        let what = format!("{} on {}", self.title, self.flavor.name());
        match &self.result {
            Err(error) => format!("FAILED {what}: {error}"),
            Ok(time) => {
                let verdict = if self.is_good() { "ok" } else { "FAILED" };
                let pins: Vec<String> =
                    time.statements.iter().map(|(reason, sql)| format!("\n  {reason}: {sql}")).collect();
                format!(
                    "{verdict} {what}: {} sessions, {:.1} s, {:.3} % of it pinned{}",
                    time.sessions,
                    time.connected.as_secs_f64(),
                    time.percent(),
                    pins.concat()
                )
            }
        }
    }
}

/// Runs all programs, `rounds` rounds in each of six threads.
pub fn run_orms(
    flavors: &[Flavor],
    rounds: u32,
    mut seen: impl FnMut(&OrmOutcome),
) -> Result<Vec<OrmOutcome>> {
    let mut outcomes = Vec::new();
    for flavor in flavors {
        let arena = Arena::start(*flavor)?;
        hold_a_lock(&arena).context("a session that is pinned on purpose")?;
        for program in &PROGRAMS {
            let result = use_orm(program, &arena, rounds).map_err(|error| format!("{error:#}"));
            let outcome = OrmOutcome { title: program.title, flavor: *flavor, result };
            seen(&outcome);
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

/// A session that does nothing but hold a lock: its time has to be counted as pinned, or no share means anything.
fn hold_a_lock(arena: &Arena) -> Result<()> {
    let target = arena.target(Way::Through, Variant { tls: false, compression: false }, &[SCHEMA])?;
    let mark = arena.mark()?;
    let mut client = target.address.connect()?;
    client.rows("SELECT GET_LOCK('orm', 1)")?;
    client.rows("SELECT SLEEP(0.3)")?;
    client.quit()?;
    let time = arena.pinned_since(mark)?;
    ensure!(time.by_reason.contains_key("get_lock") && time.percent() > 50.0, "it was not seen: {time:?}");
    Ok(())
}

fn use_orm(program: &Program, arena: &Arena, rounds: u32) -> Result<PinnedTime> {
    let python = environment("orm", &PACKAGES)?;
    let target = arena.target(Way::Through, Variant { tls: false, compression: false }, &[SCHEMA])?;
    let mark = arena.mark()?;
    let mut command = Command::new(python.join("bin/python"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/orm");
    command.arg(folder.join(program.file)).arg(program.argument).current_dir(&target.scratch);
    command.envs(target.address.environment()).env("DELPHINUS_ROUNDS", rounds.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let said = run(&mut command, LIMIT)?.success()?;
    let parts = said.lines().filter(|line| line.starts_with("ok ")).count();
    ensure!(parts >= 3, "it did only {parts} parts:\n{said}");
    arena.pinned_since(mark)
}
