//! The room that the session's own state takes: variables, and statements of SQL text. Where there is none, they stay on the
//! connection, and the session with them.

use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::Checkout;
use delphinus_state::{PinReason, bytes_of_user_vars, bytes_of_vars};

use crate::state::Wanted;

impl Wanted {
    /// Takes the room for what the statement `sql` has made of the state. The connection has the same state, for as long
    /// as no other session is there.
    pub(crate) fn keep_state(&mut self, checkout: &mut Checkout, sql: &[u8]) {
        let of_vars = bytes_of_vars(&self.want.vars);
        let bytes = of_vars + bytes_of_user_vars(&self.want.user_vars) + self.sql.bytes();
        let connection = checkout.connection();
        if self.kept_state.as_ref().is_none_or(|kept| kept.bytes() != bytes) {
            (self.kept_state, connection.room) = (None, None);
            self.kept_state = self.share.keep(bytes).map(Rc::new);
            if self.kept_state.is_none() {
                self.pins.add(PinReason::LargeVariables, rt::now(), sql);
                self.want.user_vars = Rc::default();
                if !self.sql.is_empty() {
                    self.sql.stay();
                    connection.sql.stay();
                    self.pins.add(PinReason::SqlPrepared, rt::now(), sql);
                }
                self.kept_state = self.share.keep(of_vars).map(Rc::new);
            }
        }
        checkout.connection().room.clone_from(&self.kept_state);
    }
}
