//! The types that `MySQL` gives the parameters of a statement prepared in SQL text by its runs, and whether another connection
//! can be given the same.
//!
//! Owns: that decision. One kind of runs can be repeated with other values: of a plain read, with integers for all parameters.
//! Source: what 9.7 was seen to do (docs/protocol-notes.md).

use delphinus_sql::{Class, Statement};

use crate::user_vars::UserValue;

/// What an EXECUTE gives the parameters of its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// Nothing, NULL, and strings that change no type.
    NoTypes,
    /// So many integers, of the type that those of SQL have, and nothing else.
    Integers(usize),
    /// Numbers of other types, or beside something else; what may be one; or nobody knows.
    Other,
    /// Not as many values as it has parameters: the server refuses that before it looks at any.
    WrongNumber,
}

impl Given {
    /// By the values of the variables that it names; `None` for one that was never set.
    pub fn of<'a>(values: impl Iterator<Item = Option<&'a UserValue>>) -> Self {
        let (mut all, mut integers, mut typed) = (0, 0, 0);
        for value in values {
            all += 1;
            integers += usize::from(value.is_some_and(UserValue::is_integer));
            typed += usize::from(value.is_some_and(UserValue::may_give_type));
        }
        match typed {
            0 => Self::NoTypes,
            _ if integers == all => Self::Integers(all),
            _ => Self::Other,
        }
    }
}

/// The types of a statement's parameters: those that it has in its session, and those that it has on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParameterTypes {
    /// As it was prepared.
    #[default]
    AsPrepared,
    /// Those of so many integers.
    Integers(usize),
}

/// What a run has made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterRun {
    /// Nothing.
    Same,
    /// These, in the session and on the connection.
    Typed(ParameterTypes),
    /// The same in the session; on the connection, one cannot tell.
    UnsureThere,
    /// What only this connection has.
    OnlyHere,
}

impl ParameterTypes {
    /// After a run with `given`. `moves`: with integers, it has gone as it would go on another connection.
    pub(crate) fn after(self, given: Given, is_ok: bool, moves: bool) -> AfterRun {
        match (self, given) {
            (_, Given::WrongNumber) if !is_ok => AfterRun::Same,
            (Self::AsPrepared, Given::NoTypes) => AfterRun::Same,
            (Self::AsPrepared, Given::Integers(count)) if is_ok && moves => {
                AfterRun::Typed(Self::Integers(count))
            }
            (Self::Integers(_), Given::Integers(_)) if is_ok => AfterRun::Typed(self),
            (Self::Integers(_), Given::Integers(_)) => AfterRun::UnsureThere,
            _ => AfterRun::OnlyHere,
        }
    }
}

/// True for a read that can be run for its types alone, so that nothing comes of it: with a `sql_select_limit` of 0 servers look at no
/// row of it. A LIMIT of its own would go before that, and a part with its own limit might be run.
pub(crate) fn can_run_for_types(statement: &Statement, text: &str) -> bool {
    let is_plain = statement.class == Class::Select && statement.is_repeatable() && statement.uses.is_empty();
    let words = || text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_ascii_lowercase);
    let has_parts = words().filter(|word| word == "select").count() != 1;
    // A hint may set the limit for it.
    is_plain && !has_parts && !text.contains("/*") && !words().any(|word| PARTS.contains(&word.as_str()))
}

/// Words of what has a limit of its own, or is no part of the one SELECT; be they in a comment.
const PARTS: [&str; 5] = ["limit", "table", "values", "with", "procedure"];

#[cfg(test)]
mod tests {
    use delphinus_sql::{Flavor, LexOptions, classify};

    use super::*;

    #[test]
    fn what_is_given_is_told_by_all_values() {
        let of = |values: &[&str]| {
            let values: Vec<_> = values.iter().map(|sql| UserValue::from_sql(sql)).collect();
            Given::of(values.iter().map(Some))
        };
        let word = "_utf8mb4 X'6162' COLLATE utf8mb4_bin";
        let digits = "_utf8mb4 X'31' COLLATE utf8mb4_bin";
        let signed = "_utf8mb4 X'2D31' COLLATE utf8mb4_bin";
        for (values, given) in [
            (&[][..], Given::NoTypes),
            (&["NULL"], Given::NoTypes),
            (&["CAST(NULL AS SIGNED)", word, digits], Given::NoTypes),
            (&["0"], Given::Integers(1)),
            (&["-9223372036854775808", "9223372036854775807"], Given::Integers(2)),
            (&["1", "NULL"], Given::Other),
            (&["1", "CAST(NULL AS SIGNED)"], Given::Other),
            (&["1", word], Given::Other),
            (&["1", digits], Given::Other),
            (&["1", "1.0"], Given::Other),
            (&["1", "1e0"], Given::Other),
            (&["1", "CAST(1 AS UNSIGNED)"], Given::Other),
            (&["CAST(1 AS UNSIGNED)"], Given::Other),
            (&["CAST(1 AS DECIMAL(65,0))"], Given::Other),
            (&[signed], Given::Other),
        ] {
            assert_eq!(of(values), given, "{values:?}");
        }
        assert_eq!(Given::of([None].into_iter()), Given::NoTypes);
        assert_eq!(Given::of([Some(&UserValue::from_sql("1")), None].into_iter()), Given::Other);
    }

    #[test]
    fn only_runs_with_integers_alone_can_be_repeated() {
        use AfterRun::{OnlyHere, Same, Typed, UnsureThere};
        use Given::{Integers, NoTypes, Other, WrongNumber};
        let (prepared, integers) = (ParameterTypes::AsPrepared, ParameterTypes::Integers(2));
        for (types, given, is_ok, moves, after) in [
            (prepared, NoTypes, true, true, Same),
            (prepared, NoTypes, false, false, Same),
            (prepared, Integers(2), true, true, Typed(integers)),
            (prepared, Integers(2), true, false, OnlyHere),
            (prepared, Integers(2), false, true, OnlyHere),
            (prepared, Other, true, true, OnlyHere),
            (integers, Integers(2), true, true, Typed(integers)),
            (integers, Integers(2), true, false, Typed(integers)),
            (integers, Integers(2), false, true, UnsureThere),
            (integers, NoTypes, true, true, OnlyHere),
            (integers, NoTypes, false, true, OnlyHere),
            (integers, Other, true, true, OnlyHere),
            (prepared, WrongNumber, false, true, Same),
            (integers, WrongNumber, false, false, Same),
            (integers, WrongNumber, true, true, OnlyHere),
        ] {
            assert_eq!(types.after(given, is_ok, moves), after, "{types:?} {given:?} {is_ok} {moves}");
        }
    }

    #[test]
    fn one_plain_select_can_be_run_for_its_types() {
        for (text, can) in [
            ("SELECT ? + ?", true),
            ("SELECT a, COUNT(*) FROM t JOIN u USING (b) WHERE c = ? GROUP BY a HAVING ? ORDER BY a", true),
            ("SELECT selected, my_limit FROM t WHERE a = ?", true),
            ("SELECT a FROM t WHERE b = ? LIMIT 1", false),
            ("SELECT a FROM t WHERE b = ? limit ?", false),
            ("SELECT a FROM t WHERE b IN (SELECT ?)", false),
            ("SELECT a FROM t WHERE b IN (TABLE u) AND a = ?", false),
            ("SELECT ? UNION SELECT ?", false),
            ("SELECT ? UNION VALUES ROW(1)", false),
            ("WITH c AS (SELECT ?) SELECT * FROM c", false),
            ("VALUES ROW(?)", false),
            ("SELECT a FROM t WHERE b = ? FOR UPDATE", false),
            ("SELECT a FROM t WHERE b = ? FOR SHARE", false),
            ("SELECT a FROM t WHERE b = ? LOCK IN SHARE MODE", false),
            ("SELECT SQL_CALC_FOUND_ROWS a FROM t WHERE b = ?", false),
            ("SELECT a FROM t WHERE b = ? AND c < NOW()", false),
            ("SELECT SLEEP(?)", false),
            ("SELECT RAND(?)", false),
            ("SELECT f(?)", false),
            ("SELECT GET_LOCK('a', ?)", false),
            ("SELECT LAST_INSERT_ID(?)", false),
            ("SELECT ? INTO @a", false),
            ("SELECT @a := ?", false),
            ("SELECT /*+ SET_VAR(sql_select_limit = 5) */ ?", false),
            ("INSERT INTO t VALUES (?)", false),
            ("UPDATE t SET a = ?", false),
            ("DO ?", false),
        ] {
            let lex = LexOptions { flavor: Flavor::MySql, ..LexOptions::default() };
            assert_eq!(can_run_for_types(&classify(text.as_bytes(), lex), text), can, "{text}");
        }
    }
}
