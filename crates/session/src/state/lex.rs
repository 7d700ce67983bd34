//! How a session's texts are read: by the flavor of its servers, and by some of its variables.

use std::rc::Rc;

use delphinus_sql::{Flavor, LexOptions};
use delphinus_state::{Vars, isolation_is, lex_with};

/// How this session's texts are read; follows its variables.
#[derive(Debug)]
pub(crate) struct Lex {
    options: LexOptions,
    /// `sql_select_limit` is set.
    limits_rows: bool,
    /// It reads what others have not committed.
    reads_uncommitted: bool,
    made_from: Rc<Vars>,
}

impl Lex {
    pub(crate) fn new(flavor: Flavor, server_version: u32, vars: &Rc<Vars>) -> Self {
        let options = LexOptions { flavor, server_version, ..LexOptions::default() };
        let mut lex = Self { options, limits_rows: false, reads_uncommitted: false, made_from: vars.clone() };
        lex.read(vars);
        lex
    }

    /// The options for a session with these variables.
    #[inline]
    pub(crate) fn options(&mut self, vars: &Rc<Vars>) -> LexOptions {
        if !Rc::ptr_eq(vars, &self.made_from) {
            self.read(vars);
            self.made_from = vars.clone();
        }
        self.options
    }

    /// The options for a text that was read when the session had these variables.
    pub(crate) fn options_with(&self, vars: &Rc<Vars>) -> LexOptions {
        if Rc::ptr_eq(vars, &self.made_from) {
            return self.options;
        }
        lex_with(self.options, vars)
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
        self.options = lex_with(self.options, vars);
    }
}
