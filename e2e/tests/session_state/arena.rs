//! The servers, the proxy, and the tables that the sessions work on.

use std::time::Duration;

use anyhow::Result;
use delphinus_e2e::{ConfigFile, Operators, Stage, until};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login};
use delphinus_wire::Capabilities;

use crate::changes::table;

/// How many logical sessions there are.
pub(crate) const SESSIONS: usize = 20;

/// A cluster with a proxy whose pool has two connections to each backend.
pub(crate) struct Arena {
    stage: Stage,
    operators: Operators,
}

impl Arena {
    pub(crate) fn start(flavor: Flavor) -> Result<Self> {
        let operators = Operators::default();
        let config = ConfigFile {
            proxy: vec!["workers = 1".to_owned()],
            pool: vec!["max_connections = 2".to_owned(), "checkout_timeout_ms = 4000".to_owned()],
            ..ConfigFile::with_sections(&operators.section())
        };
        let arena = Self { stage: Stage::with(flavor, &config)?, operators };
        for server in &arena.stage.cluster.servers {
            server.query("SET GLOBAL general_log = OFF")?;
        }
        let primary = &arena.stage.cluster.servers[0];
        primary.query(&format!("GRANT ALL ON `diff\\_%`.* TO {}@'%'", arena.stage.cluster.app_user))?;
        arena.allow_much(flavor)?;
        arena.make_shared()?;
        Ok(arena)
    }

    /// A role, and the rights for what locks everything.
    fn allow_much(&self, flavor: Flavor) -> Result<()> {
        let rights = match flavor {
            Flavor::MariaDb => "RELOAD",
            Flavor::MySql | Flavor::Group => "RELOAD, BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN",
        };
        let user = &self.stage.cluster.app_user;
        let primary = &self.stage.cluster.servers[0];
        primary.query("CREATE ROLE d_role")?;
        primary.query(&format!("GRANT d_role TO {user}@'%'"))?;
        primary.query(&format!("GRANT {rights} ON *.* TO {user}@'%'"))?;
        Ok(())
    }

    /// The login of a session, at the primary itself.
    pub(crate) fn direct(&self, session: usize) -> Login {
        self.login(&self.stage.cluster.servers[0].socket, session)
    }

    /// The login of a session, through the proxy.
    pub(crate) fn proxied(&self, session: usize) -> Login {
        self.login(&self.stage.address.socket, session)
    }

    /// Who is pinned, why, and by which statement.
    pub(crate) fn pins(&self) -> Result<String> {
        let rows = self.operators.connect(&self.stage.address)?.rows("SHOW PINS")?;
        let line = |row: &Vec<Option<String>>| {
            row.iter().map(|cell| cell.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(" | ")
        };
        Ok(rows.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    /// What the proxy has logged.
    pub(crate) fn log(&self) -> String {
        self.stage.proxy.as_ref().map(delphinus_e2e::Proxy::log).unwrap_or_default()
    }

    /// Clients differ in what they can do and in how they log in.
    fn login(&self, socket: &std::path::Path, session: usize) -> Login {
        let cluster = &self.stage.cluster;
        let login =
            Login::new(socket, &cluster.app_user, &cluster.app_password).patience(Duration::from_secs(30));
        let login = if session % 5 == 4 { login } else { login.schema(["app", "sbtest"][session % 2]) };
        let login = match session % 7 {
            1 => login.with(Capabilities::MULTI_STATEMENTS),
            2 => login.without(Capabilities::SESSION_TRACK),
            3 => login.collation(8),
            4 => login.collation(33),
            5 => login.collation(46).with(Capabilities::MULTI_STATEMENTS),
            _ => login,
        };
        if session % 10 == 9 { login.without(Capabilities::DEPRECATE_EOF) } else { login }
    }

    /// Fresh tables for one session.
    pub(crate) fn make_tables(client: &mut Client, session: usize) -> Result<()> {
        let t = table(session);
        client.run(format!("DROP DATABASE IF EXISTS diff_{session}"))?;
        client.run(format!("DROP DATABASE IF EXISTS diff_{session}_l"))?;
        for schema in ["app", "sbtest"] {
            client.run(format!("DROP TABLE IF EXISTS {schema}.{t}"))?;
            client.run(format!(
                    "CREATE TABLE {schema}.{t} (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0 UNIQUE, \
                     v VARCHAR(10)) ENGINE=InnoDB AUTO_INCREMENT=10000 DEFAULT CHARSET=utf8mb4"
                ))?;
        }
        Ok(())
    }

    /// A client for what is not the test's subject.
    pub(crate) fn plain_client(&self) -> Result<Client> {
        self.direct(0).connect()
    }

    /// Tables that nobody changes, and procedures; the replicas have them all before anybody asks.
    fn make_shared(&self) -> Result<()> {
        let mut client = self.plain_client()?;
        for schema in ["app", "sbtest"] {
            client.run(format!(
                "CREATE TABLE {schema}.d_fixed (id INT PRIMARY KEY, t VARCHAR(20), at TIMESTAMP NOT NULL \
                     DEFAULT '2026-01-02 03:04:05') DEFAULT CHARSET=utf8mb4"
            ))?;
            client.run(format!(
                    "INSERT INTO {schema}.d_fixed (id, t) VALUES (1, 'one'), (2, '{schema}'), (3, '\u{e9}t\u{e9}'), (4, NULL)"
                ))?;
        }
        client.run("CREATE TABLE app.d_noise (n INT AUTO_INCREMENT PRIMARY KEY)")?;
        let servers = &self.stage.cluster.servers;
        servers[0].query("SET GLOBAL log_bin_trust_function_creators = 1")?;
        client.run("CREATE FUNCTION app.d_function(n INT) RETURNS INT DETERMINISTIC BEGIN SET @d = CONCAT('by ', n); RETURN n; END")?;
        for procedure in PROCEDURES {
            client.run(format!("CREATE PROCEDURE app.{procedure}"))?;
        }
        self.wait_for_replicas(&mut client)
    }

    /// Waits until the replicas have everything that was written before.
    pub(crate) fn wait_for_replicas(&self, client: &mut Client) -> Result<()> {
        client.run("CREATE TABLE IF NOT EXISTS app.d_marker (n INT AUTO_INCREMENT PRIMARY KEY)")?;
        client.run("INSERT INTO app.d_marker VALUES ()")?;
        let count = |server: &delphinus_sandbox::Server| server.query("SELECT COUNT(*) FROM app.d_marker");
        let servers = &self.stage.cluster.servers;
        let wanted = count(&servers[0])?;
        until(Duration::from_secs(30), "the replicas to follow", || {
            servers.iter().try_fold(true, |all, server| Ok(all && count(server)? == wanted))
        })
    }
}

const PROCEDURES: &[&str] = &[
    "d_set_mode(IN mode TEXT) SET SESSION sql_mode = mode",
    "d_zone(IN zone TEXT) BEGIN SET time_zone = zone; SELECT @@time_zone; END",
    "d_set_user(IN value INT) SET @a = value, @b = CONCAT('<', value, '>')",
    "d_rows(IN n INT) SELECT * FROM app.d_fixed WHERE id <= n ORDER BY id",
    "d_out(IN n INT, OUT twice INT) SET twice = n * 2",
    "d_mixed() BEGIN SET @c = 'from the procedure', @@sql_notes = 0; SELECT @c; SET div_precision_increment = 7; SELECT 1/3; END",
    "d_fails() BEGIN SET @d = 'before'; SET max_error_count = 9; SELECT * FROM app.no_such_table; SET @d = 'after'; END",
    "d_opens(IN what INT) BEGIN IF what = 1 THEN SET autocommit = 0; START TRANSACTION; \
     ELSE CREATE TEMPORARY TABLE app.tmp_proc AS SELECT 5 AS five; END IF; END",
    "d_transaction(OUT n INT) BEGIN START TRANSACTION; SELECT COUNT(*) INTO n FROM app.d_fixed; COMMIT; END",
];
