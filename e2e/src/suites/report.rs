//! What the gate has found, for a terminal.

use std::fmt::Write as _;

use delphinus_sandbox::Flavor;

use crate::suites::gate::{Compared, Outcome};

/// One suite's result, for a terminal. The first word is `ok`, `FAILED` or `NOT RUN`.
pub fn summary(outcome: &Outcome) -> String {
    let what = format!("{} on {}, {}", outcome.title, name_of(outcome), outcome.variant);
    if let Some(reason) = outcome.not_run {
        return format!("NOT RUN {what}: {reason}");
    }
    let compared = match &outcome.result {
        Err(error) => return format!("FAILED {what}: {error}"),
        Ok(compared) => compared,
    };
    let Compared { direct, through, new_failures, known, flaky, pinned } = compared;
    let verdict = if outcome.is_good() { "ok" } else { "FAILED" };
    let mut text = format!(
        "{verdict} {what}: {} tests, {} passed straight ({:.0} s), {} through ({:.0} s), {} new failures, {} known, {} flaky, logins {} → {}, {:.1} % pinned",
        direct.tests,
        direct.passed,
        direct.took.as_secs_f64(),
        through.passed,
        through.took.as_secs_f64(),
        new_failures.len(),
        known.len(),
        flaky.len(),
        direct.logins,
        through.logins,
        pinned.percent()
    );
    for (test, said) in new_failures {
        let _ = write!(text, "\n  new failure: {test}\n    {}", said.replace('\n', "\n    "));
    }
    for (test, why) in known {
        let _ = write!(text, "\n  known: {test}: it {why}");
    }
    for test in flaky {
        let _ = write!(text, "\n  flaky: {test}");
    }
    text
}

fn name_of(outcome: &Outcome) -> &'static str {
    name(outcome.flavor)
}

fn name(flavor: Flavor) -> &'static str {
    if flavor.is_mysql() { "MySQL 9.7" } else { "MariaDB 10.11" }
}

#[cfg(test)]
mod tests {
    use crate::suites::target::Variant;

    use super::*;

    fn outcome(result: Result<Compared, String>) -> Outcome {
        let variant = Variant { tls: false, compression: false };
        Outcome {
            key: "k",
            title: "driver 1",
            origin: "o",
            flavor: Flavor::MariaDb,
            variant,
            result,
            not_run: None,
        }
    }

    #[test]
    fn what_failed_is_never_good_and_always_in_the_report() {
        let failures =
            Compared { new_failures: vec![("t".to_owned(), "why".to_owned())], ..Compared::default() };
        for result in [Err("no server".to_owned()), Ok(failures)] {
            let outcome = outcome(result);
            assert!(!outcome.is_good());
            assert!(summary(&outcome).starts_with("FAILED"), "{}", summary(&outcome));
        }
    }

    #[test]
    fn what_was_not_run_is_said() {
        let mut outcome = outcome(Ok(Compared::default()));
        outcome.not_run = Some("there is none");
        assert!(outcome.is_good());
        assert!(summary(&outcome).starts_with("NOT RUN"));
    }
}
