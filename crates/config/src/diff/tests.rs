//! What differs between files, when it takes effect, and what runs after it.

use super::*;
use crate::{Environment, NoEnvironment, parse};

const LISTENER: &str = "[[listener]]\naddress = \"127.0.0.1:6446\"\n";
const USER: &str = "[[user]]\nname = \"app\"\npassword = \"pw\"\n";
const MONITOR: &str = "[monitor]\nuser = \"m\"\npassword = \"pw\"\n";
const PRIMARY: &str = "[[cluster.backend]]\nname = \"db1\"\naddress = \"db1:3306\"\nrole = \"primary\"\n";

fn config(text: &str) -> Config {
    parse(text, "f", &NoEnvironment).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// With `more` behind what every file has.
fn one(more: &str) -> Config {
    config(&format!("{LISTENER}{USER}{MONITOR}[cluster]\n{PRIMARY}{more}"))
}

fn replica(name: &str, more: &str) -> String {
    format!("[[cluster.backend]]\nname = \"{name}\"\naddress = \"{name}:3306\"\nrole = \"replica\"\n{more}")
}

fn two(names: [&str; 2], routing: &str) -> Config {
    let cluster = |(name, host, own): (&str, &str, &str)| {
        format!(
            "[[cluster]]\nname = \"{name}\"\n{own}[[cluster.backend]]\naddress = \"{host}:3306\"\nrole = \"primary\"\n"
        )
    };
    let own = format!("schemas = [\"x\"]\n[cluster.routing]\n{routing}\n");
    let clusters = [(names[0], "db1", ""), (names[1], "db2", own.as_str())].map(cluster).concat();
    config(&format!("{LISTENER}{USER}{MONITOR}{clusters}"))
}

fn said(before: &Config, after: &Config) -> Vec<String> {
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let one = |change: Change| {
        let (before, after) = (text(change.before), text(change.after));
        format!("{} {before} {after} {}", change.option, change.effect.as_str())
    };
    before.plan(after).changes.into_iter().map(one).collect()
}

#[test]
fn what_is_hot_takes_effect_and_the_rest_waits() {
    let before = one("[routing]\nread_primary_percentage = 10\n");
    assert_eq!(said(&before, &before), [""; 0]);
    // By its other name, too.
    let after = one("[routing]\nread_master_percentage = 25\nstrict_hints = true\n[proxy]\nworkers = 3\n");
    assert_eq!(
        said(&before, &after),
        [
            "proxy.workers  3 restart",
            "routing.read_primary_percentage 10 25 hot",
            "routing.strict_hints false true hot",
        ]
    );
    let next = before.plan(&after).next;
    let routing = &next.clusters[0].routing;
    assert_eq!((routing.read_primary_percentage, routing.strict_hints, next.proxy.workers), (25, true, None));
    // What waits is told each time, and what runs is shown.
    assert_eq!(said(&next, &after), ["proxy.workers  3 restart"]);
    let shown = |option: &str| next.effective.0.iter().find(|(path, _)| path == option).unwrap().1.clone();
    assert_eq!(
        (shown("proxy.workers"), shown("routing.read_primary_percentage")),
        (String::new(), "25".to_owned())
    );
}

#[test]
fn an_option_of_one_cluster_is_hot_as_long_as_the_clusters_are_the_same() {
    let before = two(["a", "b"], "");
    let after = two(["a", "b"], "read_primary_percentage = 50");
    assert_eq!(said(&before, &after), ["cluster[2].routing.read_primary_percentage 0 50 hot"]);
    let renamed = two(["a", "c"], "read_primary_percentage = 50");
    assert_eq!(
        said(&before, &renamed),
        ["cluster[2].name \"b\" \"c\" restart", "cluster[2].routing.read_primary_percentage 0 50 restart"]
    );
    assert_eq!(before.plan(&renamed).next.clusters, before.clusters);
    let added = said(&one(""), &before);
    assert!(added.iter().all(|line| line.ends_with(" restart")), "{added:?}");
    assert!(added.contains(&"routing.read_primary_percentage 0 - restart".to_owned()), "{added:?}");
}

#[test]
fn rows_are_told_apart_by_their_names() {
    let all = ["db2", "db3", "db4"].map(|name| replica(name, "")).concat();
    let before = one(&all);
    let after = one(&format!("{}{}", replica("db2", "weight = 7\n"), replica("db4", "tls = \"disabled\"\n")));
    let changes = said(&before, &after);
    assert_eq!(changes[0], "cluster.backend[\"db2\"].weight 100 7 hot");
    assert_eq!(changes[1], "cluster.backend[\"db4\"].tls \"preferred\" \"disabled\" drain");
    let (gone, rest): (Vec<_>, Vec<_>) = changes[2..].iter().partition(|line| line.contains("[\"db3\"]"));
    assert!(rest.is_empty() && gone.iter().all(|line| line.ends_with(" - drain")), "{changes:?}");
    let back = said(&after, &before);
    assert!(
        back.iter().filter(|line| line.contains("[\"db3\"]")).all(|line| line.ends_with(" hot")),
        "{back:?}"
    );
    let next = before.plan(&after).next;
    let names: Vec<_> = next.clusters[0].backends.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["db1", "db2", "db4"]);
}

#[test]
fn backends_wait_where_they_would_mean_something_else() {
    let before = one(&replica("db2", ""));
    let text = format!("{LISTENER}{USER}{MONITOR}[cluster]\ntopology = \"read_only\"\n{PRIMARY}");
    let after = config(&text.replace("role = \"primary\"\n", ""));
    let plan = before.plan(&after);
    assert!(plan.changes.iter().all(|change| change.effect == Effect::Restart), "{:?}", plan.changes);
    assert_eq!(plan.next.clusters, before.clusters);
    let sorted =
        |config: &Config| config.effective.0.iter().cloned().collect::<std::collections::BTreeMap<_, _>>();
    assert_eq!(sorted(&plan.next), sorted(&before));
}

#[test]
fn the_order_of_rules_is_something_to_change() {
    let rule = |name: &str| format!("[[rule]]\nname = \"{name}\"\nlog = true\n");
    let before = one(&["a", "b", "c"].map(rule).concat());
    let after = one(&["b", "a", "c"].map(rule).concat());
    assert_eq!(said(&before, &after), ["rule (order) a, b, c b, a, c hot"]);
    let names: Vec<_> = before.plan(&after).next.rules.into_iter().map(|rule| rule.name).collect();
    assert_eq!(names, ["b", "a", "c"]);
}

/// The time grows with the size of the file, not with its square: all else of the control plane waits meanwhile.
#[test]
fn a_large_file_is_compared_soon() {
    let file = |users: &str, password: &str, rules: Vec<u32>| {
        let user = |number: u32| format!("[[user]]\nname = \"{users}{number}\"\npassword = \"{password}\"\n");
        let rule = |number: u32| format!("[[rule]]\nname = \"r{number}\"\nlog = true\n");
        let rows: Vec<_> = (0..2_000).map(user).chain(rules.into_iter().map(rule)).collect();
        one(&rows.concat())
    };
    let rules = || 0..500_u32;
    let before = file("a", "one", rules().collect());
    let others = file("b", "one", rules().rev().collect());
    let secrets = file("a", "two", rules().collect());
    let begun = std::time::Instant::now();
    let rows = before.plan(&others).changes;
    let hidden = before.plan(&secrets).changes;
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    // Those that come, those that go, each in the order of its file, and the order of the rules.
    assert_eq!((rows.len(), hidden.len()), (4_001, 2_000));
    for (place, option) in [(0, "user[\"b0\"]"), (1_999, "user[\"b1999\"]"), (2_000, "user[\"a0\"]")] {
        assert_eq!(rows[place].option, option);
        assert_eq!(
            (rows[place].before.is_some(), rows[place].after.is_some()),
            (place >= 2_000, place < 2_000)
        );
    }
    assert_eq!(rows[4_000].option, "rule (order)");
    assert_eq!(hidden[7].option, "user[\"a7\"].password");
}

#[test]
fn every_hot_option_is_taken_over() {
    // Of each section one that a struct of the validated configuration keeps by hand.
    let before = one("");
    let mut read = before.clone();
    let monitor = &mut read.clusters[0].monitor;
    (monitor.user, monitor.interval_ms, monitor.fence) = ("other".to_owned(), 77, true);
    (monitor.heartbeat_create, monitor.heartbeat_interval_ms, monitor.max_discovered) = (false, 60, 3);
    let next = before.plan(&read).next;
    let monitor = &next.clusters[0].monitor;
    assert_eq!((monitor.user.as_str(), monitor.interval_ms, monitor.fence), ("other", 77, true));
    let waits = (monitor.heartbeat_interval_ms, monitor.max_discovered);
    assert_eq!((monitor.heartbeat_create, waits), (false, (500, 16)));
}

#[test]
fn few_options_need_a_restart() {
    let all = options();
    let waiting: Vec<_> =
        all.iter().filter(|one| one.reload == Reload::Restart).map(|one| one.path.as_str()).collect();
    // A relay has nothing that a restart would disturb: source and replicas go on where they were.
    let waiting: Vec<_> = waiting.into_iter().filter(|path| !path.starts_with("relay.")).collect();
    // One of them for safety alone: an operator who may SET must not choose programs that the proxy runs.
    // Whether writes end cached answers is one: a write that is under way was noted, or was not.
    assert!(waiting.len() <= 17, "{}: {waiting:?}", waiting.len());
}

#[test]
fn no_change_shows_a_secret() {
    let with = |password: &str| {
        let text = format!("{LISTENER}{USER}{MONITOR}[cluster]\n{PRIMARY}");
        config(&text.replace("\"pw\"", &format!("\"{password}\"")))
    };
    let (before, after) = (with("s3cret-1"), with("s3cret-2"));
    assert_eq!(
        said(&before, &after),
        ["user[\"app\"].password (hidden) (hidden) hot", "monitor.password (hidden) (hidden) hot"]
    );
    let next = before.plan(&after).next;
    assert_eq!(next.users, after.users);
    assert_eq!(next.clusters[0].monitor.password, after.clusters[0].monitor.password);
}

#[test]
fn the_door_for_programs_changes_while_the_proxy_runs() {
    let with_token = |token: &str| {
        one(&format!(
            "[http]\naddresses = [\"127.0.0.1:1\"]\n[[http.token]]\nname = \"t\"\ntoken = \"{token}\"\n"
        ))
    };
    let (before, after) = (with_token("0123456789abcdef"), with_token("fedcba9876543210"));
    assert_eq!(said(&before, &after), ["http.token[\"t\"].token (hidden) (hidden) hot"]);
    assert_eq!(before.plan(&after).next.http, after.http);
    let changes = said(&one(""), &before);
    assert!(!changes.is_empty() && changes.iter().all(|change| change.ends_with(" hot")), "{changes:?}");
}

/// A file with each secret of the schema.
const ALL_SECRETS: &str = r#"
[[listener]]
address = "127.0.0.1:6446"
[[user]]
name = "plain"
password = "<user.password>"
secondary_password = "<user.secondary_password>"
[[user]]
name = "hashed"
password_hash = "<user.password_hash>"
secondary_password_hash = "<user.secondary_password_hash>"
[monitor]
user = "m"
password = "<monitor.password>"
[cluster]
topology = "read_only"
[[cluster.backend]]
name = "db1"
address = "db1:3306"
[cluster.failover]
user = "mover"
password = "<cluster.failover.password>"
replication_user = "repl"
replication_password = "<cluster.failover.replication_password>"
relays = ["far"]
[[cluster.failover.remote_relay]]
name = "far"
address = "127.0.0.1:6447"
user = "ops"
password = "<cluster.failover.remote_relay.password>"
[lease]
store = "etcd"
endpoints = ["http://10.0.0.3:2379"]
user = "e"
password = "<lease.password>"
on_store_loss = "failsafe"
failsafe_address = "http://10.0.0.1:6480"
failsafe_token = "<lease.failsafe_token>"
[[relay]]
name = "r"
folder = "/r"
source = "127.0.0.1:3306"
source_user = "s"
source_password = "<relay.source_password>"
server_id = 7
[[relay.user]]
name = "plain"
password = "<relay.user.password>"
[[relay.user]]
name = "hashed"
password_hash = "<relay.user.password_hash>"
[admin]
addresses = ["127.0.0.1:6447"]
[[admin.user]]
name = "plain"
password = "<admin.user.password>"
[[admin.user]]
name = "hashed"
password_hash = "<admin.user.password_hash>"
[http]
addresses = ["127.0.0.1:6480"]
[[http.token]]
name = "plain"
token = "<http.token.token>"
[[http.token]]
name = "hashed"
token_hash = "<http.token.token_hash>"
"#;

/// That file. The secret of the option `other` is another one than in all other files.
fn with_all_secrets(other: &str) -> String {
    let mut text = ALL_SECRETS.to_owned();
    for option in options().iter().filter(|option| option.is_secret) {
        let place = format!("<{}>", option.path);
        assert!(text.contains(&place), "{} is a secret: write it into this file, too", option.path);
        let digit = if option.path == other { "B" } else { "A" };
        let value = match option.path.as_str() {
            "http.token.token_hash" => digit.repeat(64),
            path if path.ends_with("_hash") => format!("*{}", digit.repeat(40)),
            _ => format!("hunter2-planted-{digit}"),
        };
        text = text.replace(&place, &value);
    }
    text
}

/// It may have effects: another `lease.failsafe_token` releases all virtual IPs.
#[test]
fn another_secret_is_told_whichever_it_is() {
    let before = config(&with_all_secrets(""));
    for option in options().into_iter().filter(|option| option.is_secret) {
        let after = config(&with_all_secrets(&option.path));
        let plan = before.plan(&after);
        let [change] = &plan.changes[..] else { panic!("{}: {:?}", option.path, plan.changes) };
        assert_eq!(generic(&change.option), option.path.trim_end_matches("_hash"));
        let is_hot = option.reload == Reload::Hot;
        let effect = if is_hot { Effect::Hot } else { Effect::Restart };
        let hidden = Some(HIDDEN.to_owned());
        assert_eq!((change.effect, &change.before, &change.after), (effect, &hidden, &hidden), "{change:?}");
        // What is told as hot is hot, and what waits is told again.
        assert_eq!(plan.next.plan(&after).changes.is_empty(), is_hot, "{}", option.path);
        assert!(!format!("{plan:?}{change:?}").contains("hunter2"));
    }
}

/// The same option in the file, and another secret behind it.
#[test]
fn a_secret_in_a_file_of_its_own_is_told_too() {
    struct Files(&'static str);
    impl Environment for Files {
        fn variable(&self, _: &str) -> Option<String> {
            Some(self.0.to_owned())
        }
        fn read_file(&self, _: &std::path::Path) -> std::io::Result<String> {
            Ok(self.0.to_owned())
        }
    }
    let text = with_all_secrets("")
        .replace("\npassword = \"hunter2-planted-A\"\non_store", "\npassword_file = \"p\"\non_store")
        .replace("failsafe_token = \"hunter2-planted-A\"", "failsafe_token_env = \"T\"");
    let with = |secret| parse(&text, "f", &Files(secret)).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let told = said(&with("one"), &with("another"));
    assert_eq!(told, ["lease.password (hidden) (hidden) hot", "lease.failsafe_token (hidden) (hidden) hot"]);
}
