//! The types that `MySQL` gives the parameters of a statement prepared in SQL text.
//!
//! It finds types when it prepares the statement, by what stands around a parameter. When the statement runs with a number
//! that such a type does not take, it is prepared again for the types of all values that it was given then, and keeps those: a
//! string is converted to them from then on. So what a statement gives depends on what it was given before. Strings and NULL
//! change nothing; a decimal type takes integers, and a floating-point type all numbers. Source: the manual's page on PREPARE,
//! and what `MySQL` 9.7 was seen to do.
//!
//! Owns: what a statement must have been given, to be on another connection what it is here.

use std::rc::Rc;

use crate::user_vars::UserValue;
use crate::value_kind::ValueKind;

/// What a statement is given for its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given(Box<[ValueKind]>);

impl Given {
    /// The values of user variables; `None` for one that was never set.
    pub fn of<'a>(values: impl Iterator<Item = Option<&'a UserValue>>) -> Self {
        Self(values.map(|value| value.map_or(ValueKind::Null("NULL"), UserValue::kind)).collect())
    }

    /// Expressions of the same types.
    pub fn examples(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(ValueKind::example)
    }

    /// True if a statement that takes `before` takes this too.
    fn is_taken_after(&self, before: &Self) -> bool {
        let takes = |(at, kind): (usize, &ValueKind)| {
            !kind.is_number() || before.0.get(at).is_some_and(|before| before.has_room_for(kind))
        };
        self.0.iter().enumerate().all(takes)
    }
}

/// The run that may have made a statement what it is, if there was one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParameterTypes(Option<Rc<Given>>);

/// With more parameters it is not brought about elsewhere.
const MOST_PARAMETERS: usize = 256;

impl ParameterTypes {
    /// True if it is as it was prepared.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The run.
    pub fn run(&self) -> Option<&Given> {
        self.0.as_deref()
    }

    /// True if one run with `given` makes a statement as it was prepared the same.
    pub fn come_of(&self, given: &Given) -> bool {
        // A string would be converted, and warned of, once for each time that the statement is prepared.
        let has_text = |run: &Given| run.0.iter().any(|kind| matches!(kind, ValueKind::Text(_)));
        self.run().is_some_and(|run| run == given && !has_text(run))
    }

    /// What they are after another run; `None` if that cannot be brought about elsewhere.
    pub fn after(&self, given: &Given) -> Option<Self> {
        if given.0.contains(&ValueKind::Doubtful) || given.0.len() > MOST_PARAMETERS {
            return None;
        }
        match self.run() {
            // What the server makes of a second one depends on the first.
            Some(run) => given.is_taken_after(run).then(|| self.clone()),
            None if given.0.iter().any(ValueKind::is_number) => Some(Self(Some(Rc::new(given.clone())))),
            None => Some(self.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(values: &[&str]) -> Given {
        let values: Vec<_> = values.iter().map(|value| UserValue::from_sql(value)).collect();
        Given::of(values.iter().map(Some))
    }

    /// True if it is known what comes of the runs.
    fn is_known(runs: &[&[&str]]) -> bool {
        let after = |types: ParameterTypes, run: &&[&str]| types.after(&given(run));
        runs.iter().try_fold(ParameterTypes::default(), after).is_some()
    }

    const TEXT: &str = "_utf8mb4 X'61' COLLATE utf8mb4_bin";
    const UNSIGNED: &str = "CAST(1 AS UNSIGNED)";

    #[test]
    fn a_number_that_may_not_be_taken_is_too_much() {
        for (runs, known) in [
            (&[&[TEXT, "NULL"][..], &["NULL", TEXT]][..], true),
            (&[&["1"], &["2"], &[TEXT], &["NULL"], &["3"]], true),
            (&[&[TEXT], &["1"]], true),
            (&[&["1"], &[UNSIGNED]], false),
            (&[&["1"], &["1.5"]], false),
            (&[&["1.5"], &["1"], &[UNSIGNED], &["1.5"]], true),
            (&[&["1e0"], &["1.5"], &["1"], &[UNSIGNED], &["1e5"]], true),
            (&[&["1.5"], &["1e0"]], false),
            // What NULL and a string were taken for when the statement was prepared again for the other is not known.
            (&[&["1", "NULL"], &["1", "1"]], false),
            (&[&["1", TEXT], &[TEXT, TEXT], &["1", "NULL"]], true),
            (&[&["1", TEXT], &["1", "1"]], false),
            (&[&["1"; MOST_PARAMETERS]], true),
            (&[&["1"; MOST_PARAMETERS + 1]], false),
        ] {
            assert_eq!(is_known(runs), known, "{runs:?}");
        }
    }

    #[test]
    fn a_string_that_is_no_small_number_may_change_a_type() {
        for (digits, is_known) in [
            ("31", true),
            ("6162", true),
            ("", true),
            ("31206120", true),
            ("2D31", false),
            ("312E35", false),
            ("323032342D30312D3032", true),
            ("39393939393939393939393939393939393939", false),
        ] {
            let text = format!("_utf8mb4 X'{digits}' COLLATE utf8mb4_bin");
            assert_eq!(self::is_known(&[&[&text]]), is_known, "{digits}");
        }
        assert!(is_known(&[&["_utf16 X'0031' COLLATE utf16_bin"]]));
        assert!(!is_known(&[&["_utf16 X'002D0031' COLLATE utf16_bin"]]));
    }

    #[test]
    fn one_run_with_the_same_brings_it_about() {
        let none = ParameterTypes::default();
        let one = none.after(&given(&["1", "NULL"])).expect("it is known");
        assert!(one.come_of(&given(&["2", "NULL"])));
        assert!(!one.come_of(&given(&["2", TEXT])));
        assert!(!none.after(&given(&["1", TEXT])).expect("it is known").come_of(&given(&["1", TEXT])));
    }

    #[test]
    fn examples_have_the_types() {
        let all = [
            "-7",
            "CAST(7 AS UNSIGNED)",
            "1.5",
            "1e5",
            "NULL",
            "CAST(NULL AS SIGNED)",
            TEXT,
            "_binary X'61'",
        ];
        assert_eq!(
            given(&all).examples().collect::<Vec<_>>(),
            [
                "0",
                "CAST(0 AS UNSIGNED)",
                "0.0",
                "0e0",
                "NULL",
                "CAST(NULL AS SIGNED)",
                "CONVERT('0' USING utf8mb4) COLLATE utf8mb4_bin",
                "CONVERT('0' USING binary)"
            ]
        );
    }
}
