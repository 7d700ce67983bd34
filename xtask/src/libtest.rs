//! Running libtest's programs: their output goes on to the user, and their results are added up.

use std::io::{BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::announce;
use crate::steps::Tally;

/// What all test programs of one run say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// The names of the tests that failed.
    pub(crate) failed: Vec<String>,
    /// What they said when they failed, the beginning of each.
    pub(crate) why: Vec<String>,
    /// The programs in which they failed: several may have a test of the same name.
    pub(crate) programs: Vec<String>,
}

/// So many lines of what a failed test said are enough to know it by.
const LINES_OF_WHY: usize = 6;

/// Runs `cargo test ...` and adds up what all of its test programs say.
pub(crate) fn run(command: Command) -> Result<Tally> {
    Ok(run_shown_on(&mut std::io::stdout(), command)?.tally)
}

/// Runs a program whose last line is "N passed, M failed".
pub(crate) fn run_counted(mut command: Command) -> Result<Tally> {
    announce(&command);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start it")?;
    let said = child.stdout.take().context("invariant: standard output is a pipe")?;
    let mut last = String::new();
    for line in BufReader::new(said).lines() {
        last = line?;
        writeln!(std::io::stdout(), "{last}").context("cannot show the output")?;
    }
    let status = child.wait()?;
    match counts_of(&last) {
        Some(tally) if status.success() || tally.failed > 0 => Ok(tally),
        _ => bail!("it ended with {status} after `{last}`"),
    }
}

/// Reads "12 passed, 0 failed".
fn counts_of(line: &str) -> Option<Tally> {
    let (passed, failed) = line.split_once(" passed, ")?;
    Some(Tally { passed: passed.parse().ok()?, failed: failed.strip_suffix(" failed")?.parse().ok()? })
}

fn run_shown_on(screen: &mut impl Write, mut command: Command) -> Result<Outcome> {
    announce(&command);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let said = child.stdout.take().context("invariant: standard output is a pipe")?;
    let outcome = pass_on(BufReader::new(said), screen)?;
    let status = child.wait()?;
    if status.success() && outcome.tally == Tally::default() {
        bail!("no test was run");
    }
    Ok(judged(outcome, "cargo", status))
}

/// What a program has said and how it ended: it may not have compiled, or may have died without a result.
pub(crate) fn judged(mut outcome: Outcome, name: &str, status: ExitStatus) -> Outcome {
    if !status.success() && outcome.tally.failed == 0 {
        eprintln!("error: {name} ended with {status}");
        outcome.tally.failed = 1;
    }
    if !outcome.failed.is_empty() {
        outcome.programs.push(name.to_owned());
    }
    outcome
}

/// Reads all that test programs have said.
pub(crate) fn read(said: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let said = String::from_utf8_lossy(said);
    said.lines().for_each(|line| outcome.note(line));
    outcome.why = said.split("\n---- ").skip(1).filter_map(why).collect();
    outcome
}

/// Reads "a::b stdout ----" and the panic under it.
fn why(block: &str) -> Option<String> {
    let (name, said) = block.split_once(" stdout ----\n")?;
    let is_rest = |line: &&str| line.trim().eq_ignore_ascii_case("stack backtrace:") || *line == "failures:";
    let lines =
        said.lines().skip_while(|line| !line.contains("panicked at")).take_while(|line| !is_rest(line));
    let lines: Vec<_> = lines.filter(|line| !line.trim().is_empty()).take(LINES_OF_WHY).collect();
    Some(format!("{name}: {}", lines.join("\n    ")))
}

impl Outcome {
    fn note(&mut self, line: &str) {
        self.tally += result_of(line).unwrap_or_default();
        self.failed.extend(failed_name(line).map(str::to_owned));
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.tally += other.tally;
        self.failed.extend(other.failed);
        self.why.extend(other.why);
        self.programs.extend(other.programs);
    }
}

fn pass_on(mut from: impl BufRead, to: &mut impl Write) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? != 0 {
        to.write_all(&line).and_then(|()| to.flush()).context("cannot show the tests' output")?;
        outcome.note(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(outcome)
}

/// Reads "test a::b ... FAILED".
fn failed_name(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Reads "test result: ok. 12 passed; 0 failed; 0 ignored; ...".
fn result_of(line: &str) -> Option<Tally> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |what: &str| {
        numbers.split(';').find_map(|part| part.trim().strip_suffix(what)?.trim().parse::<u64>().ok())
    };
    Some(Tally { passed: number(" passed")?, failed: number(" failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_and_other_lines_are_not() {
        let line = "test result: FAILED. 11 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.5s";
        assert_eq!(result_of(line), Some(Tally { passed: 11, failed: 2 }));
        assert_eq!(result_of("test a::b ... ok"), None);
        assert_eq!(result_of(" test result: ok. 1 passed; 0 failed;"), None);
    }

    #[test]
    fn the_program_of_a_failed_test_is_known() {
        use std::os::unix::process::ExitStatusExt;
        let ended = |said: &[u8], code| judged(read(said), "e2e/tests/x.rs", ExitStatus::from_raw(code << 8));
        let failed = ended(b"test a ... FAILED\ntest result: FAILED. 0 passed; 1 failed;\n", 101);
        assert_eq!(
            (failed.failed, failed.programs),
            (vec!["a".to_owned()], vec!["e2e/tests/x.rs".to_owned()])
        );
        assert!(ended(b"test result: ok. 1 passed; 0 failed;\n", 0).programs.is_empty());
    }

    #[test]
    fn results_of_several_programs_are_added_up_and_all_is_shown() {
        let said = "running 1 test\ntest result: ok. 1 passed; 0 failed;\n\ntest result: FAILED. 2 passed; 3 failed;";
        let mut shown = Vec::new();
        let outcome = pass_on(said.as_bytes(), &mut shown).unwrap();
        assert_eq!(outcome.tally, Tally { passed: 3, failed: 3 });
        assert_eq!(shown, said.as_bytes());
    }

    #[test]
    fn tests_that_fail_are_named() {
        let said = "test a::b ... FAILED\ntest c ... ok\nx test d ... FAILED\ntest result: FAILED. 1 passed; 1 failed;";
        let outcome = pass_on(said.as_bytes(), &mut Vec::new()).unwrap();
        assert_eq!(
            outcome,
            Outcome {
                tally: Tally { passed: 1, failed: 1 },
                failed: vec!["a::b".to_owned()],
                ..Outcome::default()
            }
        );
    }

    #[test]
    fn a_failed_tests_panic_is_kept_without_its_backtrace() {
        let said = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nround 1\n\nthread 'a::b' (7) panicked at x.rs:1:2:\nno row\n\n\
                    Stack backtrace:\n   0: x\n\n---- c stdout ----\nthread 'c' panicked at y.rs:3:4:\nlate\n\n\nfailures:\n    a::b\n    c\n";
        let why = read(said.as_bytes()).why;
        assert_eq!(
            why,
            [
                "a::b: thread 'a::b' (7) panicked at x.rs:1:2:\n    no row",
                "c: thread 'c' panicked at y.rs:3:4:\n    late"
            ]
        );
    }

    #[test]
    fn a_program_that_dies_counts_as_one_failure() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: ok. 4 passed; 0 failed;'; exit 101"]);
        let outcome = run_shown_on(&mut Vec::new(), command).unwrap();
        assert_eq!(outcome, Outcome { tally: Tally { passed: 4, failed: 1 }, ..Outcome::default() });
    }

    #[test]
    fn counts_are_read_and_a_program_without_them_is_an_error() {
        assert_eq!(counts_of("3 passed, 1 failed"), Some(Tally { passed: 3, failed: 1 }));
        assert_eq!(counts_of("error: 3 passed, 1 failed"), None);
        let program = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run_counted(command)
        };
        assert!(program("echo 3 passed, 0 failed; exit 1").is_err());
        assert!(program("exit 0").is_err());
        assert_eq!(program("echo 3 passed, 2 failed; exit 1").unwrap(), Tally { passed: 3, failed: 2 });
    }

    #[test]
    fn running_no_test_at_all_is_an_error() {
        assert!(run_shown_on(&mut Vec::new(), Command::new("true")).is_err());
    }
}
