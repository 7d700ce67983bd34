//! `[[user]]`: unique names and what their passwords are compared with.

use super::Check;
use super::password::{Source, Sources, read_hash};
use crate::config::{Credential, User};
use crate::mistake::Span;
use crate::parse::Rows;
use crate::schema::{UserSection, Written};

/// The longest user name of any server (MariaDB); MySQL's limit is 32.
const USER_NAME_MAX: usize = 80;

/// The longest schema name, in characters.
const SCHEMA_NAME_MAX: usize = 64;

impl Check<'_, '_> {
    pub(super) fn users(&mut self, users: &Rows<UserSection>) -> Vec<User> {
        if users.rows.is_empty() && users.complete {
            self.mistakes.push(
                &(0..0),
                "there is no [[user]], so that nobody could log in",
                "write [[user]] and below it name = \"...\" and password = \"...\"",
            );
        }
        self.refuse_twins(&users.rows, "name", |one, other| one.name == other.name, |u| u.name.clone());
        users.rows.iter().filter_map(|row| self.user(row)).collect()
    }

    fn user(&mut self, row: &Written<UserSection>) -> Option<User> {
        let written = &row.value;
        self.user_name(&written.name, row.at("name"));
        if let Some(schema) = &written.default_schema
            && (schema.is_empty() || schema.chars().count() > SCHEMA_NAME_MAX)
        {
            let what = format!("default_schema = {schema:?} cannot be the name of a schema");
            let instead = format!("write 1 to {SCHEMA_NAME_MAX} characters, or remove it");
            self.mistakes.push(row.at("default_schema"), what, instead);
        }
        let credential = self.credential(row)?;
        Some(User {
            name: written.name.clone(),
            credential,
            default_schema: written.default_schema.clone(),
            max_connections: written.max_connections,
        })
    }

    pub(super) fn user_name(&mut self, name: &str, at: &Span) {
        if name.is_empty() || name.chars().count() > USER_NAME_MAX {
            let what = format!("{name:?} cannot be the name of a user");
            self.mistakes.push(at, what, format!("write 1 to {USER_NAME_MAX} characters"));
        }
    }

    fn credential(&mut self, row: &Written<UserSection>) -> Option<Credential> {
        let written = &row.value;
        let sources = Sources {
            of: format!("user {:?}", written.name),
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: written.password_hash.as_ref(),
        };
        match self.one_source(&sources, row)? {
            Source::Hash(hash) => read_hash(hash.expose())
                .map_err(|problem| self.mistakes.push(row.at("password_hash"), problem.what, problem.instead))
                .ok(),
            plain => self.plain(&plain, row).map(Credential::Password),
        }
    }
}
