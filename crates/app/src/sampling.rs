//! What all sessions do, noted once a second, and what is counted, once an hour. Runs on the control plane's thread: it reads the
//! cells that sessions write anyway, and gives what it has read to the thread that stores it. No worker waits for it.

use std::cell::Cell;
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

/// So much later a snapshot is tried again that has failed, in seconds.
const AGAIN_S: i64 = 60;

/// The clusters, in the order of their numbers.
pub(crate) type Clusters = Vec<(ClusterId, Arc<str>, SnapshotReader)>;

/// Samples and takes snapshots until the proxy ends.
pub(crate) async fn run(running: Rc<Running>, clusters: Clusters) {
    let (mut next, turns) = (rt::now(), Rc::<Turns>::default());
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
        if history.wants_samples()
            && let Some(console) = parts.operators.console()
            && turns.begins(at, settings.snapshot_interval_s.cast_signed())
        {
            let (console, turns) = (console.clone(), turns.clone());
            rt::spawn_local(async move {
                // Its failure is counted and logged there.
                if console.take_snapshot(None).await.is_err() {
                    turns.has_failed(unix_s());
                }
            });
        }
    }
}

/// When it is time for a snapshot.
#[derive(Default)]
struct Turns {
    /// Which turn had its snapshot.
    last: Cell<Option<i64>>,
    /// When one is tried again that has failed.
    again_at: Cell<Option<i64>>,
}

impl Turns {
    /// True once each turn, and once more where that has failed. The first one says from where on there are counts.
    fn begins(&self, at: i64, interval_s: i64) -> bool {
        let turn = at / interval_s;
        let is_due = self.last.replace(Some(turn)) != Some(turn);
        let is_due = is_due || self.again_at.get().is_some_and(|again_at| at >= again_at);
        if is_due {
            self.again_at.set(None);
        }
        is_due
    }

    fn has_failed(&self, at: i64) {
        self.again_at.set(Some(at + AGAIN_S));
    }
}

fn unix_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed()
}

/// What all active sessions do. With more than `most`, those whose commands run longest have rows, and the others are in rows of the rest.
fn sample(registry: &Registry, clusters: &Clusters, most: usize) -> Vec<Row> {
    let (now, clock_s) = (rt::now(), registry.clock_s());
    let sampled = |activity: Arc<Activity>| Some((activity.sample(now, clock_s)?, activity));
    let all = registry.active().into_iter().filter_map(sampled).collect();
    let [longest, others] = split(all, most);
    let rows = longest.iter().map(|(sampled, activity)| row(sampled, activity, clusters));
    rows.chain(rest(others.iter().map(|(sampled, _)| sampled))).collect()
}

/// Those whose commands run longest, so many of them, and all others.
fn split<T>(mut all: Vec<(Sampled, T)>, most: usize) -> [Vec<(Sampled, T)>; 2] {
    if all.len() > most {
        all.select_nth_unstable_by_key(most, |(sampled, _)| std::cmp::Reverse(sampled.in_command_us));
    }
    let others = all.split_off(most.min(all.len()));
    [all, others]
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

#[cfg(test)]
mod tests {
    use delphinus_clients::State;
    use delphinus_telemetry::Wait;

    use super::*;

    fn sampled(in_command_us: u64) -> Sampled {
        Sampled {
            state: if in_command_us.is_multiple_of(2) { State::Waiting } else { State::Running },
            command: 1,
            code: 3,
            wait: in_command_us.is_multiple_of(2).then_some(Wait::Pool),
            place: None,
            reason: None,
            pin: None,
            digest: 0,
            in_state_us: 0,
            in_command_us,
            transaction_us: None,
        }
    }

    #[test]
    fn a_snapshot_is_taken_each_turn_and_again_where_it_has_failed() {
        let turns = Turns::default();
        let times = |from: i64, to: i64| (from..to).filter(|at| turns.begins(*at, 3600)).collect::<Vec<_>>();
        assert_eq!(times(100, 5000), [100, 3600]);
        turns.has_failed(5000);
        assert_eq!(times(5000, 7000), [5060]);
        // What has failed at the end of a turn is one with the next.
        turns.has_failed(7190);
        assert_eq!(times(7190, 7300), [7200]);
    }

    #[test]
    fn the_longest_have_rows_and_the_others_are_in_the_rest() {
        let all = || (0..100).rev().map(|us| (sampled(us), ())).collect::<Vec<_>>();
        for most in [0, 1, 10, 99, 100, 1000] {
            let [longest, others] = split(all(), most);
            assert_eq!((longest.len(), others.len()), (most.min(100), 100 - most.min(100)));
            let shortest = longest.iter().map(|(one, ())| one.in_command_us).min().unwrap_or(u64::MAX);
            assert!(others.iter().all(|(one, ())| one.in_command_us < shortest), "{most}");
            let rows = rest(others.iter().map(|(one, ())| one));
            assert!(rows.len() <= 2 && rows.iter().all(|row| row.session.is_none()));
            assert_eq!(rows.iter().map(|row| row.sessions as usize).sum::<usize>(), others.len());
        }
        let rows = rest(all().iter().map(|(one, ())| one));
        let seen: Vec<_> =
            rows.iter().map(|row| (row.state, row.wait_class, row.sessions, row.in_command_us)).collect();
        assert_eq!(seen, [("running", Some("cpu"), 50, 99), ("waiting", Some("pool"), 50, 98)]);
    }
}
