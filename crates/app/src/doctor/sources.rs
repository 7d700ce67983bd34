//! What the sources of relays say to the relays' own users.

use std::cell::RefCell;
use std::rc::Rc;

use delphinus_config::{self as config, Backend, Config, RelaySource};
use delphinus_doctor::{Answer, Source};
use delphinus_monitor::Inquiry;
use delphinus_net::{Place, rt};
use delphinus_wire::auth::Password;

use super::{LIMIT, pairs};
use crate::settings::{address, reach};

/// Which of these variables were set by SET GLOBAL alone.
const BY_HAND_ON_MYSQL: &str = "SELECT VARIABLE_NAME AS name FROM performance_schema.variables_info \
     WHERE VARIABLE_NAME IN ('rpl_semi_sync_source_enabled', 'rpl_semi_sync_master_enabled') AND VARIABLE_SOURCE = 'DYNAMIC' \
     AND VARIABLE_NAME NOT IN (SELECT VARIABLE_NAME FROM performance_schema.persisted_variables)";
const BY_HAND_ON_MARIADB: &str = "SELECT LOWER(VARIABLE_NAME) AS name FROM information_schema.SYSTEM_VARIABLES \
     WHERE VARIABLE_NAME = 'RPL_SEMI_SYNC_MASTER_ENABLED' AND GLOBAL_VALUE_ORIGIN = 'SQL'";

/// Asks the sources of all relays, all at the same time.
pub(super) async fn look_at_all(config: &Rc<Config>) -> Vec<Source> {
    let mut wanted = Vec::new();
    for (relay, settings) in config.relays.iter().enumerate() {
        match &settings.source {
            RelaySource::Server(server) => wanted.push((relay, None, server)),
            RelaySource::Cluster(cluster) => {
                let backends = config.clusters[*cluster].backends.iter().enumerate();
                wanted.extend(backends.map(|(at, server)| (relay, Some((*cluster, at)), server)));
            }
        }
    }
    let found = Rc::<RefCell<Vec<Source>>>::default();
    let ask = |(relay, backend, server): (usize, _, &Backend)| {
        let (config, found, server) = (config.clone(), found.clone(), server.clone());
        rt::spawn_local(async move {
            let answer = look_at(&config.relays[relay], &server).await;
            found.borrow_mut().push(Source { relay, backend, answer });
        })
    };
    let tasks: Vec<_> = wanted.into_iter().map(ask).collect();
    for task in tasks {
        // One that has panicked has no answer.
        let _ = task.await;
    }
    let mut all = found.take();
    all.sort_by_key(|source| (source.relay, source.backend));
    all
}

async fn look_at(relay: &config::Relay, server: &Backend) -> Result<Answer, String> {
    let reach = reach(server).map_err(|error| error.to_string())?;
    let place = Place::of(server.name.as_str().into(), address(server), reach);
    let mut inquiry =
        Inquiry::open(&place, (&relay.user, Password::new(relay.password.expose())), LIMIT).await?;
    let asked = ask(&mut inquiry).await;
    inquiry.close().await;
    asked
}

async fn ask(inquiry: &mut Inquiry) -> Result<Answer, String> {
    let comment = pairs(inquiry.ask("SHOW GLOBAL VARIABLES LIKE 'version_comment'").await?);
    if comment.values().any(|comment| comment == delphinus_relay::replica::VERSION_COMMENT) {
        // It answers no more questions than replicas have.
        let variables = pairs(inquiry.ask("SHOW GLOBAL VARIABLES LIKE 'server_id'").await?);
        return Ok(Answer { variables, is_relay: true, ..Answer::default() });
    }
    let variables = pairs(inquiry.ask("SHOW GLOBAL VARIABLES").await?);
    let status = inquiry.ask("SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Rpl_semi_sync%'").await?;
    let grants = inquiry.ask("SHOW GRANTS").await.unwrap_or_default();
    let is_mariadb =
        variables.get("version").is_some_and(|version| version.to_lowercase().contains("mariadb"));
    // A user that may not see it is told nothing of it.
    let by_hand = inquiry.ask(if is_mariadb { BY_HAND_ON_MARIADB } else { BY_HAND_ON_MYSQL }).await;
    Ok(Answer {
        variables,
        status: pairs(status),
        grants: grants.into_iter().filter_map(|row| row.into_values().next()).collect(),
        set_by_hand: by_hand
            .unwrap_or_default()
            .into_iter()
            .filter_map(|mut row| row.remove("name"))
            .collect(),
        ..Answer::default()
    })
}
