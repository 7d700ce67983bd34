//! Paths of options: by the numbers of the file, by the names of its rows, and as the reference has them.

use std::collections::HashMap;
use std::fmt::Write;

use super::{Change, Effect};
use crate::config::Effective;

type Options = Vec<(String, String)>;
/// The options of each row. A file may have tens of thousands of rows, so that none is looked for in the list.
type OfRows<'o> = HashMap<&'o str, Vec<&'o (String, String)>>;

/// The options under paths in which rows have their names: `user["app"].max_connections`, not `user[3].max_connections`. Clusters keep
/// their numbers.
pub(super) fn named(effective: &Effective) -> Options {
    let values = by_path(&effective.0);
    effective.0.iter().map(|(path, value)| (with_names(path, &values), value.clone())).collect()
}

/// The path with the names of its rows.
fn with_names(path: &str, values: &HashMap<&str, &str>) -> String {
    let mut named = String::new();
    for (at, part) in path.match_indices('[').map(|(at, _)| at).zip(path.split('[').skip(1)) {
        let Some(end) = part.find(']') else { return path.to_owned() };
        let (head, row) = (&path[..at], &path[..=at + 1 + end]);
        if named.is_empty() {
            named.push_str(head);
        } else {
            named.push_str(&path[path[..at].rfind(']').map_or(0, |before| before + 1)..at]);
        }
        let key = ["name", "address"].iter().find_map(|key| {
            let value = *values.get(format!("{row}.{key}").as_str())?;
            (!value.is_empty()).then_some(value)
        });
        let number = &part[..end];
        let key = if head == "cluster" { number } else { key.unwrap_or(number) };
        let _ = write!(named, "[{key}]");
    }
    let rest = path.rfind(']').map_or(0, |at| at + 1);
    named.push_str(&path[rest..]);
    named
}

/// The path that the reference has: `cluster.backend.weight` for `cluster[2].backend["db3"].weight`, `routing.x` for
/// `cluster[2].routing.x`.
pub(super) fn generic(path: &str) -> String {
    let mut plain = String::new();
    let (mut depth, mut is_quoted, mut is_escaped) = (0_u32, false, false);
    for one in path.chars() {
        match one {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '[' if !is_quoted => depth += 1,
            ']' if !is_quoted => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(one),
            _ => {}
        }
    }
    match plain.strip_prefix("cluster.") {
        Some(rest)
            if rest.contains('.') && !rest.starts_with("backend.") && !rest.starts_with("failover.") =>
        {
            rest.to_owned()
        }
        _ => plain,
    }
}

/// The row that an option is of, such as `user["app"]`, unless that is a cluster or a section.
fn row_of(path: &str) -> Option<&str> {
    let (row, _) = path.rsplit_once("].")?;
    let row = &path[..=row.len()];
    let is_inner = row.contains("].backend[") || row.contains("].failover.remote_relay[");
    (!row.starts_with("cluster[") || is_inner).then_some(row)
}

/// The values by their paths; of several under one path the first.
pub(super) fn by_path(options: &[(String, String)]) -> HashMap<&str, &str> {
    options.iter().rev().map(|(path, value)| (path.as_str(), value.as_str())).collect()
}

fn of_rows(options: &[(String, String)]) -> OfRows<'_> {
    let mut rows = OfRows::new();
    for option in options {
        if let Some(row) = row_of(&option.0) {
            rows.entry(row).or_default().push(option);
        }
    }
    rows
}

/// With one change in the place of many for a row that comes or goes as a whole.
pub(super) fn as_rows(changes: Vec<Change>, old: &Options, new: &Options) -> Vec<Change> {
    let (old, new) = (of_rows(old), of_rows(new));
    let mut found: Vec<Change> = Vec::new();
    // Where the change of each row is among these.
    let mut places: HashMap<&str, usize> = HashMap::new();
    for change in changes {
        let sides = row_of(&change.option).map(|row| (old.get_key_value(row), new.get_key_value(row)));
        let (row, before, after) = match sides {
            Some((Some((row, options)), None)) => (*row, Some(options), None),
            Some((None, Some((row, options)))) => (*row, None, Some(options)),
            _ => {
                found.push(change);
                continue;
            }
        };
        if let Some(place) = places.get(row) {
            let known = &mut found[*place];
            known.effect = known.effect.max(change.effect);
            continue;
        }
        places.insert(row, found.len());
        let (before, after) = (before.map(|options| told(options)), after.map(|options| told(options)));
        found.push(Change { option: row.to_owned(), before, after, effect: change.effect });
    }
    found
}

/// What is said of a row.
fn told(options: &[&(String, String)]) -> String {
    let own = options.iter().filter(|(_, value)| !value.is_empty());
    let own = own.map(|(path, value)| format!("{} = {value}", path.rsplit('.').next().unwrap_or_default()));
    own.collect::<Vec<_>>().join(", ")
}

/// Which cluster an option is of, counted from 0.
pub(super) fn cluster_of(path: &str) -> usize {
    let number = path.strip_prefix("cluster[").and_then(|rest| rest.split(']').next());
    number.and_then(|number| number.parse::<usize>().ok()).map_or(0, |number| number - 1)
}

/// The options that hold once all changes but those that need a restart have been made.
pub(super) fn merged(running: &Effective, read: &Effective, changes: &[Change]) -> Effective {
    let waiting: HashMap<&str, &Change> = changes
        .iter()
        .filter(|change| change.effect == Effect::Restart)
        .map(|change| (change.option.as_str(), change))
        .collect();
    let change_of = |name: &str| waiting.get(name).or_else(|| waiting.get(row_of(name)?)).copied();
    let mut options = Vec::new();
    for ((path, value), (name, _)) in read.0.iter().zip(named(read)) {
        match change_of(&name) {
            None => options.push((path.clone(), value.clone())),
            Some(change) if change.option != name => {}
            Some(change) => options.extend(change.before.clone().map(|before| (path.clone(), before))),
        }
    }
    let is_kept = |name: &str| change_of(name).is_some_and(|change| change.after.is_none());
    for ((path, value), (name, _)) in running.0.iter().zip(named(running)) {
        if is_kept(&name) {
            options.push((path.clone(), value.clone()));
        }
    }
    Effective(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_their_rows() {
        let one = |path: &str, value: &str| (path.to_owned(), value.to_owned());
        let list = Effective(vec![
            one("proxy.workers", "1"),
            one("user[1].name", "\"a.b]\""),
            one("user[1].multiplex", "true"),
            one("cluster[2].name", "\"x\""),
            one("cluster[2].backend[3].name", ""),
            one("cluster[2].backend[3].address", "\"h:1\""),
            one("cluster[2].backend[3].weight", "7"),
            one("rule[4].name", ""),
        ]);
        let names: Vec<_> = named(&list).into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            names,
            [
                "proxy.workers",
                "user[\"a.b]\"].name",
                "user[\"a.b]\"].multiplex",
                "cluster[2].name",
                "cluster[2].backend[\"h:1\"].name",
                "cluster[2].backend[\"h:1\"].address",
                "cluster[2].backend[\"h:1\"].weight",
                "rule[4].name",
            ]
        );
        for (path, plain) in names.iter().zip([
            "proxy.workers",
            "user.name",
            "user.multiplex",
            "cluster.name",
            "cluster.backend.name",
            "cluster.backend.address",
            "cluster.backend.weight",
            "rule.name",
        ]) {
            assert_eq!(generic(path), plain);
        }
        assert_eq!(generic("cluster[2].routing.read_balance"), "routing.read_balance");
        assert_eq!(
            (cluster_of("cluster[2].backend[\"x\"].weight"), cluster_of("cluster.backend[1].weight")),
            (1, 0)
        );
    }
}
