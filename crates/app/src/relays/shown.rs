//! What is shown of relays: to operators, and to those who move the roles of their sources.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delphinus_admin::{RelayArchiveRow, RelayFenceRow, RelayFileRow, RelayReplicaRow, RelayRow, RelayTimes};
use delphinus_net::Address;
use delphinus_relay::keep::KeptFile;
use delphinus_relay::log::LogFile;
use delphinus_relay::replica::ReplicaRow;
use delphinus_relay::{Epoch, State, Target, Times};
use delphinus_topology::promotion::RelayStanding;
use delphinus_wire::gtid::GtidSet;

use super::One;

/// How a relay stands, for moves of this process and of others.
pub(super) struct Stand {
    epoch: Epoch,
    is_on_disk: bool,
    follows: Option<Target>,
    state: State,
    is_acknowledging: bool,
    has: GtidSet,
}

impl Stand {
    pub(super) fn of(one: &One) -> Self {
        let relay = &one.relay;
        // Before what it has: that was acknowledged in this epoch, too.
        let (epoch, is_on_disk) = (relay.epoch(), relay.is_epoch_on_disk());
        let state = relay.status().told().state;
        let is_acknowledging = state == State::Receiving && relay.status().semi_sync.load(Relaxed);
        Self {
            epoch,
            is_on_disk,
            follows: relay.target(),
            state,
            is_acknowledging,
            has: relay.log().executed(),
        }
    }

    pub(super) fn standing(self) -> RelayStanding {
        RelayStanding {
            epoch: self.epoch.epoch,
            is_cut: self.epoch.is_cut,
            is_by_move: self.epoch.is_by_move,
            forgets: !self.is_on_disk,
            source: self.epoch.source.map(Into::into),
            refused: self.epoch.refused.into_iter().map(Into::into).collect(),
            follows: self.follows.map(|target| target.name.into()),
            is_receiving: self.state == State::Receiving,
            misses_it: matches!(self.state, State::Connecting | State::Retrying),
            is_acknowledging: self.is_acknowledging,
            has: Arc::new(self.has),
        }
    }

    pub(super) fn row(self, one: &One, may_follow: Option<Vec<String>>) -> RelayFenceRow {
        let settings = one.relay.settings();
        let cut_by = if self.epoch.is_by_move { "move" } else { "operator" };
        RelayFenceRow {
            name: settings.name.clone(),
            server_id: settings.server_id,
            reported: one.reported.clone().map(|(host, port)| Address::Tcp(host, port).to_string()),
            epoch: self.epoch.epoch,
            cut_by: self.epoch.is_cut.then_some(cut_by),
            is_on_disk: self.is_on_disk,
            acknowledges_to: self.epoch.source,
            refused: self.epoch.refused,
            follows: self.follows.map(|target| (target.name, target.address.to_string())),
            may_follow,
            state: self.state.word(),
            is_acknowledging: self.is_acknowledging,
            executed: self.has.to_string(),
        }
    }
}

pub(super) fn row(one: &One) -> RelayRow {
    let relay = &one.relay;
    let (status, log, kept) = (relay.status(), relay.log(), one.keeper.totals());
    let (told, files) = (status.told(), log.files());
    let newest = log.end().and_then(|end| Some((log.file(end.ordinal)?.name.to_string(), end.offset)));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let heard = Duration::from_millis(status.heard.load(Relaxed));
    let is_receiving = told.state == State::Receiving;
    RelayRow {
        name: relay.settings().name.clone(),
        state: told.state.word(),
        source: told.source,
        source_uuid: (!told.identity.is_empty()).then_some(told.identity),
        compression: (!told.compression.is_empty()).then_some(told.compression),
        epoch: relay.epoch().epoch,
        is_acknowledging: is_receiving && status.semi_sync.load(Relaxed),
        file: newest,
        executed: log.executed().to_string(),
        purged: log.purged().to_string(),
        files: files.len() as u64,
        bytes: files.iter().map(|file| file.len()).sum(),
        received_bytes: status.bytes.load(Relaxed),
        acks: status.acks.load(Relaxed),
        delay: (status.newest.load(Relaxed) > 0).then(|| Duration::from_millis(status.delay.load(Relaxed))),
        silence: (!heard.is_zero()).then(|| now.saturating_sub(heard)),
        connections: status.connections.load(Relaxed),
        failures: status.failures.load(Relaxed),
        error: (!told.error.is_empty()).then_some(told.error),
        removed_files: kept.removed,
        archive: kept.archived.map(|archived| RelayArchiveRow {
            archived,
            failures: kept.archive_failures,
            waiting: kept.unarchived,
            error: (!kept.archive_error.is_empty()).then_some(kept.archive_error),
        }),
        syncs: times(&status.sync_times),
        ack_times: times(&status.ack_times),
    }
}

fn times(times: &Times) -> RelayTimes {
    let (counts, sum) = times.read();
    let mut count = 0;
    let mut up_to = Vec::with_capacity(Times::BUCKETS);
    for (bucket, more) in counts.into_iter().enumerate() {
        count += more;
        if bucket + 1 < Times::BUCKETS {
            up_to.push((Times::upper(bucket), count));
        }
    }
    RelayTimes { up_to, sum, count }
}

pub(super) fn replica_row(relay: &str, row: ReplicaRow) -> RelayReplicaRow {
    RelayReplicaRow {
        relay: relay.to_owned(),
        id: row.id,
        user: row.user,
        host: row.host,
        server_id: row.server_id,
        uuid: (!row.uuid.is_empty()).then_some(row.uuid),
        is_program: row.is_program,
        reports: (!row.reports.is_empty()).then_some(row.reports),
        is_tls: row.is_tls,
        compression: row.compression,
        state: row.state,
        file: row.file,
        position: row.position,
        behind_bytes: row.behind_bytes,
        delay: Duration::from_secs(row.delay_s),
        sent_bytes: row.sent_bytes,
        sent_events: row.sent_events,
        connected: row.connected,
    }
}

pub(super) fn file_row(relay: &str, file: &LogFile, kept: KeptFile) -> RelayFileRow {
    RelayFileRow {
        relay: relay.to_owned(),
        path: file.path().display().to_string(),
        name: file.name.to_string(),
        source_uuid: file.folder.source.identity.clone(),
        bytes: file.len(),
        previous: file.previous.to_string(),
        is_in_use: file.is_in_use(),
        is_archived: kept.is_archived,
        held: (!kept.held.is_empty()).then_some(kept.held),
    }
}
