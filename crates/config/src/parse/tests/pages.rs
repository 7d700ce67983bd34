//! Each block of TOML in docs/ is read as the proxy reads it, so that no page shows an option that does not exist. A block is a part of
//! a file: the test adds the least that the rest of one needs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

use crate::parse::parse;
use crate::{Environment, Mistake};

/// Every variable is set, and every file is there: pages name some that no test machine has.
struct AllThere;

impl Environment for AllThere {
    fn variable(&self, _: &str) -> Option<String> {
        Some("what-the-variable-says".to_owned())
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        let is_pem = path.extension().is_some_and(|extension| extension == "pem" || extension == "key");
        let text = if is_pem { "-----BEGIN CERTIFICATE-----\n" } else { "0123456789abcdef\n" };
        Ok(text.to_owned())
    }
}

/// A block of a page.
struct Block {
    page: PathBuf,
    /// The line of its fence, counted from 1.
    line: usize,
    text: String,
}

/// The blocks of one page. They may be indented, as part of a list.
fn blocks_of(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).unwrap();
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((line, fence)) = lines.next() {
        let Some(language) = fence.trim_start().strip_prefix("```") else { continue };
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let text = inside.collect::<Vec<_>>().join("\n") + "\n";
        if language == "toml" {
            blocks.push(Block { page: page.to_owned(), line, text });
        }
    }
    blocks
}

/// All pages below a folder, in order.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The table of this name; it is made where there is none.
fn table<'t>(parent: &'t mut Table, name: &str) -> &'t mut Table {
    parent.entry(name).or_insert_with(|| Item::Table(Table::new())).as_table_mut().unwrap()
}

/// The list of this name; it is made where there is none.
fn list<'t>(parent: &'t mut Table, name: &str) -> &'t mut ArrayOfTables {
    let new = || Item::ArrayOfTables(ArrayOfTables::new());
    parent.entry(name).or_insert_with(new).as_array_of_tables_mut().unwrap()
}

/// Adds options, each with its value as TOML, unless the first of them is there.
fn fill(table: &mut Table, options: &[(&str, &str)]) {
    if table.contains_key(options[0].0) {
        return;
    }
    for (name, text) in options {
        table.insert(name, Item::Value(text.parse::<Value>().unwrap()));
    }
}

/// A row with these options.
fn row(options: &[(&str, &str)]) -> Table {
    let mut row = Table::new();
    fill(&mut row, options);
    row
}

/// The text of the option in a row of a list.
fn text_of(root: &Table, list: &str, option: &str) -> Option<String> {
    let rows = root.get(list)?.as_array_of_tables()?;
    rows.iter().find_map(|row| row.get(option)?.as_str().map(str::to_owned))
}

/// The block as a whole file.
fn complete(block: &str) -> String {
    let mut lines = block.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    // Pages show options alone only where they speak of relays.
    let head = if first.is_some_and(|line| line.starts_with('[')) {
        ""
    } else {
        "[[relay]]\nname = 'r'\nfolder = 'r'\nserver_id = 1000\nsource_user = 'u'\nsource_password = 'p'\n"
    };
    let mut document: DocumentMut = format!("{head}{block}").parse().unwrap();
    let root = document.as_table_mut();
    if !root.contains_key("listener") {
        list(root, "listener").push(row(&[("address", "'127.0.0.1:6446'")]));
    }
    if !root.contains_key("user") {
        list(root, "user").push(row(&[("name", "'app'"), ("password", "'p'")]));
    }
    fill(table(root, "monitor"), &[("user", "'monitor'"), ("password", "'p'")]);
    if let Some(lease) = root.get_mut("lease").and_then(Item::as_table_mut) {
        fill(lease, &[("store", "'etcd'"), ("endpoints", "['http://10.0.0.3:2379']")]);
    }
    if !root.contains_array_of_tables("cluster") {
        complete_cluster(root);
    }
    document.to_string()
}

/// The one cluster: what others call it, its servers, and what a move of its role needs.
fn complete_cluster(root: &mut Table) {
    let lists = ["listener", "user", "relay"];
    let name = lists.into_iter().find_map(|list| text_of(root, list, "cluster"));
    let lease = root.get("lease").and_then(Item::as_table);
    let local = lease.and_then(|lease| lease.get("local_backend")?.as_str().map(str::to_owned));
    let local = format!("{:?}", local.as_deref().unwrap_or("db1"));
    let cluster = table(root, "cluster");
    if let Some(name) = name {
        let name = format!("{name:?}");
        fill(cluster, &[("name", name.as_str())]);
    }
    if let Some(failover) = cluster.get_mut("failover").and_then(Item::as_table_mut) {
        fill(failover, &[("user", "'failover'"), ("password", "'p'")]);
        fill(cluster, &[("topology", "'read_only'")]);
    }
    let topology = cluster.get("topology").and_then(Item::as_str).unwrap_or("static");
    let has_roles = topology == "static";
    let backends = list(cluster, "backend");
    let is_primary = |row: &Table| row.get("role").and_then(Item::as_str) == Some("primary");
    let server = [("name", local.as_str()), ("address", "'main.example:3306'"), ("role", "'primary'")];
    if has_roles && !backends.iter().any(is_primary) {
        backends.push(row(&server));
    } else if backends.is_empty() {
        backends.push(row(&server[..2]));
    }
}

fn mistakes_of(block: &str) -> Vec<Mistake> {
    parse(&complete(block), "/etc/delphinus/delphinus.toml", &AllThere).err().unwrap_or_default()
}

#[test]
fn every_block_of_the_pages_is_read() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let blocks: Vec<Block> = pages(&docs).iter().flat_map(|page| blocks_of(page)).collect();
    assert!(blocks.len() > 50, "{} blocks: where are the pages?", blocks.len());
    let mut wrong = Vec::new();
    for block in &blocks {
        for mistake in mistakes_of(&block.text) {
            let Mistake { what, instead, .. } = mistake;
            wrong.push(format!("{}:{}: {what}; {instead}", block.page.display(), block.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_option_that_does_not_exist_is_found_in_a_block() {
    let cases = [
        ("[lease]\nstore = 'local'\nttl = 3\n", "unknown key \"ttl\" in [lease]"),
        ("[cluster.failover]\nauto = true\n", "unknown key \"auto\" in [cluster.failover]"),
        ("[[vip]]\nname = 'v'\nadresses = []\n", "unknown key \"adresses\" in [[vip]]"),
        ("purge_after = 3\n", "unknown key \"purge_after\" in [[relay]]"),
        ("[vips]\nname = 'v'\n", "unknown key \"vips\""),
        ("[lease]\nstore = 'consul'\n", "store = \"consul\" is not known"),
    ];
    for (block, expected) in cases {
        let mistakes = mistakes_of(block);
        assert!(mistakes.iter().any(|mistake| mistake.what == expected), "{block}{mistakes:?}");
    }
}
