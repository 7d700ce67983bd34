//! `[[user]]`: unique names and what their passwords are compared with.

use super::Check;
use super::choice::Names;
use super::password::{Source, Sources};
use crate::config::{Credential, User};
use crate::mistake::Span;
use crate::parse::Rows;
use crate::schema::{UserSection, Written};
use crate::word::UserPlugin;

/// The longest user name of any server (MariaDB); MySQL's limit is 32.
const USER_NAME_MAX: usize = 80;

/// The longest schema name, in characters.
const SCHEMA_NAME_MAX: usize = 64;

impl Check<'_, '_> {
    pub(super) fn users(
        &mut self,
        users: &Rows<UserSection>,
        names: &Names,
        asks_backend: bool,
    ) -> Vec<User> {
        if users.rows.is_empty() && users.complete && !asks_backend {
            self.mistakes.push(
                &(0..0),
                "no [[user]] is set, so no client could log in",
                "write [[user]] and below it name = \"...\" and password = \"...\"",
            );
        }
        self.refuse_same_names(&users.rows, |user| Some(&user.name));
        users.rows.iter().filter_map(|row| self.user(row, names)).collect()
    }

    fn user(&mut self, row: &Written<UserSection>, names: &Names) -> Option<User> {
        let written = &row.value;
        let cluster = self.cluster_named(written.cluster.as_deref(), row.at("cluster"), names);
        self.user_name(&written.name, row.at("name"));
        if let Some(schema) = &written.default_schema
            && (schema.is_empty() || schema.chars().count() > SCHEMA_NAME_MAX)
        {
            let what = format!("default_schema = {schema:?} cannot be the name of a schema");
            let instead = format!("write 1 to {SCHEMA_NAME_MAX} characters, or remove it");
            self.mistakes.push(row.at("default_schema"), what, instead);
        }
        let secondary = self.secondary(row);
        let credential = self.credential(row)?;
        self.pair(row, &credential, secondary.as_ref());
        self.plugin(row, &credential);
        self.kept_open(row, &credential);
        Some(User {
            name: written.name.clone(),
            credential,
            secondary,
            plugin: written.authentication_plugin,
            allow: written.allow.clone(),
            deny: written.deny.clone(),
            default_schema: written.default_schema.clone(),
            cluster,
            max_connections: written.max_connections,
            consistency: written.consistency,
            explain_route: written.explain_route,
            connection_admin: written.connection_admin,
            max_backend_connections: written.max_backend_connections,
            min_backend_connections: written.min_backend_connections,
            multiplex: written.multiplex,
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
            prefix: "",
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: written.password_hash.as_ref(),
        };
        if written.auth.is_some() {
            self.refuse_password_beside_backend(row);
            return Some(Credential::Backend);
        }
        if row.has("auth") {
            // It is wrong; the complaint about that is enough.
            return None;
        }
        match self.one_source(&sources, row)? {
            Source::Hash(hash) => self.hash(hash, "password_hash", row),
            plain => self.plain(&plain, "", row).map(Credential::Password),
        }
    }

    fn refuse_password_beside_backend(&mut self, row: &Written<UserSection>) {
        let options = ["", "secondary_"].map(|prefix| {
            ["password", "password_env", "password_file", "password_hash"]
                .map(|name| format!("{prefix}{name}"))
        });
        for option in options.iter().flatten().filter(|option| row.has(option)) {
            let what = format!("user {:?} has both {option} and auth = \"backend\"", row.value.name);
            self.mistakes.push(row.at(option), what, "keep one of them");
        }
    }

    /// The second password, if there is one.
    fn secondary(&mut self, row: &Written<UserSection>) -> Option<Credential> {
        let written = &row.value;
        let sources = Sources {
            of: format!("user {:?}", written.name),
            prefix: "secondary_",
            password: written.secondary_password.as_ref(),
            password_env: written.secondary_password_env.as_deref(),
            password_file: written.secondary_password_file.as_deref(),
            password_hash: written.secondary_password_hash.as_ref(),
        };
        if sources.is_empty() {
            return None;
        }
        match self.one_source(&sources, row)? {
            Source::Hash(hash) => self.hash(hash, "secondary_password_hash", row),
            plain => self.plain(&plain, "secondary_", row).map(Credential::Password),
        }
    }

    /// A client answers for one plugin before anybody knows which of the two passwords it has.
    fn pair(&mut self, row: &Written<UserSection>, primary: &Credential, secondary: Option<&Credential>) {
        let Some(secondary) = secondary else { return };
        if std::mem::discriminant(primary) != std::mem::discriminant(secondary)
            && *primary != Credential::Backend
        {
            let what = format!("the two passwords of user {:?} are not of the same kind", row.value.name);
            let instead = "write both as passwords, or both as hashes of the same plugin";
            self.mistakes.push(row.at(""), what, instead);
        }
    }

    fn plugin(&mut self, row: &Written<UserSection>, credential: &Credential) {
        let Some(plugin) = row.value.authentication_plugin else { return };
        let fits = match credential {
            Credential::Password(_) => true,
            Credential::NativeHash(_) => plugin == UserPlugin::MysqlNativePassword,
            Credential::CachingSha2Hash(_) | Credential::Backend => plugin == UserPlugin::CachingSha2Password,
        };
        if !fits {
            let what = format!(
                "authentication_plugin = \"{plugin}\" does not work with the password option of user {:?}",
                row.value.name
            );
            let instead = "remove it, or write the password itself (password_file, password_env or password)";
            self.mistakes.push(row.at("authentication_plugin"), what, instead);
        }
    }

    /// Connections that are opened before anybody has logged in.
    fn kept_open(&mut self, row: &Written<UserSection>, credential: &Credential) {
        let written = &row.value;
        let least = written.min_backend_connections;
        if least > 0 && !matches!(credential, Credential::Password(_)) {
            let what = format!("min_backend_connections without the password of user {:?}", written.name);
            let instead = "write the password itself (password_file, password_env or password), or remove it";
            self.mistakes.push(row.at("min_backend_connections"), what, instead);
        }
        if let Some(most) = written.max_backend_connections.filter(|most| *most < least) {
            let what = format!("min_backend_connections = {least} is above max_backend_connections = {most}");
            self.mistakes.push(row.at("min_backend_connections"), what, format!("write at most {most}"));
        }
    }
}
