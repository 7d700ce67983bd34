//! What is noted about a statement before it is sent, because its answer may come to the client in parts, or never: whose rights and which
//! code it may change, and the texts that it runs by EXECUTE.

use std::rc::Rc;

use delphinus_clients::Users;
use delphinus_pool::Keys;
use delphinus_sql::CodeChange;
use delphinus_view::StoredCode;

use super::rights::MayChange;
use super::texts::TextExecuted;

/// What is noted about the command that runs.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// It may change rights.
    pub(super) rights: Option<MayChange>,
    /// What it may change of the code in the database.
    pub(super) code: Option<Box<CodeChange>>,
    /// The texts that it runs by EXECUTE, once they were looked for.
    pub(super) executed: Option<Rc<Vec<TextExecuted>>>,
}

impl Noted {
    /// True if there is nothing to be looked after.
    pub(crate) fn is_empty(&self) -> bool {
        self.rights.is_none() && self.code.is_none() && self.executed.is_none()
    }

    /// The statement is about to be sent.
    pub(crate) fn is_sent(&mut self) {
        if let Some(rights) = &mut self.rights {
            rights.is_sent = true;
        }
    }

    /// A part of the answer is about to reach the client: of a text of several statements, what is said there is done already.
    pub(crate) fn answer_begins(&self, stored_code: &StoredCode, keys: &Keys, users: &Users) {
        if let Some(rights) = self.rights {
            rights.answer_begins(keys, users);
        }
        if let Some(change) = &self.code {
            stored_code.change(change);
        }
    }

    /// The command has ended.
    pub(crate) fn end(&mut self, keys: &Keys, users: &Users) {
        self.end_rights(keys, users);
        (self.code, self.executed) = (None, None);
    }
}
