//! What makes two questions the same: everything that an answer depends on beside what is stored in tables. Whole
//! values, never hashes of them: an answer to another question would be a wrong one.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use delphinus_topology::ClusterId;

/// A question. Copies share their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key(Arc<[u8]>);

/// A question is looked for by its bytes, without a key of its own.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Key {
    /// The question that [`Key::write`] has written.
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

/// Who asks: what is the same for all questions of a session until it logs in anew.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The cluster that answers.
    pub cluster: ClusterId,
    /// The user, on whose rights the answer depends.
    pub user: &'a str,
    /// The epoch of its rights: what was answered before they changed is the answer to another question.
    pub rights: u64,
    /// What the backend is told of the client beside that: its address, its attributes.
    pub told: &'a [u8],
    /// What client and proxy have agreed on: it shapes packets.
    pub capabilities: u64,
}

/// The settings of a session.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The current schema.
    pub schema: Option<&'a str>,
    /// All session variables that are not as the server has them by default.
    pub vars: &'a BTreeMap<Box<str>, Box<[u8]>>,
}

impl Settings<'_> {
    /// As a rule they are the very same: a session prepares in the settings in which it executes.
    fn is_same(&self, other: &Self) -> bool {
        self.schema == other.schema && (std::ptr::eq(self.vars, other.vars) || self.vars == other.vars)
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub enum Command<'a> {
    /// COM_QUERY with this text, hints included.
    Query(&'a [u8]),
    /// COM_STMT_EXECUTE.
    Execute {
        /// The text that was prepared.
        text: &'a [u8],
        /// The settings at that time, which the meaning of the text depends on.
        prepared_in: Settings<'a>,
        /// The types of all parameters.
        types: &'a [u8],
        /// Which of them are NULL.
        nulls: &'a [u8],
        /// The values.
        values: &'a [u8],
    },
}

impl Key {
    /// The key of a question. `place`: where the answer is wanted from, in the caller's own words.
    pub fn new(asker: &Asker<'_>, settings: &Settings<'_>, place: &[u8], command: Command<'_>) -> Self {
        let mut bytes = Vec::with_capacity(512);
        Self::write(&mut bytes, asker, settings, place, command);
        Self(bytes.into())
    }

    /// Writes a question into `bytes`, in the place of what is there: the same as [`Key::new`], and nothing is allocated.
    pub fn write(
        bytes: &mut Vec<u8>,
        asker: &Asker<'_>,
        settings: &Settings<'_>,
        place: &[u8],
        command: Command<'_>,
    ) {
        bytes.clear();
        bytes.extend_from_slice(&asker.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&asker.capabilities.to_le_bytes());
        bytes.extend_from_slice(&asker.rights.to_le_bytes());
        put(bytes, asker.user.as_bytes());
        put(bytes, asker.told);
        put_settings(bytes, settings);
        put(bytes, place);
        match command {
            Command::Query(text) => {
                bytes.push(0);
                put(bytes, text);
            }
            Command::Execute { text, prepared_in, types, nulls, values } => {
                bytes.push(1);
                put(bytes, text);
                if prepared_in.is_same(settings) {
                    bytes.push(0);
                } else {
                    bytes.push(1);
                    put_settings(bytes, &prepared_in);
                }
                put(bytes, types);
                put(bytes, nulls);
                put(bytes, values);
            }
        }
    }

    /// How long it is, in bytes.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// With its length before it, so that nothing of one part can be taken for the next.
fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
    bytes.extend_from_slice(part);
}

fn put_settings(bytes: &mut Vec<u8>, settings: &Settings<'_>) {
    // A schema without a name does not exist.
    put(bytes, settings.schema.unwrap_or_default().as_bytes());
    bytes.extend_from_slice(&(settings.vars.len() as u64).to_le_bytes());
    for (name, value) in settings.vars {
        // Names are short.
        let lengths = (name.len() as u64) << 48 | value.len() as u64;
        bytes.extend_from_slice(&lengths.to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn vars(list: &[(&str, &str)]) -> BTreeMap<Box<str>, Box<[u8]>> {
        list.iter().map(|(name, value)| ((*name).into(), value.as_bytes().into())).collect()
    }

    #[test]
    fn whatever_differs_makes_another_key() {
        let none = vars(&[]);
        let utc = vars(&[("time_zone", "+00:00")]);
        let ansi = vars(&[("sql_mode", "ANSI_QUOTES")]);
        let asker = Asker { cluster: ClusterId(0), user: "app", rights: 1, told: b"", capabilities: 1 };
        let usual = Settings { schema: Some("a"), vars: &none };
        let query = Command::Query(b"SELECT 1");
        let execute = |text, prepared_in, types, nulls, values| Command::Execute {
            text,
            prepared_in,
            types,
            nulls,
            values,
        };
        let keys = [
            Key::new(&asker, &usual, b"", query),
            Key::new(&Asker { cluster: ClusterId(1), ..asker }, &usual, b"", query),
            Key::new(&Asker { user: "ap", ..asker }, &usual, b"", query),
            Key::new(&Asker { rights: 2, ..asker }, &usual, b"", query),
            Key::new(&Asker { user: "ap", told: b"p", ..asker }, &usual, b"", query),
            Key::new(&Asker { capabilities: 3, ..asker }, &usual, b"", query),
            Key::new(&asker, &Settings { schema: None, ..usual }, b"", query),
            Key::new(&asker, &Settings { schema: Some("b"), ..usual }, b"", query),
            Key::new(&asker, &Settings { vars: &utc, ..usual }, b"", query),
            Key::new(&asker, &Settings { vars: &ansi, ..usual }, b"", query),
            Key::new(&asker, &usual, b"primary", query),
            Key::new(&asker, &usual, b"", Command::Query(b"SELECT 2")),
            Key::new(&asker, &usual, b"", Command::Query(b"SELECT  1")),
            Key::new(&asker, &usual, b"", execute(b"SELECT 1", usual, b"", b"", b"")),
            Key::new(&asker, &usual, b"", execute(b"SELECT ?", usual, b"", b"", b"")),
            Key::new(&asker, &usual, b"", execute(b"SELECT ?", usual, b"\x03\x00", b"\x00", b"1")),
            Key::new(&asker, &usual, b"", execute(b"SELECT ?", usual, b"\xfd\x00", b"\x00", b"1")),
            Key::new(&asker, &usual, b"", execute(b"SELECT ?", usual, b"\x03\x00", b"\x01", b"")),
            Key::new(
                &asker,
                &usual,
                b"",
                execute(b"SELECT ?", Settings { vars: &ansi, ..usual }, b"", b"", b""),
            ),
        ];
        let different: HashSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        assert_eq!(keys[0], Key::new(&asker, &usual, b"", query));
        let equal = vars(&[]);
        let elsewhere = Settings { vars: &equal, ..usual };
        let of_equal = Key::new(&asker, &usual, b"", execute(b"SELECT 1", elsewhere, b"", b"", b""));
        assert_eq!(keys[13], of_equal, "equal settings are one question, wherever they are");
        let mut written = vec![1, 2, 3];
        Key::write(&mut written, &asker, &usual, b"", query);
        assert_eq!(Key::from(&written[..]), keys[0]);
        let by_bytes = HashSet::from([keys[0].clone()]);
        assert!(by_bytes.contains(&written[..]), "it is found by its bytes");
    }
}
