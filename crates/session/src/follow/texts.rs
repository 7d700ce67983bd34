//! The texts that a statement runs by EXECUTE, or prepares: they are facts of the session's state, not of the statement.

use std::rc::Rc;

use delphinus_sql::{
    Class, Effects, LexOptions, SqlText, Statement, Uses, classify, dynamic_expression, immediate_from,
    prepared_from,
};
use delphinus_state::text_of;

use super::noted::Noted;
use crate::state::Wanted;

/// Statements that run texts, or prepare them.
pub(crate) const RUNS_TEXTS: Effects =
    Effects::SQL_EXECUTES.union(Effects::SQL_PREPARES).union(Effects::BODY_EXECUTES);

/// A text that EXECUTE runs, how servers read it, and what it is.
#[derive(Debug)]
pub(crate) struct TextRun {
    pub text: String,
    pub lex: LexOptions,
    pub statement: Statement,
}

/// The same; `None` for one that is not known.
pub(crate) type TextExecuted = Option<TextRun>;

/// The texts that a statement runs, or prepares to run.
pub(crate) enum TextsRun {
    /// These, as far as they are not known to be looked at elsewhere.
    Known(Rc<Vec<TextExecuted>>),
    /// The one that the server makes of this expression.
    MadeBy(String),
    /// They are put together where they run: what the statement spells tells something of them.
    Spelled,
}

impl Noted {
    /// The texts that the command's EXECUTE runs: they are looked for once.
    pub(crate) fn texts_executed(
        &mut self,
        statement: &Statement,
        text: &SqlText<'_>,
        state: &Wanted,
    ) -> Rc<Vec<TextExecuted>> {
        if let Some(found) = &self.executed {
            return found.clone();
        }
        let texts = find_executed(statement, text, state).into_iter();
        let found: Rc<Vec<_>> =
            Rc::new(texts.map(|executed| executed.map(|(text, lex)| TextRun::new(text, lex))).collect());
        self.executed = Some(found.clone());
        found
    }

    /// The texts that a statement runs, or prepares to run.
    pub(crate) fn texts_run(
        &mut self,
        statement: &Statement,
        text: &SqlText<'_>,
        state: &Wanted,
    ) -> TextsRun {
        let SqlText { sql, lex, .. } = *text;
        let known = match statement.class {
            Class::Execute => self.texts_executed(statement, text, state),
            // It is looked at when it is run.
            Class::Prepare
                if prepared_from(sql, lex).is_some_and(|from| text_of(&from, &state.want).is_some()) =>
            {
                return TextsRun::Known(Rc::default());
            }
            Class::Prepare => Rc::new(vec![None]),
            _ => return TextsRun::Spelled,
        };
        let is_unknown = known.iter().any(Option::is_none);
        let expression = if is_unknown { dynamic_expression(sql, lex) } else { None };
        match expression.and_then(|expression| std::str::from_utf8(expression).ok()) {
            // What was prepared of an unknown text was looked at then.
            None => TextsRun::Known(known),
            Some(expression) if only_makes_a_text(statement) => TextsRun::MadeBy(expression.to_owned()),
            Some(_) => TextsRun::Spelled,
        }
    }
}

/// True if the expression may be computed twice: it does no more than to make a text, and that is the same each time.
fn only_makes_a_text(statement: &Statement) -> bool {
    statement.effects.without(RUNS_TEXTS.union(Effects::UNKNOWN)).is_empty()
        && !statement.uses.intersects(Uses::SEQUENCES.union(Uses::VOLATILE))
}

fn find_executed(
    statement: &Statement,
    text: &SqlText<'_>,
    state: &Wanted,
) -> Vec<Option<(String, LexOptions)>> {
    if statement.class != Class::Execute {
        return vec![None];
    }
    if let Some(from) = immediate_from(text.sql, text.lex) {
        return vec![text_of(&from, &state.want).map(|found| (found, text.lex))];
    }
    let names = &text.names().sql_prepared.run;
    if names.is_empty() {
        return vec![None];
    }
    // Any other is not there, or a routine's, which pins.
    let own = names.iter().filter(|name| state.sql.find(name).is_some());
    own.map(|name| state.sql.text(name).map(|(text, lex)| (text.to_owned(), lex))).collect()
}

impl TextRun {
    pub(crate) fn new(text: String, lex: LexOptions) -> Self {
        let statement = classify(text.as_bytes(), lex);
        Self { text, lex, statement }
    }

    /// To look for names in it.
    pub(crate) fn sql(&self) -> SqlText<'_> {
        SqlText::new(self.text.as_bytes(), self.lex)
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::Flavor;

    use super::*;

    #[test]
    fn what_does_more_than_to_make_a_text_is_not_computed_twice() {
        let lex = LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..LexOptions::default() };
        let only = |sql: &str| only_makes_a_text(&classify(sql.as_bytes(), lex));
        for sql in ["EXECUTE IMMEDIATE CONCAT('DO', ' 1')", "PREPARE s FROM CONCAT(@a, UPPER('x'))"] {
            assert!(only(sql), "{sql}");
        }
        for sql in [
            "EXECUTE IMMEDIATE CONCAT('DO ', NEXTVAL(s))",
            "EXECUTE IMMEDIATE CONCAT('DO ', NEXT VALUE FOR s)",
            "EXECUTE IMMEDIATE CONCAT('DO ', SLEEP(1))",
            "EXECUTE IMMEDIATE IF(RAND() < 0.5, 'DO 1', 'KILL 5')",
            "PREPARE s FROM CONCAT('DO ', NOW(6))",
            "EXECUTE IMMEDIATE CONCAT('DO ', @a := 1)",
            "EXECUTE IMMEDIATE CONCAT('DO ', f())",
        ] {
            assert!(!only(sql), "{sql}");
        }
    }
}
