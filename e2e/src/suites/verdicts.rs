//! What each test of a suite came to, read from what the suites' own runners print.

use std::collections::BTreeMap;

/// What a test came to; the later one wins when a test has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Skipped,
    Passed,
    Failed,
}

/// Tests by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdicts(BTreeMap<String, Verdict>);

impl Verdicts {
    pub(crate) fn of(&self, name: &str) -> Option<Verdict> {
        self.0.get(name).copied()
    }

    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.0.values().filter(|found| **found == verdict).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The names of the tests that passed.
    pub(crate) fn passed(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, verdict)| **verdict == Verdict::Passed).map(|(name, _)| name.as_str())
    }

    /// True if some test of those whose names begin with `name` passed and none failed.
    pub(crate) fn has_passed(&self, name: &str) -> bool {
        self.of(name) == Some(Verdict::Passed)
    }

    fn add(&mut self, name: &str, verdict: Verdict) {
        let known = self.0.entry(name.to_owned()).or_insert(verdict);
        *known = verdict.max(*known);
    }

    fn from_lines(output: &str, read: impl Fn(&str) -> Option<(&str, Verdict)>) -> Self {
        let mut all = Self::default();
        output.lines().filter_map(read).for_each(|(name, verdict)| all.add(name, verdict));
        all
    }
}

/// `--- PASS: TestX/sub (0.01s)`, what `go test -v` prints.
pub(crate) fn of_go(output: &str) -> Verdicts {
    Verdicts::from_lines(output, |line| {
        // What a test prints without a newline stands before it.
        let (verdict, rest) =
            [("PASS", Verdict::Passed), ("FAIL", Verdict::Failed), ("SKIP", Verdict::Skipped)]
                .into_iter()
                .find_map(|(word, verdict)| Some((verdict, line.split_once(&format!("--- {word}: "))?.1)))?;
        Some((rest.rsplit_once(" (")?.0, verdict))
    })
}

/// `test_x.py::Class::test PASSED [ 10%]`, what `pytest -v` prints.
pub(crate) fn of_pytest(output: &str) -> Verdicts {
    Verdicts::from_lines(output, |line| {
        let (before, _) = line.rsplit_once(" [")?;
        let before = before.trim_end();
        // A skipped test has its reason in parentheses.
        let reason = [" SKIPPED (", " XFAIL (", " XPASS ("].into_iter().find_map(|word| {
            // The word stays, its parenthesis goes.
            Some(&before[..before.find(word)? + word.len() - 2])
        });
        let before = reason.unwrap_or(before);
        let (name, word) = before.rsplit_once(' ')?;
        let verdict = match word {
            "PASSED" | "XPASS" => Verdict::Passed,
            "FAILED" | "ERROR" => Verdict::Failed,
            "SKIPPED" | "XFAIL" => Verdict::Skipped,
            _ => return None,
        };
        name.contains("::").then_some((name.trim_end(), verdict))
    })
}

/// `test a::b ... ok`, what a program of Rust's libtest prints.
pub(crate) fn of_libtest(output: &str) -> Verdicts {
    Verdicts::from_lines(output, |line| {
        let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let verdict = match rest.rsplit(' ').next()? {
            "ok" => Verdict::Passed,
            "FAILED" => Verdict::Failed,
            _ if rest.starts_with("ignored") => Verdict::Skipped,
            _ => return None,
        };
        Some((name, verdict))
    })
}

/// `ok name (0.1 s)`, `FAIL name: why` and `skip name: why`, what our own programs print.
pub(crate) fn of_own(output: &str) -> Verdicts {
    Verdicts::from_lines(output, |line| {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "ok" => Some((rest.rsplit_once(" (")?.0, Verdict::Passed)),
            "FAIL" => Some((rest.split_once(": ")?.0, Verdict::Failed)),
            "skip" => Some((rest.split_once(": ")?.0, Verdict::Skipped)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, Verdict)]) -> Verdicts {
        Verdicts(pairs.iter().map(|(name, verdict)| ((*name).to_owned(), *verdict)).collect())
    }

    #[test]
    fn go() {
        let said = "=== RUN   TestA\n    --- PASS: TestA/x (0.00s)\nnoise--- FAIL: TestA (0.01s)\n--- SKIP: TestB (0.00s)\nPASS\n";
        let wanted = [("TestA", Verdict::Failed), ("TestA/x", Verdict::Passed), ("TestB", Verdict::Skipped)];
        assert_eq!(of_go(said), of(&wanted));
    }

    #[test]
    fn pytest() {
        let said = "collecting ... collected 4 items\n\
            t/a.py::A::one PASSED      [ 25%]\nt/a.py::two[a b] FAILED [ 50%]\n\
            t/a.py::A::three SKIPPED (needs (this)) [ 75%]\nt/a.py::A::one ERROR  [100%]\n== 1 failed ==\n";
        let wanted = [("t/a.py::A::one", Verdict::Failed), ("t/a.py::two[a b]", Verdict::Failed)];
        let got = of_pytest(said);
        for (name, verdict) in wanted {
            assert_eq!(got.of(name), Some(verdict), "{name}");
        }
        assert_eq!(got.count(Verdict::Skipped), 1);
    }

    #[test]
    fn libtest() {
        let said = "running 3 tests\ntest a::b ... ok\ntest a::c ... said something FAILED\n\
            test a::d ... ignored, needs x\ntest result: FAILED. 1 passed; 1 failed;\n";
        let wanted = [("a::b", Verdict::Passed), ("a::c", Verdict::Failed), ("a::d", Verdict::Skipped)];
        assert_eq!(of_libtest(said), of(&wanted));
    }

    #[test]
    fn our_own() {
        let said = "ok a (0.1 s)\nFAIL b: no (really): no\nskip c: has no servers\nother\n";
        let wanted = [("a", Verdict::Passed), ("b", Verdict::Failed), ("c", Verdict::Skipped)];
        assert_eq!(of_own(said), of(&wanted));
    }

    #[test]
    fn a_failure_is_not_forgotten() {
        assert_eq!(of_own("FAIL a: x\nok a (1 s)\n"), of(&[("a", Verdict::Failed)]));
    }
}
