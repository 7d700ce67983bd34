//! Which clusters the sessions of a user get to: as `route` decides at each login, for all logins that there may be.

use super::{Config, User};

impl Config {
    /// The place of the cluster that a user gets to who names no schema, by a listener that has no cluster.
    pub fn home_of(&self, user: &User) -> usize {
        let by_schema = || {
            let schema = user.default_schema.as_ref()?.to_lowercase();
            self.clusters.iter().position(|cluster| cluster.schemas.contains(&schema))
        };
        user.cluster.or_else(by_schema).unwrap_or(0)
    }

    /// The places of the clusters that sessions of a user can get to: by a listener that has a cluster, or else by what is said of the user,
    /// and of the schemas that its clients may name.
    pub fn reach_of(&self, user: &User) -> Vec<usize> {
        let by_listener = self.listeners.iter().filter_map(|listener| listener.cluster);
        let is_open = self.listeners.is_empty() || self.listeners.iter().any(|one| one.cluster.is_none());
        let by_schema = (0..self.clusters.len()).filter(|at| !self.clusters[*at].schemas.is_empty());
        let by_schema = by_schema.filter(|_| is_open && user.cluster.is_none());
        let home = is_open.then(|| self.home_of(user));
        // A client that names a schema of no cluster gets to the first one.
        let first = (is_open && user.cluster.is_none()).then_some(0);
        let mut all: Vec<_> = by_listener.chain(by_schema).chain(home).chain(first).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use crate::NoEnvironment;

    /// Clusters `shop`, `orders` with a schema, `stats`; these listeners, and a user with this line. Where it gets to.
    fn reach(listeners: &[&str], user: &str) -> Vec<usize> {
        let listener = |(at, line): (usize, &&str)| {
            format!("[[listener]]\naddress = '127.0.0.1:{}'\n{line}\n", 6000 + at)
        };
        let listeners: String = listeners.iter().enumerate().map(listener).collect();
        let cluster = |(name, line): (&str, &str)| {
            format!(
                "[[cluster]]\nname = '{name}'\n{line}\n[[cluster.backend]]\naddress = '{name}:3306'\nrole = 'primary'\n"
            )
        };
        let clusters =
            [("shop", ""), ("orders", "schemas = ['orders']"), ("stats", "")].map(cluster).concat();
        // Somebody gets to `stats` all the same: else the file would be refused.
        let text = format!(
            "{listeners}[[listener]]\naddress = 'unix:/s'\ncluster = 'stats'\n[[user]]\nname = 'u'\npassword = 'p'\n{user}\n\
             [monitor]\nuser = 'm'\npassword = 'p'\n{clusters}"
        );
        let config =
            crate::parse(&text, "a.toml", &NoEnvironment).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        config.reach_of(&config.users[0])
    }

    #[test]
    fn a_user_gets_to_clusters_by_listeners_by_schemas_and_by_itself() {
        // By a listener without a cluster clients name the schema that they like.
        assert_eq!(reach(&[""], ""), [0, 1, 2]);
        assert_eq!(reach(&[""], "default_schema = 'orders'"), [0, 1, 2]);
        assert_eq!(reach(&[""], "cluster = 'shop'"), [0, 2]);
        // A listener's cluster is stronger than the user's.
        assert_eq!(reach(&["cluster = 'shop'", "cluster = 'orders'"], "cluster = 'stats'"), [0, 1, 2]);
        assert_eq!(reach(&["cluster = 'shop'", "cluster = 'orders'"], ""), [0, 1, 2]);
    }
}
