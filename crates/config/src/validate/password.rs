//! Where a password comes from, and the two forms of stored hashes. Nothing here puts a secret into
//! the text of a mistake.

use std::path::Path;

use super::Check;
use crate::config::Credential;
use crate::schema::Written;
use crate::secret::Secret;

/// What `$A$005$`, 20 bytes of salt and 43 of digest add up to.
const CACHING_SHA2_LEN: usize = 7 + 20 + 43;

/// The password options of one section.
pub(super) struct Sources<'a> {
    /// Whose password it is, for mistakes.
    pub(super) of: String,
    /// What stands before the name of each option.
    pub(super) prefix: &'static str,
    pub(super) password: Option<&'a Secret>,
    pub(super) password_env: Option<&'a str>,
    pub(super) password_file: Option<&'a Path>,
    pub(super) password_hash: Option<&'a Secret>,
}

impl Sources<'_> {
    pub(super) fn is_empty(&self) -> bool {
        let Self { password, password_env, password_file, password_hash, .. } = self;
        password.is_none() && password_env.is_none() && password_file.is_none() && password_hash.is_none()
    }
}

/// The one that is written.
pub(super) enum Source<'a> {
    Text(&'a Secret),
    Variable(&'a str),
    File(&'a Path),
    Hash(&'a Secret),
}

impl Source<'_> {
    fn option(&self) -> &'static str {
        match self {
            Self::Text(_) => "password",
            Self::Variable(_) => "password_env",
            Self::File(_) => "password_file",
            Self::Hash(_) => "password_hash",
        }
    }
}

impl Check<'_, '_> {
    /// The one source that is written; complains about none and about more.
    pub(super) fn one_source<'a, S>(
        &mut self,
        sources: &Sources<'a>,
        row: &Written<S>,
    ) -> Option<Source<'a>> {
        let mut written = [
            sources.password.map(Source::Text),
            sources.password_env.map(Source::Variable),
            sources.password_file.map(Source::File),
            sources.password_hash.map(Source::Hash),
        ]
        .into_iter()
        .flatten();
        let Some(first) = written.next() else {
            // A wrong value has left its place; the complaint about that is enough.
            self.no_source(&sources.of, row);
            return None;
        };
        for second in written {
            let [one, two] = [&first, &second].map(|source| format!("{}{}", sources.prefix, source.option()));
            let what = format!("{} has both {one} and {two}", sources.of);
            self.mistakes.push(row.at(&two), what, "keep one of them");
        }
        Some(first)
    }

    /// What a hash says; `None`, with a mistake, if it is none.
    pub(super) fn hash<S>(
        &mut self,
        hash: &Secret,
        option: &'static str,
        row: &Written<S>,
    ) -> Option<Credential> {
        read_hash(hash.expose(), option)
            .map_err(|problem| self.mistakes.push(row.at(option), problem.what, problem.instead))
            .ok()
    }

    /// What somebody shows who logs in to one of the proxy's own doors: a password or its hash, never an empty one.
    pub(super) fn own_credential<S>(
        &mut self,
        sources: &Sources<'_>,
        row: &Written<S>,
    ) -> Option<Credential> {
        let credential = match self.one_source(sources, row)? {
            Source::Hash(hash) => self.hash(hash, "password_hash", row)?,
            plain => Credential::Password(self.plain(&plain, "", row)?),
        };
        if matches!(&credential, Credential::Password(password) if password.expose().is_empty()) {
            let what = format!("{} has an empty password", sources.of);
            self.mistakes.push(row.at("password"), what, "write a password");
            return None;
        }
        Some(credential)
    }

    fn no_source<S>(&mut self, of: &str, row: &Written<S>) {
        let options = ["password", "password_env", "password_file", "password_hash"];
        if options.iter().any(|option| row.has(option)) {
            return;
        }
        self.mistakes.push(
            row.at(""),
            format!("{of} has no password"),
            "write password_file, password_env or password (\"\" for a user without a password)",
        );
    }

    /// The password of a source that is not a hash.
    pub(super) fn plain<S>(&mut self, source: &Source<'_>, prefix: &str, row: &Written<S>) -> Option<Secret> {
        let read = match source {
            Source::Text(secret) | Source::Hash(secret) => return Some((*secret).clone()),
            Source::Variable(name) => self.variable(name),
            Source::File(path) => self.password_file(path),
        };
        let option = format!("{prefix}{}", source.option());
        read.map_err(|problem| self.mistakes.push(row.at(&option), problem.what, problem.instead)).ok()
    }

    pub(super) fn variable(&self, name: &str) -> Result<Secret, Problem> {
        match self.environment.variable(name) {
            Some(value) if !value.is_empty() => Ok(Secret::new(value)),
            Some(_) => Err(Problem {
                what: format!("environment variable {name} is empty"),
                instead: "set it to the password, or write password = \"\" for a user without one",
            }),
            None => Err(Problem {
                what: format!("environment variable {name} is not set"),
                instead: "set it for the process, or write the name of one that is set",
            }),
        }
    }

    fn password_file(&self, path: &Path) -> Result<Secret, Problem> {
        self.line_of_file(path).map_err(|problem| Problem {
            what: format!("password_file {problem}"),
            instead: "write the path of a file that holds the password and nothing else",
        })
    }

    /// The one line of a file; an error begins with its path.
    pub(super) fn line_of_file(&self, path: &Path) -> Result<Secret, String> {
        let path = self.resolve(path);
        let problem = match self.environment.read_file(&path).map(Secret::new) {
            Ok(text) => match without_line_end(text.expose()) {
                "" => "is empty".to_owned(),
                line if line.contains(['\n', '\0']) => "holds more than one line".to_owned(),
                line => return Ok(Secret::new(line)),
            },
            Err(error) => format!("cannot be read: {error}"),
        };
        Err(format!("{} {problem}", path.display()))
    }
}

/// The text without the one line end that editors add.
fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Why a secret cannot be had, without the secret.
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) instead: &'static str,
}

/// Reads a stored hash; the complaint does not contain it.
fn read_hash(text: &str, option: &str) -> Result<Credential, Problem> {
    if let Some(hex) = text.strip_prefix('*') {
        let bytes = unhex(hex).and_then(|bytes| <[u8; 20]>::try_from(bytes).ok());
        return bytes.map(Credential::NativeHash).ok_or_else(|| Problem {
            what: format!("{option} has {} characters after the *, not 40 hex digits", hex.chars().count()),
            instead: "write \"*\" and 40 hex digits, as mysql.user has it",
        });
    }
    let stored = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => {
            Secret::new(unhex(hex).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default())
        }
        None => Secret::new(text),
    };
    if is_caching_sha2(stored.expose()) {
        return Ok(Credential::CachingSha2Hash(stored));
    }
    Err(Problem {
        what: format!("{option} is not a hash of mysql_native_password or caching_sha2_password"),
        instead: "write \"*\" and 40 hex digits, or \"$A$005$...\" (70 characters), or the latter in hex after \"0x\"",
    })
}

/// `$A$`, three hex digits of rounds, `$`, salt, digest.
fn is_caching_sha2(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some(rest) = bytes.strip_prefix(b"$A$") else { return false };
    let digest = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/');
    bytes.len() == CACHING_SHA2_LEN
        && rest[..3].iter().all(u8::is_ascii_hexdigit)
        && rest[..3] != *b"000"
        && rest[3] == b'$'
        && bytes[CACHING_SHA2_LEN - 43..].iter().all(digest)
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}
