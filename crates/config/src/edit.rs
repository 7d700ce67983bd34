//! Changes of one option or one row in the text of a configuration: everything else of it stays byte for byte, comments and order too.
//! What comes of it is read like any other file.

use std::fmt;

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value, value};

use crate::reference::options;

/// A list of the file whose rows have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// `[[cluster.backend]]`.
    Backend,
    /// `[[user]]`.
    User,
    /// `[[rule]]`.
    Rule,
    /// `[[filter]]`.
    Filter,
    /// `[[limit]]`.
    Limit,
    /// `[[listener]]`.
    Listener,
}

impl Rows {
    /// All lists.
    pub const ALL: [Self; 6] =
        [Self::Backend, Self::User, Self::Rule, Self::Filter, Self::Limit, Self::Listener];

    /// The word for one row.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::User => "user",
            Self::Rule => "rule",
            Self::Filter => "filter",
            Self::Limit => "limit",
            Self::Listener => "listener",
        }
    }

    fn path(self) -> &'static str {
        if self == Self::Backend { "cluster.backend" } else { self.as_str() }
    }
}

/// A value as an operator writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Without its quotes.
    pub text: String,
    /// It was in quotes, so that it is a text whatever it looks like.
    pub is_quoted: bool,
}

/// An option and what it is to be; `None`: what it is where nothing is written.
pub type Assigned = (String, Option<Given>);

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// An option of a section that is there once: its path, such as `routing.read_balance`.
    Set(Assigned),
    /// One more row.
    Add {
        /// Of which list.
        rows: Rows,
        /// Its name.
        name: String,
        /// Where there are several clusters: of which one, if it is a backend.
        cluster: Option<String>,
        /// Its options.
        options: Vec<Assigned>,
    },
    /// Other options of a row.
    Alter {
        /// Of which list.
        rows: Rows,
        /// Its name.
        name: String,
        /// Those that change.
        options: Vec<Assigned>,
    },
    /// One row less.
    Remove {
        /// Of which list.
        rows: Rows,
        /// Its name.
        name: String,
    },
}

/// What a secret looks like where an edit is told.
const HIDDEN: &str = "(hidden)";

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_quoted { write!(f, "{:?}", self.text) } else { f.write_str(&self.text) }
    }
}

/// As an operator would write it, without secrets. What an option is the schema says, not its name. One that is not known may be a
/// secret that is mistyped.
impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = options();
        let may_be_told = |path: &str| {
            known.iter().find(|option| option.has_path(path)).is_some_and(|option| !option.is_secret)
        };
        let assigned = |(name, given): &Assigned, path: &str| match given {
            None => format!("{name} = DEFAULT"),
            Some(given) if may_be_told(path) => format!("{name} = {given}"),
            Some(_) => format!("{name} = {HIDDEN}"),
        };
        let list = |rows: &Rows, options: &[Assigned]| {
            let one = |option: &Assigned| assigned(option, &format!("{}.{}", rows.path(), option.0));
            options.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Set(option) => write!(f, "SET {}", assigned(option, &option.0)),
            Self::Add { rows, name, options, .. } => {
                write!(f, "ADD {} {name} {}", rows.as_str().to_uppercase(), list(rows, options))
            }
            Self::Alter { rows, name, options } => {
                write!(f, "SET {} {name} {}", rows.as_str().to_uppercase(), list(rows, options))
            }
            Self::Remove { rows, name } => write!(f, "REMOVE {} {name}", rows.as_str().to_uppercase()),
        }
    }
}

/// Why an edit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotEdited(String);

impl fmt::Display for NotEdited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text with the change.
///
/// # Errors
/// No such option or row, a row that is there already, or a text that is no TOML.
pub fn edit(text: &str, edit: &Edit) -> Result<String, NotEdited> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|_| NotEdited("the configuration is not valid TOML: run delphinus check".to_owned()))?;
    match edit {
        Edit::Set((path, given)) => set(&mut document, path, given.as_ref())?,
        Edit::Add { rows, name, cluster, options } => {
            if find(&mut document, *rows, name).is_some() {
                return Err(NotEdited(format!("there is a {} {name:?} already", rows.as_str())));
            }
            let mut row = Table::new();
            row.insert("name", value(name.as_str()));
            assign(&mut row, *rows, options)?;
            let list = list_for(&mut document, *rows, cluster.as_deref())?;
            list.push(row);
        }
        Edit::Alter { rows, name, options } => {
            let row = find(&mut document, *rows, name).ok_or_else(|| missing(*rows, name))?;
            assign(row, *rows, options)?;
        }
        Edit::Remove { rows, name } => {
            if !remove(&mut document, *rows, name) {
                return Err(missing(*rows, name));
            }
        }
    }
    Ok(document.to_string())
}

fn missing(rows: Rows, name: &str) -> NotEdited {
    NotEdited(format!("the configuration has no {} {name:?}", rows.as_str()))
}

/// An option of a section that is there once.
fn set(document: &mut DocumentMut, path: &str, given: Option<&Given>) -> Result<(), NotEdited> {
    let listed = [
        "listener.",
        "user.",
        "rule.",
        "filter.",
        "limit.",
        "mirror.",
        "vip.",
        "relay.",
        "cluster.backend.",
        "admin.user.",
        "http.token.",
    ];
    let option = options().into_iter().find(|option| option.has_path(path));
    let Some(option) = option.filter(|option| !listed.iter().any(|head| option.path.starts_with(head)))
    else {
        return Err(NotEdited(format!("there is no option {path}; SHOW CONFIG has all of them")));
    };
    let (section, name) = option.path.rsplit_once('.').unwrap_or_default();
    let is_of_cluster = section.split('.').next() == Some("cluster");
    if document.get("cluster").is_some_and(Item::is_array_of_tables) && is_of_cluster {
        return Err(NotEdited("there are several clusters: change this option in the file".to_owned()));
    }
    let twice = || NotEdited(format!("[{section}] is there more than once: change this option in the file"));
    let mut at: &mut Item = document.as_item_mut();
    for key in section.split('.') {
        // Nothing is below a list or a value: to look there is a panic.
        if !at.is_table_like() {
            return Err(twice());
        }
        at = &mut at[key];
        if at.is_none() {
            *at = Item::Table(Table::new());
        }
    }
    let table = at.as_table_like_mut().ok_or_else(twice)?;
    for alias in option.aliases {
        table.remove(alias);
    }
    put(table, name, given);
    Ok(())
}

/// Writes options into a row, under the names that the reference has.
fn assign(row: &mut Table, rows: Rows, assigned: &[Assigned]) -> Result<(), NotEdited> {
    let known = options();
    for (name, given) in assigned {
        let path = format!("{}.{name}", rows.path());
        let Some(option) = known.iter().find(|option| option.has_path(&path)) else {
            return Err(NotEdited(format!("a {} has no option {name}", rows.as_str())));
        };
        let own = option.path.rsplit('.').next().unwrap_or_default();
        for alias in option.aliases {
            row.remove(alias);
        }
        put(row, own, given.as_ref());
    }
    Ok(())
}

/// The comment behind a value stays.
fn put(table: &mut dyn toml_edit::TableLike, name: &str, given: Option<&Given>) {
    let Some(given) = given else {
        table.remove(name);
        return;
    };
    let mut new = toml_value(given);
    if let Some(Item::Value(old)) = table.get(name) {
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(name, Item::Value(new));
}

/// As written, if that is TOML and not in quotes; else a text.
fn toml_value(given: &Given) -> Value {
    let parsed = if given.is_quoted { None } else { given.text.parse::<Value>().ok() };
    parsed.unwrap_or_else(|| Value::from(given.text.as_str()))
}

/// The lists of one kind: one, or for backends one of each cluster.
fn lists(document: &mut DocumentMut, rows: Rows) -> Vec<&mut ArrayOfTables> {
    if rows != Rows::Backend {
        return document.get_mut(rows.as_str()).and_then(Item::as_array_of_tables_mut).into_iter().collect();
    }
    match document.get_mut("cluster") {
        Some(Item::ArrayOfTables(clusters)) => {
            clusters.iter_mut().filter_map(|one| one.get_mut("backend")?.as_array_of_tables_mut()).collect()
        }
        Some(Item::Table(cluster)) => {
            cluster.get_mut("backend").and_then(Item::as_array_of_tables_mut).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The name of a row; one without is called after its address, or its number.
fn is_called(row: &Table, number: usize, rows: Rows, name: &str) -> bool {
    let text = |key: &str| row.get(key).and_then(Item::as_str);
    match (text("name").or_else(|| text("address")), rows) {
        (Some(own), _) => own == name,
        (None, Rows::Rule | Rows::Filter | Rows::Limit) => {
            name == format!("{} {}", rows.as_str(), number + 1)
        }
        (None, _) => false,
    }
}

fn find<'d>(document: &'d mut DocumentMut, rows: Rows, name: &str) -> Option<&'d mut Table> {
    let all = lists(document, rows).into_iter().flat_map(|list| list.iter_mut().enumerate());
    let mut found = all.filter(|(number, row)| is_called(row, *number, rows, name)).map(|(_, row)| row);
    found.next()
}

fn remove(document: &mut DocumentMut, rows: Rows, name: &str) -> bool {
    for list in lists(document, rows) {
        let at = list.iter().enumerate().position(|(number, row)| is_called(row, number, rows, name));
        if let Some(at) = at {
            list.remove(at);
            return true;
        }
    }
    false
}

/// Where one more row goes.
fn list_for<'d>(
    document: &'d mut DocumentMut,
    rows: Rows,
    cluster: Option<&str>,
) -> Result<&'d mut ArrayOfTables, NotEdited> {
    let new = || Item::ArrayOfTables(ArrayOfTables::new());
    let at: &mut Item = if rows == Rows::Backend {
        match document.get_mut("cluster") {
            Some(Item::ArrayOfTables(clusters)) => {
                let is_it = |one: &&mut Table| {
                    let own = one.get("name").and_then(Item::as_str).unwrap_or("main");
                    cluster.is_none_or(|wanted| wanted == own)
                };
                let found = clusters.iter_mut().find(is_it);
                let missing = || NotEdited(format!("there is no cluster {:?}", cluster.unwrap_or_default()));
                found.ok_or_else(missing)?.entry("backend").or_insert_with(new)
            }
            Some(Item::Table(one)) => {
                let own = one.get("name").and_then(Item::as_str).unwrap_or("main");
                if let Some(wanted) = cluster.filter(|wanted| *wanted != own) {
                    return Err(NotEdited(format!("there is no cluster {wanted:?}")));
                }
                one.entry("backend").or_insert_with(new)
            }
            _ => return Err(NotEdited("the configuration has no [cluster]".to_owned())),
        }
    } else {
        document.as_table_mut().entry(rows.as_str()).or_insert_with(new)
    };
    at.as_array_of_tables_mut()
        .ok_or_else(|| NotEdited(format!("{} is no list of tables in the file", rows.as_str())))
}

#[cfg(test)]
mod tests;
