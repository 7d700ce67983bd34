//! The facts for `delphinus_doctor`: asks every backend of a configuration, each as the monitor's user and as the users of the file.
//!
//! Decides nothing. It changes nothing on a server; a user whose password is wrong in the file has one more failed login there.

mod remote_relays;
mod sources;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delphinus_config::{self as config, Backend, Cluster, Config, Credential, LagSource, TopologyKind};
use delphinus_doctor::{Answer, Channel, Facts, Finding, Machine, Replication, Server, UserLogin, examine};
use delphinus_monitor::Inquiry;
use delphinus_net::{Place, rt};
use delphinus_wire::auth::Password;

use crate::settings::{address, reach};

/// How long a connection, a login or an answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Privileges on all schemas with which SHOW DATABASES shows all of them.
const SEES_SCHEMAS: [&str; 12] = [
    "ALL PRIVILEGES",
    "SHOW DATABASES",
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "ALTER",
    "EVENT",
    "TRIGGER",
    "SHOW VIEW",
];

/// The server's time. It is UTC: in a time zone one hour comes twice each autumn.
const NOW_MS: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 AS now_ms";

type Row = BTreeMap<String, String>;

/// What is wrong with a configuration and its servers.
///
/// # Errors
/// There is no runtime to be had.
pub fn look_for_faults(config: &Config) -> std::io::Result<Vec<Finding>> {
    rt::block_on(faults(Rc::new(config.clone()), false))
}

/// The same in a runtime. `is_proxy`: this process is the proxy that has this configuration.
pub(crate) async fn faults(config: Rc<Config>, is_proxy: bool) -> Vec<Finding> {
    let all = config.clusters.iter().enumerate();
    let places: Vec<_> =
        all.flat_map(|(at, cluster)| (0..cluster.backends.len()).map(move |index| (at, index))).collect();
    let answers: Rc<RefCell<Vec<Server>>> = Rc::default();
    let tasks: Vec<_> = places
        .into_iter()
        .map(|(cluster, backend)| {
            let (config, answers) = (config.clone(), answers.clone());
            rt::spawn_local(async move {
                let server = look_at(&config, (cluster, backend)).await;
                answers.borrow_mut().push(server);
            })
        })
        .collect();
    for task in tasks {
        // One that has panicked has no answer.
        let _ = task.await;
    }
    let mut servers = answers.take();
    servers.sort_by_key(|server| (server.cluster, server.backend));
    let sources = sources::look_at_all(&config).await;
    let remote_relays = remote_relays::look_at_all(&config).await;
    examine(&Facts { config: &config, machine: machine(is_proxy), servers, sources, remote_relays })
}

fn machine(is_proxy: bool) -> Machine {
    use rustix::process::{Resource, getrlimit};
    Machine { files: getrlimit(Resource::Nofile).maximum, is_proxy }
}

async fn look_at(config: &Config, (cluster, backend): (usize, usize)) -> Server {
    let of = &config.clusters[cluster];
    let listed = &of.backends[backend];
    let answer = |answer| Server { cluster, backend, answer, users: Vec::new() };
    let reach = match reach(listed) {
        Ok(reach) => reach,
        Err(error) => return answer(Err(error.to_string())),
    };
    let place = Place::of(listed.name.as_str().into(), address(listed), reach);
    let monitor = (&*of.monitor.user, Password::new(of.monitor.password.expose()));
    let asked = match Inquiry::open(&place, monitor, LIMIT).await {
        Ok(mut inquiry) => {
            let asked = ask(&mut inquiry, (of, listed)).await;
            inquiry.close().await;
            asked
        }
        Err(error) => Err(error),
    };
    let is_reached = asked.is_ok() || asked.as_ref().is_err_and(|error| error.starts_with("error "));
    let users = if is_reached { try_users(config, cluster, &place).await } else { Vec::new() };
    Server { users, ..answer(asked) }
}

/// Tries the users whose passwords the file has, and whose sessions can get to this cluster.
async fn try_users(config: &Config, cluster: usize, place: &std::sync::Arc<Place>) -> Vec<UserLogin> {
    let mut tried = Vec::new();
    for user in config.users.iter().filter(|user| config.reach_of(user).contains(&cluster)) {
        let Credential::Password(password) = &user.credential else { continue };
        let opened = Inquiry::open(place, (&user.name, Password::new(password.expose())), LIMIT).await;
        let refused = match opened {
            Ok(inquiry) => {
                inquiry.close().await;
                None
            }
            Err(error) => Some(error),
        };
        tried.push(UserLogin { user: user.name.clone(), refused });
    }
    tried
}

async fn ask(inquiry: &mut Inquiry, (cluster, backend): (&Cluster, &Backend)) -> Result<Answer, String> {
    let (clock_ahead_ms, clock_known_to_ms) = clock(inquiry).await?;
    let variables = pairs(inquiry.ask("SHOW GLOBAL VARIABLES").await?);
    let status = inquiry.ask("SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Rpl_semi_sync%'").await;
    let is_mariadb =
        variables.get("version").is_some_and(|version| version.to_lowercase().contains("mariadb"));
    let grants = inquiry.ask("SHOW GRANTS").await.unwrap_or_default();
    let grants: Vec<String> = grants.into_iter().filter_map(|row| row.into_values().next()).collect();
    let schemas = inquiry.ask("SHOW DATABASES").await.ok().filter(|_| sees_schemas(&grants));
    let replication = if backend.role.is_none() && cluster.topology == TopologyKind::GroupReplication {
        Replication::NotAsked
    } else {
        replication(inquiry, is_mariadb).await
    };
    let group_unseen = match cluster.topology {
        TopologyKind::GroupReplication => {
            inquiry.ask("SELECT COUNT(*) FROM performance_schema.replication_group_members").await.err()
        }
        TopologyKind::Static | TopologyKind::ReadOnly => None,
    };
    Ok(Answer {
        variables,
        status: pairs(status.unwrap_or_default()),
        clock_ahead_ms,
        clock_known_to_ms,
        replication,
        schemas: schemas.map(|rows| {
            rows.into_iter().filter_map(|row| Some(row.into_values().next()?.to_lowercase())).collect()
        }),
        grants,
        group_unseen,
        set_by_hand: Vec::new(),
        is_relay: false,
        has_heartbeat: heartbeat(inquiry, &cluster.monitor).await,
    })
}

/// How far the clock is ahead, and how well that is known, in milliseconds.
async fn clock(inquiry: &mut Inquiry) -> Result<(i64, u64), String> {
    let millis = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    };
    let before = millis();
    let rows = inquiry.ask(NOW_MS).await?;
    let after = millis();
    let told = rows.first().and_then(|row| row.get("now_ms")?.parse::<i64>().ok());
    let now = told.ok_or("the server does not report its time")?;
    let half = (after - before).max(0) / 2;
    Ok((now - (before + half), half.unsigned_abs() + 1))
}

/// Rows of a name and a value.
fn pairs(rows: Vec<Row>) -> BTreeMap<String, String> {
    let pair = |mut row: Row| {
        let value = row.remove("value").unwrap_or_default();
        Some((row.remove("variable_name")?.to_ascii_lowercase(), value))
    };
    rows.into_iter().filter_map(pair).collect()
}

fn sees_schemas(grants: &[String]) -> bool {
    let on_all = grants.iter().filter_map(|grant| {
        let (privileges, _) = grant.strip_prefix("GRANT ")?.split_once(" ON *.*")?;
        Some(privileges)
    });
    on_all
        .flat_map(|privileges| privileges.split(','))
        .any(|privilege| SEES_SCHEMAS.contains(&privilege.trim()))
}

async fn replication(inquiry: &mut Inquiry, is_mariadb: bool) -> Replication {
    let mut asked =
        inquiry.ask(if is_mariadb { "SHOW ALL SLAVES STATUS" } else { "SHOW REPLICA STATUS" }).await;
    if !is_mariadb && asked.as_ref().is_err_and(|error| error.starts_with("error 1064")) {
        asked = inquiry.ask("SHOW SLAVE STATUS").await;
    }
    match asked {
        Ok(rows) => Replication::From(rows.iter().map(channel).collect()),
        Err(error) => Replication::Unseen(error),
    }
}

fn channel(row: &Row) -> Channel {
    let value = |names: [&str; 2]| names.iter().find_map(|name| row.get(*name)).map_or("", String::as_str);
    let runs = |names: [&str; 2]| value(names).eq_ignore_ascii_case("yes");
    let errors = [("last_io_errno", "last_io_error"), ("last_sql_errno", "last_sql_error")];
    let error = errors.iter().find_map(|(number, text)| {
        let number = row.get(*number).filter(|number| *number != "0")?;
        Some(format!("error {number}: {}", row.get(*text)?))
    });
    Channel {
        name: value(["channel_name", "connection_name"]).to_owned(),
        receives: runs(["replica_io_running", "slave_io_running"]),
        applies: runs(["replica_sql_running", "slave_sql_running"]),
        delay_s: row.get("sql_delay").and_then(|delay| delay.parse().ok()).unwrap_or(0),
        error: error.unwrap_or_default(),
    }
}

async fn heartbeat(inquiry: &mut Inquiry, monitor: &config::Monitor) -> Option<bool> {
    if monitor.lag_source != LagSource::Heartbeat || monitor.lag_down_ms == 0 {
        return None;
    }
    let quoted = |name: &str| name.replace('\\', "\\\\").replace('\'', "''");
    let table = &monitor.heartbeat_table;
    let sql = format!(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = '{}'",
        quoted(&table.schema),
        quoted(&table.table)
    );
    inquiry.ask(&sql).await.ok().map(|rows| !rows.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, &str)]) -> Row {
        cells.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_status_of_a_replica_is_read_under_all_its_names() {
        let mysql = row(&[
            ("replica_io_running", "Connecting"),
            ("replica_sql_running", "Yes"),
            ("last_io_errno", "2003"),
            ("last_io_error", "no way"),
            ("sql_delay", "60"),
            ("channel_name", "c"),
        ]);
        let error = "error 2003: no way".to_owned();
        let expected = Channel { name: "c".to_owned(), receives: false, applies: true, delay_s: 60, error };
        assert_eq!(channel(&mysql), expected);
        let mariadb =
            row(&[("slave_io_running", "Yes"), ("slave_sql_running", "Yes"), ("last_sql_errno", "0")]);
        assert_eq!(channel(&mariadb), Channel { receives: true, applies: true, ..Channel::default() });
    }

    #[test]
    fn no_time_is_asked_for_that_a_time_zone_may_have_twice() {
        assert!(NOW_MS.contains("UTC_TIMESTAMP(6)") && !NOW_MS.contains("NOW("));
    }

    #[test]
    fn who_may_see_all_schemas_is_read_from_grants() {
        let sees = |grant: &str| sees_schemas(&[grant.to_owned()]);
        assert!(
            sees("GRANT PROCESS, TRIGGER ON *.* TO `m`@`%`")
                && sees("GRANT ALL PRIVILEGES ON *.* TO `m`@`%`")
        );
        assert!(!sees("GRANT PROCESS ON *.* TO `m`@`%`") && !sees("GRANT SELECT ON `app`.* TO `m`@`%`"));
    }
}
