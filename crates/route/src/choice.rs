//! Which cluster a session belongs to: decided at its login, once, and again by COM_CHANGE_USER.

use std::collections::HashMap;
use std::sync::Arc;

use delphinus_topology::ClusterId;

/// What a client is known by.
#[derive(Debug, Clone, Copy)]
pub struct Arriving<'a> {
    /// The cluster of its listener, if that has one.
    pub listener: Option<ClusterId>,
    /// Its user.
    pub user: &'a str,
    /// The schema that it names.
    pub schema: Option<&'a str>,
}

/// What is said of a user.
#[derive(Debug, Clone, Default)]
pub struct Home {
    /// The cluster that it gets to.
    pub cluster: Option<ClusterId>,
    /// The schema of a client that names none.
    pub schema: Option<String>,
}

/// The clusters of the process, and who gets to which.
#[derive(Debug, Default)]
pub struct ClusterChoice {
    names: Vec<Arc<str>>,
    owners: HashMap<String, ClusterId>,
    homes: HashMap<String, Home>,
    /// Those that a listener without a cluster leads to.
    open: Vec<ClusterId>,
}

impl ClusterChoice {
    /// From the clusters' names and the schemas that are in them alone, the default cluster first; and from what is said
    /// of users.
    pub fn new(
        clusters: impl IntoIterator<Item = (Arc<str>, Vec<String>)>,
        users: impl IntoIterator<Item = (String, Home)>,
    ) -> Self {
        let mut choice = Self::default();
        for (id, (name, schemas)) in (0u16..).map(ClusterId).zip(clusters) {
            choice.names.push(name);
            choice.owners.extend(schemas.into_iter().map(|schema| (schema.to_lowercase(), id)));
        }
        choice.homes = users.into_iter().collect();
        let of_users = choice.homes.values().filter_map(|home| home.cluster);
        choice.open = choice.owners.values().copied().chain(of_users).chain([ClusterId(0)]).collect();
        choice.open.sort_unstable();
        choice.open.dedup();
        choice
    }

    /// The cluster of a client: its listener's, else its user's, else that of the schema that it begins in, else the
    /// default.
    pub fn of(&self, client: Arriving<'_>) -> ClusterId {
        let home = self.homes.get(client.user);
        let schema = self.first_schema(client);
        let by_user = || home.and_then(|home| home.cluster);
        let by_schema = || schema.and_then(|schema| self.owner(schema));
        client.listener.or_else(by_user).or_else(by_schema).unwrap_or_default()
    }

    /// The schema that a client begins in.
    pub fn first_schema<'a>(&'a self, client: Arriving<'a>) -> Option<&'a str> {
        let own = self.homes.get(client.user).and_then(|home| home.schema.as_deref());
        client.schema.filter(|schema| !schema.is_empty()).or(own)
    }

    /// The cluster that alone has this schema.
    pub fn owner(&self, schema: &str) -> Option<ClusterId> {
        if self.owners.is_empty() {
            return None;
        }
        self.owners.get(&schema.to_lowercase()).copied()
    }

    /// The other cluster that a schema is in, for a session of `cluster`.
    pub fn elsewhere(&self, cluster: ClusterId, schema: &str) -> Option<ClusterId> {
        self.owner(schema).filter(|owner| *owner != cluster)
    }

    /// The clusters that a listener leads to, the default first; never empty.
    pub fn behind<'a>(&'a self, listener: Option<&'a ClusterId>) -> &'a [ClusterId] {
        listener.map_or(&self.open, std::slice::from_ref)
    }

    /// The name of a cluster.
    pub fn name(&self, cluster: ClusterId) -> &Arc<str> {
        &self.names[cluster.index()]
    }

    /// The cluster of this name.
    pub fn named(&self, name: &str) -> Option<ClusterId> {
        (0u16..).map(ClusterId).zip(&self.names).find(|(_, known)| ***known == *name).map(|(id, _)| id)
    }

    /// All names, the default cluster's first.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: ClusterId = ClusterId(0);
    const ORDERS: ClusterId = ClusterId(1);
    const STATS: ClusterId = ClusterId(2);

    fn choice() -> ClusterChoice {
        let clusters = [
            ("shop".into(), vec![]),
            ("orders".into(), vec!["Orders".to_owned(), "straße".to_owned()]),
            ("stats".into(), vec!["stats".to_owned()]),
            ("by port".into(), vec![]),
        ];
        let home = |cluster, schema: Option<&str>| Home { cluster, schema: schema.map(str::to_owned) };
        let users = [
            ("etl".to_owned(), home(Some(STATS), None)),
            ("cart".to_owned(), home(None, Some("orders"))),
            ("both".to_owned(), home(Some(STATS), Some("stats"))),
        ];
        ClusterChoice::new(clusters, users)
    }

    #[test]
    fn listener_then_user_then_schema_then_the_first() {
        let choice = choice();
        let of = |listener, user, schema| choice.of(Arriving { listener, user, schema });
        for (listener, user, schema, expected) in [
            (None, "app", None, SHOP),
            (None, "app", Some("anything"), SHOP),
            (None, "app", Some(""), SHOP),
            (None, "app", Some("orders"), ORDERS),
            (None, "app", Some("ORDERS"), ORDERS),
            (None, "app", Some("STRASSE"), SHOP),
            (None, "app", Some("Straße"), ORDERS),
            (None, "app", Some("stats"), STATS),
            (None, "cart", None, ORDERS),
            (None, "cart", Some(""), ORDERS),
            (None, "cart", Some("stats"), STATS),
            (None, "cart", Some("other"), SHOP),
            (None, "etl", None, STATS),
            (None, "etl", Some("orders"), STATS),
            (None, "both", None, STATS),
            (Some(SHOP), "etl", None, SHOP),
            (Some(SHOP), "app", Some("orders"), SHOP),
            (Some(ORDERS), "app", None, ORDERS),
        ] {
            assert_eq!(of(listener, user, schema), expected, "{listener:?} {user} {schema:?}");
        }
    }

    #[test]
    fn a_schema_of_one_cluster_is_in_no_other() {
        let choice = choice();
        for (cluster, schema, expected) in [
            (SHOP, "orders", Some(ORDERS)),
            (SHOP, "oRDers", Some(ORDERS)),
            (ORDERS, "orders", None),
            (SHOP, "shop", None),
            (ORDERS, "stats", Some(STATS)),
        ] {
            assert_eq!(choice.elsewhere(cluster, schema), expected, "{cluster:?} {schema}");
        }
    }

    #[test]
    fn a_listener_leads_to_its_cluster_or_to_those_that_users_and_schemas_choose() {
        let choice = choice();
        assert_eq!(choice.behind(None), [SHOP, ORDERS, STATS]);
        assert_eq!(choice.behind(Some(&ClusterId(3))), [ClusterId(3)]);
        assert_eq!(choice.named("by port"), Some(ClusterId(3)));
        assert_eq!((choice.named("nobody"), &**choice.name(ORDERS)), (None, "orders"));
    }
}
