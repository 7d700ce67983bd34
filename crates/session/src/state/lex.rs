//! How a session's texts are read: by the flavor of its servers, by the `sql_mode` that it began with, and by some of its variables.

use std::rc::Rc;

use delphinus_pool::FirstMode;
use delphinus_sql::{Flavor, LexOptions};
use delphinus_state::{Vars, isolation_is, lex_in_mode, lex_with};

/// How this session's texts are read; follows its variables.
#[derive(Debug)]
pub(crate) struct Lex {
    /// Those of a session that has set nothing.
    base: LexOptions,
    options: LexOptions,
    /// `sql_select_limit` is set.
    limits_rows: bool,
    /// It reads what others have not committed.
    reads_uncommitted: bool,
    made_from: Rc<Vars>,
}

impl Lex {
    pub(crate) fn new(flavor: Flavor, server_version: u32, vars: &Rc<Vars>) -> Self {
        let base = LexOptions { flavor, server_version, ..LexOptions::default() };
        let made_from = vars.clone();
        let mut lex = Self { base, options: base, limits_rows: false, reads_uncommitted: false, made_from };
        lex.read(vars);
        lex
    }

    /// The session begins, or begins again, where this is the `sql_mode` of those that set none.
    pub(crate) fn begins_in(&mut self, first: Option<&FirstMode>, vars: &Rc<Vars>) {
        self.base = lex_in_mode(self.base, first.map(FirstMode::mode).unwrap_or_default());
        self.read(vars);
        self.made_from = vars.clone();
    }

    /// The options for a session with these variables, which are those of now.
    #[inline]
    pub(super) fn options(&mut self, vars: &Rc<Vars>) -> LexOptions {
        if !Rc::ptr_eq(vars, &self.made_from) {
            self.read(vars);
            self.made_from = vars.clone();
        }
        self.options
    }

    /// The options for a text that was read when the session had these variables.
    #[inline]
    pub(super) fn options_with(&self, vars: &Rc<Vars>) -> LexOptions {
        if Rc::ptr_eq(vars, &self.made_from) { self.options } else { self.options_of(vars) }
    }

    /// The same, wherever the variables are from.
    pub(crate) fn options_of(&self, vars: &Vars) -> LexOptions {
        lex_with(self.base, vars)
    }

    /// The family of the servers.
    #[inline]
    pub(crate) fn flavor(&self) -> Flavor {
        self.options.flavor
    }

    /// True if `sql_select_limit` cuts results short.
    #[inline]
    pub(crate) fn limits_rows(&mut self, vars: &Rc<Vars>) -> bool {
        self.options(vars);
        self.limits_rows
    }

    /// True if the session reads what others have not committed, and may never commit.
    #[inline]
    pub(crate) fn reads_uncommitted(&mut self, vars: &Rc<Vars>) -> bool {
        self.options(vars);
        self.reads_uncommitted
    }

    /// The options of the last text.
    pub(crate) fn as_read(&self) -> LexOptions {
        self.options
    }

    fn read(&mut self, vars: &Vars) {
        self.limits_rows = vars.contains_key("sql_select_limit");
        self.reads_uncommitted = isolation_is(vars, &["READ-UNCOMMITTED"]);
        self.options = self.options_of(vars);
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::Quotes;

    use super::*;

    #[test]
    fn what_was_prepared_is_read_as_it_was_then() {
        let vars = |mode: &str| Rc::new(Vars::from([("sql_mode".into(), mode.as_bytes().into())]));
        let (then, now) = (vars("ANSI_QUOTES"), vars(""));
        let mut lex = Lex::new(Flavor::MySql, 80_036, &then);
        lex.options(&now);
        assert_eq!(lex.options_with(&then).ansi_quotes, Quotes::Ansi);
        assert_eq!(lex.as_read().ansi_quotes, Quotes::Standard, "the last text is another one");
    }
}
