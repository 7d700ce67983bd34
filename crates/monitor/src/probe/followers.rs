//! Who replicates from a server: `SHOW REPLICAS` under its names through the years, and, for those that do not say where they are, the
//! server's own list of those that read its log.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/show-replicas.html> and
//! <https://mariadb.com/kb/en/show-replica-hosts/>.

use std::collections::BTreeSet;
use std::sync::Arc;

use delphinus_topology::{Flavor, Follower, Followers, ServerFacts};

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{NamedRow, Row, query, receive_named, send};

/// More replicas than any server has.
const MOST: usize = 1024;

/// Why there is no list, where it does not come.
const LATE: &str = "no answer in time";

/// Threads that send the log. `information_schema` has the list on every server so far; on MySQL it is to go one day.
const READERS: [&str; 2] = [
    "SELECT HOST FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'",
    "SELECT HOST FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'",
];

/// One row of the answer.
#[derive(Debug)]
struct Listed {
    id: String,
    /// `report_host`: empty where nobody has set it.
    host: String,
    /// `report_port`: where the replica listens, if nobody has set it.
    port: String,
}

/// Asks. That the monitor's user may not know is an answer, too.
pub(super) async fn read(connection: &mut Connection, facts: &ServerFacts) -> Result<Followers, ProbeError> {
    send(connection, &[statement(facts)]).await?;
    let listed: Vec<_> = match receive_named(connection, MOST).await {
        Ok(named) => named.rows().filter_map(listed).collect(),
        Err(error @ ProbeError::Answer(_)) => {
            return Ok(Followers::Unseen(format!("the replicas cannot be seen: {error}").into()));
        }
        Err(error) => return Err(error),
    };
    let is_hidden = listed.iter().any(|one| one.host.is_empty());
    let hosts = if is_hidden { read_hosts(connection).await? } else { BTreeSet::new() };
    Ok(Followers::Known(followers(&listed, &hosts)))
}

/// What counts of a reading: a list that is too long, or does not come in time, does not make the primary look dead. False if the
/// connection is of no more use.
pub(super) fn judged(
    reading: Option<Result<Followers, ProbeError>>,
) -> Result<(Followers, bool), ProbeError> {
    let why = match reading {
        Some(Ok(followers)) => return Ok((followers, true)),
        Some(Err(ProbeError::Nonsense(why))) => why,
        Some(Err(error)) => return Err(error),
        None => LATE,
    };
    Ok((unseen(why), false))
}

/// What counts if the probe ends while the list is read, as where the server hangs: what was known before, or that it has not come.
pub(super) fn meanwhile(before: Option<&Followers>) -> Followers {
    before.cloned().unwrap_or_else(|| unseen(LATE))
}

fn unseen(why: &str) -> Followers {
    Followers::Unseen(format!("the replicas cannot be seen: {why}").into())
}

fn statement(facts: &ServerFacts) -> &'static str {
    match facts.flavor {
        Flavor::MySql if facts.version_number >= 80_022 => "SHOW REPLICAS",
        Flavor::MySql | Flavor::MariaDb => "SHOW SLAVE HOSTS",
    }
}

fn listed(row: NamedRow<'_>) -> Option<Listed> {
    let text = |wanted: &'static str| {
        row.text(move |name| name.eq_ignore_ascii_case(wanted.as_bytes())).unwrap_or_default()
    };
    let uuid = row.text(|name| matches!(name, b"Replica_UUID" | b"Slave_UUID")).unwrap_or_default();
    let id = if uuid.is_empty() { text("Server_id").into_owned() } else { uuid.to_ascii_lowercase() };
    let (host, port) = (text("Host").into_owned(), text("Port").into_owned());
    (!id.is_empty()).then_some(Listed { id, host, port })
}

/// From where the log is read. A user who may not see it sees nobody.
async fn read_hosts(connection: &mut Connection) -> Result<BTreeSet<String>, ProbeError> {
    for sql in READERS {
        match query(connection, sql, MOST).await {
            Ok(rows) => return Ok(rows.iter().filter_map(host).collect()),
            Err(ProbeError::Answer(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(BTreeSet::new())
}

/// The host of `host:port`, where that port is the connection's own.
fn host(row: &Row) -> Option<String> {
    let text = String::from_utf8_lossy(row.first()?.as_deref()?).into_owned();
    let (host, _) = text.rsplit_once(':')?;
    (!host.is_empty()).then(|| host.to_owned())
}

/// In an order that is always the same: what has not changed must look the same.
fn followers(listed: &[Listed], hosts: &BTreeSet<String>) -> Arc<[Follower]> {
    let follower = |one: &Listed| {
        let Listed { id, host, port } = one;
        let addresses: Vec<Arc<str>> = if host.is_empty() {
            hosts.iter().map(|host| format!("{host}:{port}").into()).collect()
        } else {
            vec![format!("{host}:{port}").into()]
        };
        Follower { id: id.as_str().into(), addresses }
    };
    let mut all: Vec<_> = listed.iter().map(follower).collect();
    all.sort();
    // One that follows with several threads is listed by each.
    all.dedup_by(|one, other| one.id == other.id);
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_without_a_host_may_be_wherever_the_log_is_read_from() {
        let listed = |id: &str, host: &str, port: &str| Listed {
            id: id.to_owned(),
            host: host.to_owned(),
            port: port.to_owned(),
        };
        let rows: Vec<Row> = ["10.0.0.9:51234", "db7:1", "[::1]:7", "fd00::1:40000", "", "nonsense"]
            .iter()
            .map(|text| vec![Some(text.as_bytes().to_vec())])
            .chain([vec![None], vec![]])
            .collect();
        let hosts: BTreeSet<_> = rows.iter().filter_map(host).collect();
        assert_eq!(
            hosts.iter().map(String::as_str).collect::<Vec<_>>(),
            ["10.0.0.9", "[::1]", "db7", "fd00::1"]
        );
        let hosts = ["a".to_owned(), "b".to_owned()].into();
        let all = followers(&[listed("3", "", "3307"), listed("2", "h", "1"), listed("2", "h", "1")], &hosts);
        let shown: Vec<_> = all.iter().map(|one| format!("{} {}", one.id, one.addresses.join(" "))).collect();
        assert_eq!(shown, ["2 h:1", "3 a:3307 b:3307"]);
        assert!(followers(&[listed("3", "", "3307")], &BTreeSet::new())[0].addresses.is_empty());
    }

    #[test]
    fn a_list_that_cannot_be_had_makes_nobody_look_dead() {
        for reading in [None, Some(Err(ProbeError::Nonsense("too many rows")))] {
            assert!(matches!(judged(reading), Ok((Followers::Unseen(_), false))));
        }
        assert!(matches!(judged(Some(Ok(Followers::NotAsked))), Ok((Followers::NotAsked, true))));
        let lost = ProbeError::Net(delphinus_net::NetError::TimedOut(1));
        assert!(judged(Some(Err(lost))).is_err());
    }

    /// The server hangs, is back, and its list is not due again for a while.
    #[test]
    fn a_probe_that_ends_while_the_list_is_read_keeps_what_was_known() {
        let known = Followers::Known(followers(&[], &BTreeSet::new()));
        assert_eq!(meanwhile(Some(&known)), known);
        assert!(matches!(meanwhile(None), Followers::Unseen(_)));
    }

    #[test]
    fn each_server_is_asked_in_its_own_words() {
        for (flavor, version_number, words) in [
            (Flavor::MySql, 90_700, "SHOW REPLICAS"),
            (Flavor::MySql, 80_022, "SHOW REPLICAS"),
            (Flavor::MySql, 80_021, "SHOW SLAVE HOSTS"),
            (Flavor::MySql, 50_744, "SHOW SLAVE HOSTS"),
            (Flavor::MariaDb, 101_106, "SHOW SLAVE HOSTS"),
        ] {
            let facts = ServerFacts {
                version: String::new(),
                version_number,
                flavor,
                default_collation: 45,
                collations: delphinus_topology::Collations::default(),
                is_delphinus: false,
            };
            assert_eq!(statement(&facts), words, "{flavor:?} {version_number}");
        }
    }
}
