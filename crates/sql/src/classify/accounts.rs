//! Statements about accounts and what they may do: `CREATE USER`, `GRANT`, `SET PASSWORD`, `FLUSH PRIVILEGES` and their kin.
//!
//! Owns: whom each of them is about, as far as its text says that.

use super::{Class, Classifier, Effects, Event, Keyword, TokenKind, Watch, Why};
use crate::event::{Place, Whose};

/// Variables of the server by which all users have other rights, or cannot log in any more.
const ABOUT_RIGHTS: [&[u8]; 4] =
    [b"mandatory_roles", b"activate_all_roles_on_login", b"partial_revokes", b"default_password_lifetime"];

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    /// One that may be about anybody.
    pub(super) fn account(&mut self) -> Class {
        self.changes_rights(Whose::Anybody);
        self.whole(Class::Account, Why::Account, Effects::IMPLICIT_COMMIT)
    }

    /// `ALTER USER [IF EXISTS] name ..`. Of several names, or of something that has a comma in it, nobody has to know whose they are.
    pub(super) fn alter_user(&mut self) -> Class {
        self.refuse(Why::Account);
        self.effects |= Effects::IMPLICIT_COMMIT;
        self.cursor.bump();
        self.cursor.eat_any(&[Keyword::If, Keyword::Exists]);
        let first = self.user_here();
        let mut is_one = true;
        while !self.cursor.at_end() {
            is_one &= !self.cursor.here.is(TokenKind::Comma);
            self.skip_token();
        }
        self.changes_rights(if is_one { first } else { Whose::Anybody });
        Class::Account
    }

    /// `PASSWORD [FOR ..] = ..`: the value is not kept.
    pub(super) fn set_password(&mut self) -> bool {
        self.refuse(Why::Account);
        self.effects |= Effects::SETS_PASSWORD;
        self.emit(Event::Assignment { place: Place::Password, value: (0, 0) });
        self.cursor.bump();
        let whose = if self.cursor.eat(Keyword::For) { self.user_here() } else { Whose::Own };
        self.changes_rights(whose);
        self.rest_of(|token| token.is(TokenKind::Comma));
        true
    }

    /// `ROLE .. [TO|FOR name]` behind `SET DEFAULT`: a new login has other roles.
    pub(super) fn set_default_role(&mut self) -> Class {
        let mut ahead = *self.cursor;
        let mut whose = Whose::Own;
        while !ahead.at_end() {
            match ahead.keyword() {
                Keyword::To | Keyword::For => {
                    ahead.bump();
                    whose = user_at(&ahead);
                }
                _ if whose != Whose::Own && ahead.here.is(TokenKind::Comma) => {
                    whose = Whose::Anybody;
                    break;
                }
                _ => _ = ahead.bump(),
            }
        }
        self.changes_rights(whose);
        self.set_rest(Place::DefaultRole, Effects::SETS_ROLE)
    }

    /// A variable of the server that is set.
    pub(super) fn sets_global(&mut self, name: &[u8]) {
        if ABOUT_RIGHTS.iter().any(|one| name.eq_ignore_ascii_case(one)) {
            self.changes_rights(Whose::Anybody);
        }
    }

    /// The user that is named here.
    fn user_here(&self) -> Whose {
        user_at(&self.cursor)
    }

    pub(super) fn changes_rights(&mut self, whose: Whose) {
        self.effects |= Effects::CHANGES_RIGHTS;
        self.emit(Event::ChangesRights(whose));
    }
}

/// `CURRENT_USER`, `USER()`, or a name, which says nothing of the host.
fn user_at(cursor: &crate::cursor::Cursor<'_>) -> Whose {
    match cursor.keyword() {
        Keyword::CurrentUser => Whose::Own,
        Keyword::User if cursor.ahead.is(TokenKind::Open) => Whose::Own,
        _ if cursor.here.is_name() || cursor.here.is(TokenKind::Text) => Whose::Named(cursor.here),
        _ => Whose::Anybody,
    }
}
