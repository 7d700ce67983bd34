//! One proxy before two clusters: MariaDB servers, the default, and MySQL servers.

use std::path::PathBuf;
use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Login, ServerError, Stage, until};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, PortLease, Role, Silent};

pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// The stage's own cluster is `shop`; `stats` is chosen by a listener, by the user `etl`, and by the schema `orders`.
pub(crate) struct Two {
    pub(crate) stage: Stage,
    pub(crate) stats: Cluster,
    /// The listener that leads to `stats`.
    pub(crate) to_stats: Address,
    operators: Address,
    pub(crate) config: PathBuf,
    _ports: [PortLease; 2],
}

impl Two {
    /// With further sections, and lines for the cluster `stats`.
    pub(crate) fn start(sections: &str, of_stats: &str) -> Self {
        let spec = ClusterSpec { flavor: Flavor::MySql, replicas: 1, ..ClusterSpec::default() };
        let stats = Cluster::start(&spec, &Silent).unwrap();
        stats.servers[0].query("CREATE DATABASE orders; CREATE TABLE orders.t (who TEXT)").unwrap();
        for user in ["app", "app2"] {
            stats.servers[0].query(&format!("GRANT ALL ON orders.* TO {user}@'%'")).unwrap();
        }
        let ports = [PortLease::take().unwrap(), PortLease::take().unwrap()];
        let [to_stats, operators] = [ports[0].port(), ports[1].port()];
        let mut file = ConfigFile::with_sections(&format!(
            "[[listener]]\nname = \"to stats\"\naddress = \"127.0.0.1:{to_stats}\"\ncluster = \"stats\"\n\
             [[user]]\nname = \"etl\"\npassword = \"etl-pw\"\ncluster = \"stats\"\n\
             [admin]\naddresses = [\"127.0.0.1:{operators}\"]\n\
             [[admin.user]]\nname = \"ops\"\npassword = \"operator-pw\"\nrole = \"operate\"\n{sections}\n\
             [[cluster]]\nname = \"stats\"\nschemas = [\"orders\"]\n{of_stats}\n{}",
            backends(&stats)
        ));
        file.cluster = vec!["name = \"shop\"".to_owned(), "schemas = [\"sbtest\"]".to_owned()];
        let stage = Stage::with(Flavor::MariaDb, &file).unwrap();
        // What is left of a schema that has moved: nobody is to see it.
        stage.cluster.servers[0].query("CREATE DATABASE orders; GRANT ALL ON orders.* TO app@'%'").unwrap();
        for cluster in [&stage.cluster, &stats] {
            cluster.servers[0].query("CREATE USER etl@'%' IDENTIFIED BY 'etl-pw'").unwrap();
            cluster.servers[0].query("GRANT ALL ON *.* TO etl@'%'").unwrap();
            wait_for(cluster, "etl");
        }
        let at = |port| Address { port, ..stage.address.clone() };
        let (to_stats, operators) = (at(to_stats), at(operators));
        let config = stage.address.socket.with_file_name("delphinus.toml");
        Self { stage, stats, to_stats, operators, config, _ports: ports }
    }

    /// By the listener without a cluster.
    pub(crate) fn login(&self, user: &str, password: &str, schema: &str) -> Login {
        let mut login = Login::new(&self.stage.address);
        (login.user, login.password) = (user.to_owned(), password.to_owned());
        schema.clone_into(&mut login.database);
        login
    }

    /// The application, by this schema.
    pub(crate) fn app(&self, schema: &str) -> Client {
        Client::connect(&self.login("app", "apppw", schema)).unwrap()
    }

    pub(crate) fn operator(&self) -> Client {
        Client::connect(&self.login("ops", "operator-pw", "").over_tcp(&self.operators)).unwrap()
    }

    /// The cluster that answers a session, as its servers say.
    pub(crate) fn of(&self, client: &mut Client) -> &'static str {
        let port: u16 = client.value("SELECT port FROM app.answered_by").unwrap().parse().unwrap();
        let has_it = |cluster: &Cluster| cluster.servers.iter().any(|server| server.port == port);
        match (has_it(&self.stage.cluster), has_it(&self.stats)) {
            (true, false) => "shop",
            (false, true) => "stats",
            _ => panic!("nobody listens on {port}"),
        }
    }
}

/// Until every server knows this user.
pub(crate) fn wait_for(cluster: &Cluster, user: &str) {
    let count = format!("SELECT COUNT(*) FROM mysql.user WHERE user = '{user}'");
    let knows = |server: &delphinus_sandbox::Server| anyhow::Ok(server.query(&count)?.trim() == "1");
    until(LIMIT, "all servers to know the user", || {
        cluster.servers.iter().try_fold(true, |all, server| Ok(all && knows(server)?))
    })
    .unwrap();
}

fn backends(cluster: &Cluster) -> String {
    let one = |(number, server): (usize, &delphinus_sandbox::Server)| {
        let role = if server.role == Role::Primary { "primary" } else { "replica" };
        format!(
            "[[cluster.backend]]\nname = \"stats{number}\"\naddress = \"{}:{}\"\nrole = \"{role}\"\n",
            server.host, server.port
        )
    };
    (1..).zip(&cluster.servers).map(one).collect()
}

/// The refusal of a login.
pub(crate) fn refusal(login: &Login) -> ServerError {
    Client::connect(login).expect_err("a login that has to fail").downcast().unwrap()
}
