//! What differs between two configurations, and when it takes effect.

use crate::config::Config;
use crate::option_doc::Reload;
use crate::reference::options;
use crate::schema::Section;

/// An option with another value than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path, for example `cluster[2].routing.read_primary_percentage`.
    pub option: String,
    /// The value that it had; `None`: its section was not there.
    pub before: Option<String>,
    /// The value that it has; `None`: its section is not there any more.
    pub after: Option<String>,
    /// When that takes effect.
    pub reload: Reload,
}

impl Config {
    /// Takes over what is hot in a configuration that was read again, and tells all that differs, in the order of the
    /// file. Of secrets is only seen whether there are any.
    pub fn take_hot(&mut self, read: &Self) -> Vec<Change> {
        let all = changes(self, read);
        for change in all.iter().filter(|change| change.reload == Reload::Hot) {
            let known = self.effective.0.iter_mut().find(|(option, _)| *option == change.option);
            if let (Some((_, value)), Some(after)) = (known, &change.after) {
                after.clone_into(value);
            }
        }
        if all.iter().any(|change| change.reload == Reload::Hot) {
            // Then the clusters are the same.
            for (cluster, read) in self.clusters.iter_mut().zip(&read.clusters) {
                cluster.routing.take_hot(&read.routing);
                cluster.monitor.take_hot(&read.monitor);
            }
            self.log.take_hot(&read.log);
        }
        all
    }
}

fn changes(before: &Config, after: &Config) -> Vec<Change> {
    let (old, new) = (&before.effective.0, &after.effective.0);
    let names =
        |config: &Config| config.clusters.iter().map(|cluster| cluster.name.clone()).collect::<Vec<_>>();
    // Else nobody can tell which cluster a number means.
    let is_same_list = names(before) == names(after);
    let known = options();
    let reload = |path: &str| {
        let is_hot = known.iter().any(|option| option.reload == Reload::Hot && option.path == of_any(path));
        if is_hot && is_same_list { Reload::Hot } else { Reload::Restart }
    };
    let find = |list: &[(String, String)], path: &str| {
        list.iter().find(|(option, _)| option == path).map(|(_, value)| value.clone())
    };
    let changed = new.iter().filter_map(|(option, after)| {
        let before = find(old, option);
        let reload = if before.is_some() { reload(option) } else { Reload::Restart };
        let is_other = before.as_ref() != Some(after);
        is_other.then(|| Change { option: option.clone(), before, after: Some(after.clone()), reload })
    });
    let gone = old.iter().filter(|(option, _)| find(new, option).is_none()).map(|(option, before)| Change {
        option: option.clone(),
        before: Some(before.clone()),
        after: None,
        reload: Reload::Restart,
    });
    changed.chain(gone).collect()
}

/// The path that the reference has for an option of any cluster: `routing.x` for `cluster[2].routing.x`.
fn of_any(path: &str) -> &str {
    let Some((head, rest)) = path.split_once('.') else { return path };
    let is_of_cluster = head.starts_with("cluster[") && rest.contains('.');
    if is_of_cluster { rest } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, parse};

    struct Nowhere;

    impl Environment for Nowhere {
        fn variable(&self, _: &str) -> Option<String> {
            None
        }

        fn read_file(&self, path: &std::path::Path) -> std::io::Result<String> {
            Err(std::io::Error::new(std::io::ErrorKind::NotFound, path.display().to_string()))
        }
    }

    const REST: &str = "[[listener]]\naddress = \"127.0.0.1:6446\"\n\
        [[user]]\nname = \"app\"\npassword = \"pw\"\n\
        [monitor]\nuser = \"m\"\npassword = \"pw\"\n";

    fn one(routing: &str) -> Config {
        let text = format!(
            "{REST}[routing]\n{routing}\n[cluster]\n[[cluster.backend]]\naddress = \"db1:3306\"\nrole = \"primary\"\n"
        );
        parse(&text, "f", &Nowhere).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
    }

    fn two(names: [&str; 2], routing: &str) -> Config {
        let cluster = |(name, host, own): (&str, &str, &str)| {
            format!(
                "[[cluster]]\nname = \"{name}\"\n{own}[[cluster.backend]]\naddress = \"{host}:3306\"\nrole = \"primary\"\n"
            )
        };
        let own = format!("schemas = [\"x\"]\n[cluster.routing]\n{routing}\n");
        let clusters = [(names[0], "db1", ""), (names[1], "db2", own.as_str())].map(cluster).concat();
        parse(&format!("{REST}{clusters}"), "f", &Nowhere).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
    }

    fn said(before: &Config, after: &Config) -> Vec<String> {
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let one = |change: Change| {
            let (before, after) = (text(change.before), text(change.after));
            format!("{} {before} {after} {}", change.option, change.reload.as_str())
        };
        changes(before, after).into_iter().map(one).collect()
    }

    #[test]
    fn what_is_hot_takes_effect_and_the_rest_waits() {
        let before = one("read_primary_percentage = 10");
        assert_eq!(said(&before, &before), [""; 0]);
        // By its other name, too.
        let after = one("read_master_percentage = 25\nstrict_hints = true");
        assert_eq!(
            said(&before, &after),
            ["routing.read_primary_percentage 10 25 hot", "routing.strict_hints false true restart"]
        );
    }

    #[test]
    fn an_option_of_one_cluster_is_hot_as_long_as_the_clusters_are_the_same() {
        let before = two(["a", "b"], "");
        let after = two(["a", "b"], "read_primary_percentage = 50");
        assert_eq!(said(&before, &after), ["cluster[2].routing.read_primary_percentage 0 50 hot"]);
        let renamed = said(&before, &two(["a", "c"], "read_primary_percentage = 50"));
        assert_eq!(
            renamed,
            [
                "cluster[2].name \"b\" \"c\" restart",
                "cluster[2].routing.read_primary_percentage 0 50 restart"
            ]
        );
        let added = said(&one(""), &before);
        assert!(added.iter().all(|line| line.ends_with(" restart")), "{added:?}");
        assert!(added.contains(&"routing.read_primary_percentage 0 - restart".to_owned()), "{added:?}");
    }

    #[test]
    fn what_is_hot_is_taken_over_and_nothing_else() {
        let mut running = one("read_primary_percentage = 10");
        let read = one("read_primary_percentage = 25\nread_balance = \"round_robin\"\nstrict_hints = true");
        assert_eq!(running.take_hot(&read).len(), 3);
        let routing = &running.clusters[0].routing;
        assert_eq!((routing.read_primary_percentage, routing.strict_hints), (25, false));
        assert_eq!(routing.read_balance, crate::ReadBalance::RoundRobin);
        // The rest is told each time.
        assert_eq!(said(&running, &read), ["routing.strict_hints false true restart"]);
        assert_eq!(running.take_hot(&read).len(), 1);
    }

    #[test]
    fn every_hot_option_is_of_a_section_that_is_taken_over() {
        let hot = options().into_iter().filter(|option| option.reload == Reload::Hot);
        for option in hot {
            let section = option.path.split('.').next();
            assert!(
                matches!(section, Some("routing" | "monitor" | "log")),
                "{}: Config::take_hot",
                option.path
            );
        }
    }

    #[test]
    fn no_change_shows_a_secret() {
        let with = |password: &str| {
            let text = format!(
                "{}[cluster]\n[[cluster.backend]]\naddress = \"db1:3306\"\nrole = \"primary\"\n",
                REST.replace("\"pw\"", &format!("\"{password}\""))
            );
            parse(&text, "f", &Nowhere).unwrap()
        };
        assert_eq!(said(&with("s3cret-1"), &with("s3cret-2")), [""; 0]);
    }
}
