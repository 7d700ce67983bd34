//! Edits of a text: what changes, and that nothing else does.

use super::*;

const FILE: &str = r#"# Who may log in.
[[user]]
name = "app"   # the shop
password = "pw"

[[listener]]
address = "127.0.0.1:6446"

[cluster]
# The primary.
[[cluster.backend]]
name = "db1"
address = "db1:3306"
role = "primary"

[[cluster.backend]]
address = "db2:3306"  # in the cellar
role = "replica"
weight = 5 # slow

[monitor]
user = "m"
password = "pw"
"#;

fn given(text: &str) -> Given {
    Given { text: text.to_owned(), is_quoted: false }
}

fn done(change: &Edit) -> String {
    edit(FILE, change).unwrap_or_else(|error| panic!("{error}"))
}

/// The lines that are new, and those that are gone.
fn changes(after: &str) -> (Vec<&str>, Vec<&str>) {
    let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
    let before = lines(FILE);
    let new = after.lines().filter(|line| !before.contains(line)).collect();
    let gone = before.into_iter().filter(|line| !after.lines().any(|one| one == *line)).collect();
    (new, gone)
}

#[test]
fn one_line_changes_and_its_comment_stays() {
    let weight = |text| Edit::Alter {
        rows: Rows::Backend,
        name: "db2:3306".to_owned(),
        options: vec![("weight".to_owned(), text)],
    };
    let after = done(&weight(Some(given("7"))));
    assert_eq!(changes(&after), (vec!["weight = 7 # slow"], vec!["weight = 5 # slow"]));
    assert_eq!(changes(&done(&weight(None))), (vec![], vec!["weight = 5 # slow"]));
    let hold = Edit::Set(("pool.hold_ms".to_owned(), Some(given("0"))));
    assert_eq!(changes(&done(&hold)), (vec!["[pool]", "hold_ms = 0"], vec![]));
    let level = Edit::Set(("log.level".to_owned(), Some(given("debug"))));
    assert!(done(&level).contains("[log]\nlevel = \"debug\"\n"));
}

#[test]
fn rows_come_and_go() {
    let options = [("address", "db3:3306"), ("role", "replica"), ("groups", "[\"eu\"]")];
    let options = options.map(|(name, text)| (name.to_owned(), Some(given(text)))).to_vec();
    let add = Edit::Add { rows: Rows::Backend, name: "db3".to_owned(), cluster: None, options };
    let after = done(&add);
    let row = "[[cluster.backend]]\nname = \"db3\"\naddress = \"db3:3306\"\nrole = \"replica\"\ngroups = [\"eu\"]\n";
    assert!(after.contains(row), "{after}");
    assert!(changes(&after).1.is_empty());
    assert_eq!(edit(&after, &add).unwrap_err().to_string(), "there is a backend \"db3\" already");
    let remove = |name: &str| Edit::Remove { rows: Rows::Backend, name: name.to_owned() };
    assert_eq!(edit(&after, &remove("db3")).unwrap(), FILE);
    let without = done(&remove("db2:3306"));
    let (new, gone) = changes(&without);
    assert_eq!((new.len(), gone.len()), (0, 3));
    assert_eq!(
        edit(FILE, &remove("db9")).unwrap_err().to_string(),
        "the configuration has no backend \"db9\""
    );
    let rule = Edit::Add {
        rows: Rows::Rule,
        name: "no".to_owned(),
        cluster: None,
        options: vec![("reject".to_owned(), Some(Given { text: "12".to_owned(), is_quoted: true }))],
    };
    assert!(done(&rule).ends_with("[[rule]]\nname = \"no\"\nreject = \"12\"\n"));
}

#[test]
fn what_is_not_there_is_an_error() {
    for (change, error) in [
        (Edit::Set(("pool.nonsense".to_owned(), Some(given("1")))), "there is no option pool.nonsense"),
        (Edit::Set(("user.name".to_owned(), Some(given("1")))), "there is no option user.name"),
        (
            Edit::Alter {
                rows: Rows::User,
                name: "app".to_owned(),
                options: vec![("role".to_owned(), Some(given("x")))],
            },
            "a user has no option role",
        ),
        (
            Edit::Add {
                rows: Rows::Backend,
                name: "x".to_owned(),
                cluster: Some("y".to_owned()),
                options: vec![],
            },
            "there is no cluster \"y\"",
        ),
    ] {
        let said = edit(FILE, &change).unwrap_err().to_string();
        assert!(said.starts_with(error), "{said}");
    }
    assert!(edit("[", &Edit::Set(("log.level".to_owned(), Some(given("info"))))).is_err());
}

#[test]
fn what_stands_below_one_of_several_clusters_is_an_error() {
    let set = |path: &str| Edit::Set((path.to_owned(), Some(given("1"))));
    let several = FILE.replace("[cluster]\n", "[[cluster]]\n");
    for path in ["cluster.topology", "cluster.failover.auto_failover", "cluster.failover.remote_relay.name"] {
        let said = edit(&several, &set(path)).unwrap_err().to_string();
        assert!(said.starts_with("there are several clusters"), "{path}: {said}");
    }
    // The file may have been changed since it was read.
    for wrong in ["cluster = []", "cluster = 7", "cluster = { failover = 7 }"] {
        let said = edit(wrong, &set("cluster.failover.remote_relay.name")).unwrap_err().to_string();
        assert!(said.contains("change this option in the file"), "{wrong}: {said}");
    }
}

/// CONFIG HISTORY shows viewers what an edit says of itself.
#[test]
fn no_edit_tells_a_secret() {
    let secret = |name: &str| vec![(name.to_owned(), Some(given("hunter2")))];
    let secrets: Vec<_> = options().into_iter().filter(|option| option.is_secret).collect();
    assert!(secrets.len() > 15, "{}", secrets.len());
    for option in &secrets {
        let (section, own) = option.path.rsplit_once('.').unwrap();
        for name in option.aliases.iter().copied().chain([own]) {
            let told = Edit::Set((format!("{section}.{name}"), Some(given("hunter2")))).to_string();
            assert_eq!(told, format!("SET {section}.{name} = (hidden)"));
            let Some(rows) = Rows::ALL.into_iter().find(|rows| rows.path() == section) else { continue };
            let alter = Edit::Alter { rows, name: "a".to_owned(), options: secret(name) }.to_string();
            assert!(alter.ends_with(&format!(" a {name} = (hidden)")), "{alter}");
        }
    }
    // It may be one that is mistyped.
    let mistyped = Edit::Set(("lease.failsafe_tokn".to_owned(), Some(given("hunter2"))));
    assert_eq!(mistyped.to_string(), "SET lease.failsafe_tokn = (hidden)");
    let add = Edit::Add { rows: Rows::User, name: "a".to_owned(), cluster: None, options: secret("pasword") };
    assert_eq!(add.to_string(), "ADD USER a pasword = (hidden)");
    // All else is told, under its other names, too.
    for (path, value) in [("lease.ttl_s", "9"), ("routing.read_master_percentage", "5")] {
        let told = Edit::Set((path.to_owned(), Some(given(value)))).to_string();
        assert_eq!(told, format!("SET {path} = {value}"));
    }
}
