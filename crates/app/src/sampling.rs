//! What all sessions do, noted once a second, and what is counted, once an hour. Runs on the control plane's thread: it reads the
//! cells that sessions write anyway, and gives what it has read to the thread that stores it. No worker waits for it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delphinus_clients::{Activity, Registry, Sampled};
use delphinus_history::{Row, Sample};
use delphinus_net::rt;
use delphinus_route::Reason;
use delphinus_topology::ClusterId;
use delphinus_view::SnapshotReader;
use delphinus_wire::command::Code;

use crate::reload::Running;

/// Between two samples.
const SECOND: Duration = Duration::from_secs(1);

/// The clusters, in the order of their numbers.
pub(crate) type Clusters = Vec<(ClusterId, Arc<str>, SnapshotReader)>;

/// Samples and takes snapshots until the proxy ends.
pub(crate) async fn run(running: Rc<Running>, clusters: Clusters) {
    let (mut next, mut last_turn) = (rt::now(), None);
    loop {
        next += SECOND;
        let now = rt::now();
        if next < now {
            // It was kept from it for longer: what was missed is not made up.
            next = now;
        }
        rt::sleep(next - now).await;
        let parts = &running.parts;
        let at = unix_s();
        let (history, settings) = (&parts.kept.history, running.activity());
        let rows = if history.wants_samples() {
            sample(&parts.registry, &clusters, settings.max_rows_per_sample as usize)
        } else {
            Vec::new()
        };
        history.push(Sample { at, rows });
        let turn = at / settings.snapshot_interval_s.cast_signed();
        // The first one says from where on there are counts.
        if last_turn.replace(turn) != Some(turn)
            && history.wants_samples()
            && let Some(console) = parts.operators.console()
        {
            // Its failure is counted and logged there.
            history.take(console.snapshot(None), |_| ());
        }
    }
}

fn unix_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed()
}

/// What all active sessions do. With more than `most`, those whose commands run longest have rows, and the others are in rows of the rest.
fn sample(registry: &Registry, clusters: &Clusters, most: usize) -> Vec<Row> {
    let (now, clock_s) = (rt::now(), registry.clock_s());
    let sampled = |activity: Arc<Activity>| Some((activity.sample(now, clock_s)?, activity));
    let mut all: Vec<_> = registry.active().into_iter().filter_map(sampled).collect();
    if all.len() > most {
        all.select_nth_unstable_by_key(most, |(sampled, _)| std::cmp::Reverse(sampled.in_command_us));
    }
    let others = all.split_off(most.min(all.len()));
    let rows = all.iter().map(|(sampled, activity)| row(sampled, activity, clusters));
    rows.chain(rest(others.iter().map(|(sampled, _)| sampled))).collect()
}

/// Rows of the rest, by what sessions do and wait for.
fn rest<'a>(others: impl Iterator<Item = &'a Sampled>) -> Vec<Row> {
    let mut sums = BTreeMap::new();
    for one in others {
        let (sessions, longest) = sums.entry((one.state.as_str(), one.wait_class())).or_insert((0, 0));
        *sessions += 1;
        *longest = one.in_command_us.max(*longest);
    }
    let row = |((state, wait_class), (sessions, in_command_us))| Row {
        sessions,
        state,
        wait_class,
        in_command_us,
        ..Row::default()
    };
    sums.into_iter().map(row).collect()
}

fn row(sampled: &Sampled, activity: &Activity, clusters: &Clusters) -> Row {
    let id = activity.cluster();
    let cluster = clusters.iter().find(|(known, _, _)| *known == id);
    let backend = sampled.place.and_then(|(backend, _)| {
        let (_, _, reader) = cluster?;
        Some(reader.load().backend(backend)?.name.clone())
    });
    Row {
        session: Some(activity.id.0),
        sessions: 1,
        command: sampled.command,
        user: Some(activity.user()),
        client: Some(activity.host.as_str().into()),
        cluster: cluster.map(|(_, name, _)| name.clone()),
        schema: activity.schema(),
        digest: Some(sampled.digest).filter(|digest| *digest != 0),
        kind: kind(sampled.code),
        state: sampled.state.as_str(),
        wait_class: sampled.wait_class(),
        wait_event: sampled.wait_event(),
        backend,
        backend_thread: sampled.place.map(|(_, thread)| thread.id),
        route: sampled.reason.and_then(|number| Reason::KINDS.get(usize::from(number))).copied(),
        pin: sampled.pin.map(delphinus_state::PinReason::label),
        in_state_us: sampled.in_state_us,
        in_command_us: sampled.in_command_us,
        transaction_us: sampled.transaction_us,
    }
}

/// The word for a command, as metrics have it.
fn kind(code: u8) -> Option<&'static str> {
    Some(match Code::from_byte(code)? {
        Code::Query => "query",
        Code::StmtExecute => "stmt_execute",
        Code::StmtBulkExecute => "stmt_bulk_execute",
        Code::StmtPrepare => "stmt_prepare",
        Code::StmtFetch => "stmt_fetch",
        Code::InitDb => "init_db",
        Code::ChangeUser => "change_user",
        Code::ResetConnection => "reset_connection",
        Code::FieldList => "field_list",
        Code::Ping => "ping",
        Code::Statistics => "statistics",
        Code::ProcessKill => "process_kill",
        _ => "other",
    })
}
