//! A table of the parsed file with the places of its keys, and the complaints about keys that do
//! not belong there. It knows no option by name.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use crate::mistake::{Mistakes, Span};
use crate::value::type_name;

/// A value and where its key stands.
pub(crate) type Entry<'a> = (&'a DeValue<'a>, Span);

/// One table of the file.
pub(crate) struct Table<'a> {
    /// How it is written, for example `[proxy]`.
    pub(crate) head: &'a str,
    /// Where it begins.
    pub(crate) place: Span,
    entries: BTreeMap<&'a str, Entry<'a>>,
    /// What holds for the keys that are not written here: those of the table that is for all.
    common: Option<Box<Table<'a>>>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(head: &'a str, place: Span, table: &'a DeTable<'a>) -> Self {
        let entries =
            table.iter().map(|(key, value)| (&**key.get_ref(), (value.get_ref(), key.span()))).collect();
        Self { head, place, entries, common: None }
    }

    /// A table that is not in the file, so that all its options have their defaults.
    pub(crate) fn absent(head: &'a str) -> Self {
        Self { head, place: 0..0, entries: BTreeMap::new(), common: None }
    }

    /// This table, and below it the one that is for all.
    pub(crate) fn over(self, common: Self) -> Self {
        Self { common: Some(Box::new(common)), ..self }
    }

    /// The table that is for all.
    pub(crate) fn common(&self) -> Option<&Self> {
        self.common.as_deref()
    }

    /// Takes keys away.
    pub(crate) fn remove(&mut self, names: &[&str]) {
        self.entries.retain(|key, _| !names.contains(key));
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.get(name)
    }

    /// Complains about every key that is not in `known`. Gives the known keys that were meant.
    pub(crate) fn refuse_unknown(
        &self,
        known: &[&'static str],
        mistakes: &mut Mistakes<'_>,
    ) -> Vec<&'static str> {
        let mut meant = Vec::new();
        for (&key, (_, span)) in &self.entries {
            if !known.contains(&key) {
                let near = nearest(key, known.iter().copied());
                meant.extend(near);
                let instead = self.suggestion(key, near, known);
                mistakes.push(span, format!("unknown key \"{key}\"{}", self.location()), instead);
            }
        }
        meant
    }

    /// The single table under `name`, for example `[proxy]`.
    pub(crate) fn child(&self, name: &str, head: &'a str, mistakes: &mut Mistakes<'_>) -> Option<Table<'a>> {
        let (value, span) = self.entry(name)?;
        if let DeValue::Table(table) = value {
            return Some(Table::new(head, span.clone(), table));
        }
        let what = format!("\"{name}\" is {}", type_name(value));
        mistakes.push(span, what, format!("write {head}, once"));
        None
    }

    /// True if there can be several tables under `name`: it is written with two brackets.
    pub(crate) fn is_list(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|(value, _)| matches!(value, DeValue::Array(_)))
    }

    /// The tables under `name`, for example each `[[listener]]`. The flag says whether all of them
    /// could be read.
    pub(crate) fn children(
        &self,
        name: &str,
        head: &'a str,
        mistakes: &mut Mistakes<'_>,
    ) -> (Vec<Table<'a>>, bool) {
        let Some((value, span)) = self.entry(name) else { return (Vec::new(), true) };
        let DeValue::Array(array) = value else {
            let what = format!("\"{name}\" is {}, but there can be several", type_name(value));
            mistakes.push(span, what, format!("write {head} with two brackets"));
            return (Vec::new(), false);
        };
        let mut tables = Vec::new();
        let mut complete = true;
        for item in array {
            if let DeValue::Table(table) = item.get_ref() {
                tables.push(Table::new(head, item.span(), table));
            } else {
                complete = false;
                let what = format!("an item of \"{name}\" is {}", type_name(item.get_ref()));
                mistakes.push(&item.span(), what, format!("write {head} and its keys below"));
            }
        }
        (tables, complete)
    }

    fn location(&self) -> String {
        if self.head.is_empty() { String::new() } else { format!(" in {}", self.head) }
    }

    fn suggestion(&self, key: &str, near: Option<&str>, known: &[&str]) -> String {
        if let Some(near) = near {
            return format!("write \"{near}\"");
        }
        match crate::schema::section_with(key) {
            Some(head) if head != self.head => format!("\"{key}\" belongs to {head}"),
            _ => format!("remove it; known here: {}", known.join(", ")),
        }
    }
}

/// The known word nearest to a mistyped one, if one is near enough to have been meant.
pub(crate) fn nearest<'w>(written: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let written = written.to_lowercase().replace('-', "_");
    let distance = |word: &str| strsim::damerau_levenshtein(&written, word);
    let allowed = (written.chars().count() / 3).max(1);
    known.map(|word| (distance(word), word)).filter(|(d, _)| *d <= allowed).min().map(|(_, word)| word)
}
