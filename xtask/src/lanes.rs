//! Test programs side by side: each one's output is shown when it has ended, in one piece.

use std::io::Write;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::cargo::Built;
use crate::libtest::{self, Outcome};

/// Runs these programs, so many at the same time, and adds up what they say. A program that fails stops no other.
///
/// # Errors
/// A program cannot be started, or its output cannot be shown.
pub(crate) fn run(
    programs: &[&Built],
    lanes: usize,
    command: &(impl Fn(&Built) -> Command + Sync),
) -> Result<Outcome> {
    run_shown_on(std::io::stdout(), (programs, lanes), command)
}

fn run_shown_on(
    screen: impl Write + Send,
    (programs, lanes): (&[&Built], usize),
    command: &(impl Fn(&Built) -> Command + Sync),
) -> Result<Outcome> {
    let (queue, shown_so_far) = (Mutex::new(programs.iter()), Mutex::new((screen, Outcome::default())));
    let work = || -> Result<()> {
        loop {
            let next = queue.lock().map_err(|_| anyhow!("another lane panicked"))?.next();
            let Some(program) = next else { return Ok(()) };
            let name = shown(program);
            eprintln!("     Running {name}");
            let begun = Instant::now();
            let output = command(program).output().with_context(|| format!("cannot start {name}"))?;
            // Held until all is shown: the next program's output comes after it.
            let mut so_far = shown_so_far.lock().map_err(|_| anyhow!("another lane panicked"))?;
            let outcome = show(&mut so_far.0, &name, &output, begun.elapsed())?;
            so_far.1 += outcome;
        }
    };
    let ended: Vec<Result<()>> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(work)).collect();
        lanes
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|_| Err(anyhow!("a lane panicked"))))
            .collect()
    });
    ended.into_iter().collect::<Result<()>>()?;
    Ok(shown_so_far.into_inner().map_err(|_| anyhow!("a lane panicked"))?.1)
}

/// A program's source file, from its package's folder.
pub(crate) fn shown(program: &Built) -> String {
    let package = program.folder.file_name().unwrap_or_default().to_string_lossy();
    let source = program.source.strip_prefix(&program.folder).unwrap_or(&program.source);
    format!("{package}/{}", source.display())
}

fn show(screen: &mut impl Write, name: &str, output: &Output, took: Duration) -> Result<Outcome> {
    let head = format!("\n     Ended {name} after {:.1} s\n", took.as_secs_f64());
    let parts = [head.as_bytes(), &output.stderr, &output.stdout];
    let written = parts.iter().try_for_each(|part| screen.write_all(part)).and_then(|()| screen.flush());
    written.context("cannot show the tests' output")?;
    let outcome = libtest::read(&output.stdout);
    Ok(libtest::judged(outcome, name, output.status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Tally;

    fn program(name: &str) -> Built {
        Built {
            name: name.to_owned(),
            is_test: true,
            path: "sh".into(),
            folder: "/p/crate".into(),
            source: format!("/p/crate/tests/{name}.rs").into(),
        }
    }

    /// Each says its own result, after the others have begun.
    #[test]
    fn all_programs_run_and_their_results_are_added_up() {
        let programs = ["good", "bad", "dead", "good"].map(program);
        let list: Vec<_> = programs.iter().collect();
        let command = |program: &Built| {
            let script = match &*program.name {
                "good" => "sleep 0.1; echo 'test result: ok. 2 passed; 0 failed;'",
                "bad" => {
                    "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed;'; exit 101"
                }
                _ => "echo 'test a ... ok'; kill -9 $$",
            };
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        for lanes in 1..4 {
            let outcome = run_shown_on(std::io::sink(), (&list, lanes), &command).unwrap();
            assert_eq!(outcome.tally, Tally { passed: 5, failed: 2 });
            assert_eq!(outcome.failed, ["a::b"]);
        }
        assert!(
            run_shown_on(std::io::sink(), (&list, 2), &|_: &Built| Command::new("/no/such/program")).is_err()
        );
    }

    #[test]
    fn programs_are_named_by_their_source() {
        assert_eq!(shown(&program("vip")), "crate/tests/vip.rs");
    }
}
