//! What the proxy counts. Each worker writes its own counters, which no other thread writes; they
//! are summed when somebody looks. So counting costs a load and a store, no lock and no shared line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error_kind::ErrorKind;

/// A number that one thread counts up and any thread may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`. Only the thread that the counter belongs to may call it: two threads that add
    /// at the same time lose one of the two amounts.
    pub fn add(&self, amount: u64) {
        // Not fetch_add: with one writer the locked instruction would buy nothing.
        self.0.store(self.value().wrapping_add(amount), Ordering::Relaxed);
    }

    /// Adds one; see [`Counter::add`].
    pub fn increment(&self) {
        self.add(1);
    }

    /// The sum so far.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One counted number, summed over all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Name, for example `delphinus_commands_total`.
    pub name: &'static str,
    /// The cluster that it is counted for; `None`: it is counted before a client has one.
    pub cluster: Option<Arc<str>>,
    /// What tells samples of the same name apart, for example `("kind", "query")`.
    pub label: Option<(&'static str, &'static str)>,
    /// What is counted, with its unit.
    pub help: &'static str,
    /// The sum.
    pub value: u64,
}

impl Sample {
    /// Its name with its labels; see [`series`].
    pub fn series(&self) -> String {
        let cluster = self.cluster.as_deref().map(|name| (CLUSTER, name));
        series(self.name, cluster.into_iter().chain(self.label))
    }
}

/// The label of what is counted for each cluster.
pub const CLUSTER: &str = "cluster";

/// A name with labels, as Prometheus writes it: `name{label="value",other="value"}`.
pub fn series<'a>(name: &str, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let one = |(label, value): (&str, &str)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        format!("{label}=\"{value}\"")
    };
    let labels: Vec<_> = labels.into_iter().map(one).collect();
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

/// Counters of one name for labels that another crate owns.
#[derive(Debug, Default)]
pub struct ByLabel {
    labels: &'static [&'static str],
    counters: Box<[Counter]>,
}

impl ByLabel {
    fn new(labels: &'static [&'static str]) -> Self {
        Self { labels, counters: labels.iter().map(|_| Counter::default()).collect() }
    }

    /// That of the label at this place; `None` where nobody has said which labels there are.
    pub fn get(&self, at: usize) -> Option<&Counter> {
        self.counters.get(at)
    }

    fn samples(
        &self,
        label: &'static str,
        (name, help): (&'static str, &'static str),
        cluster: Option<&Arc<str>>,
    ) -> Vec<Sample> {
        let counted = self.labels.iter().zip(&self.counters);
        let sample = |(value, counter): (&&'static str, &Counter)| Sample {
            name,
            cluster: cluster.cloned(),
            label: Some((label, *value)),
            help,
            value: counter.value(),
        };
        counted.map(sample).collect()
    }
}

/// Declares counters: a field for each, and the list of all of them.
macro_rules! counters {
    (
        $(#[$about:meta])* $set:ident;
        $(by $by:literal $by_name:literal $by_help:literal $by_field:ident;)*
        $($name:literal $help:literal { $($field:ident $(= $label:literal $value:literal)?),+ $(,)? })+
    ) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct $set {
            $($(
                #[doc = $help]
                $(#[doc = concat!("(", $label, ": ", $value, ")")])?
                pub $field: Counter,
            )+)+
            $(
                #[doc = $by_help]
                pub $by_field: ByLabel,
            )*
        }

        impl $set {
            /// All of them; samples of one name stand together.
            fn samples(&self, cluster: Option<&Arc<str>>) -> Vec<Sample> {
                let samples = vec![$($(Sample {
                    name: $name,
                    cluster: cluster.cloned(),
                    label: [$(($label, $value))?].first().copied(),
                    help: $help,
                    value: self.$field.value(),
                }),+),+];
                $(let samples = [samples, self.$by_field.samples($by, ($by_name, $by_help), cluster)].concat();)*
                samples
            }
        }
    };
}

counters! {
    /// What one thread counts of clients that have no cluster yet, or get none. They fill cache lines of their own.
    ProcessCounters;
    "delphinus_sessions_opened_total" "Clients that have connected." { sessions_opened }
    "delphinus_sessions_closed_total" "Clients that have disconnected." { sessions_closed }
    "delphinus_sessions_refused_total" "Clients refused because of a limit on connections, by limit." {
        refused_clients = "limit" "max_connections",
        refused_user = "limit" "max_user_connections",
        refused_address = "limit" "max_connections_per_address",
        refused_denied = "limit" "listener_addresses",
    }
    "delphinus_logins_total" "Finished logins of clients, by result." {
        logins_ok = "result" "ok",
        logins_denied = "result" "denied",
        logins_broken = "result" "broken",
        logins_evicted = "result" "evicted",
    }
}

counters! {
    /// What one thread counts of one cluster. They fill cache lines of their own.
    ClusterCounters;
    by "reason" "delphinus_pinned_microseconds_total" "Time that sessions kept a backend connection, by the oldest reason, microseconds." pinned_us;
    by "kind" "delphinus_errors_total" "Errors that ended a command or a session, by kind." errors;
    "delphinus_commands_total" "Commands of clients, by kind." {
        command_query = "kind" "query",
        command_stmt_prepare = "kind" "stmt_prepare",
        command_stmt_execute = "kind" "stmt_execute",
        command_stmt_close = "kind" "stmt_close",
        command_stmt_reset = "kind" "stmt_reset",
        command_stmt_send_long_data = "kind" "stmt_send_long_data",
        command_stmt_fetch = "kind" "stmt_fetch",
        command_init_db = "kind" "init_db",
        command_ping = "kind" "ping",
        command_change_user = "kind" "change_user",
        command_reset_connection = "kind" "reset_connection",
        command_field_list = "kind" "field_list",
        command_statistics = "kind" "statistics",
        command_set_option = "kind" "set_option",
        command_quit = "kind" "quit",
        command_other = "kind" "other",
    }
    "delphinus_routed_total" "Commands by where they were answered." {
        routed_primary = "target" "primary",
        routed_replica = "target" "replica",
        routed_local = "target" "local",
    }
    "delphinus_consistency_waits_total" "Reads that waited until their replica had caught up with their session's writes, by result." {
        consistency_reached = "result" "reached",
        consistency_timeout = "result" "timeout",
    }
    "delphinus_cache_lookups_total" "Statements that might be answered from the cache, by result; behind: the kept answer may be older than the session's writes; written: a table was written that it reads." {
        cache_hits = "result" "hit",
        cache_misses = "result" "miss",
        cache_expired = "result" "expired",
        cache_behind = "result" "behind",
        cache_written = "result" "written",
    }
    "delphinus_cache_waits_total" "Statements that waited for another session's answer to the same question." { cache_waits }
    "delphinus_cache_answers_total" "Answers that were to be kept, by what became of them; unfit: an error, with warnings, or one that says more than rows; unproved: its backend may have lacked a write of a table that it reads." {
        cache_kept = "fate" "kept",
        cache_too_large = "fate" "too_large",
        cache_unfit = "fate" "unfit",
        cache_unproved = "fate" "unproved",
        cache_outdated = "fate" "outdated",
    }
    "delphinus_cache_refreshes_total" "Cached answers that were refreshed before they expired, by result." {
        cache_refreshed = "result" "kept",
        cache_refresh_failed = "result" "failed",
    }
    "delphinus_cache_evictions_total" "Cached answers that had to make room for others." { cache_evictions }
    "delphinus_failover_waits_total" "Statements that had to wait for a primary." { failover_waits }
    "delphinus_failover_timeouts_total" "Statements for which no primary came in time." { failover_timeouts }
    "delphinus_pause_waits_total" "Statements that had to wait because operators had paused their cluster or user." { pause_waits }
    "delphinus_pause_timeouts_total" "Of these, statements that failed because RESUME did not come in time." { pause_timeouts }
    "delphinus_read_only_restarts_total" "READ ONLY transactions that needed the primary after they had read on a replica: rolled back, to be tried again." { read_only_restarts }
    "delphinus_hints_ignored_total" "Hints that were not known or could not be obeyed." { hints_ignored }
    "delphinus_mirrored_total" "Statements that a rule wanted copied to a mirror, by what became of the copy." {
        mirror_answered = "result" "answered",
        mirror_dropped = "result" "dropped",
        mirror_failed = "result" "failed",
        mirror_skipped = "result" "skipped",
    }
    "delphinus_statement_timeouts_total" "Statements ended because they ran for too long (hints and rules)." { statement_timeouts }
    "delphinus_client_bytes_total" "Bytes exchanged with clients, as sent before TLS." {
        client_bytes_in = "direction" "in",
        client_bytes_out = "direction" "out",
    }
    "delphinus_backend_bytes_total" "Bytes exchanged with backends, as sent before TLS." {
        backend_bytes_in = "direction" "in",
        backend_bytes_out = "direction" "out",
    }
    "delphinus_backend_connects_total" "Connections made to backends, by result." {
        backend_connects_ok = "result" "ok",
        backend_connects_failed = "result" "failed",
    }
    "delphinus_backend_closes_total" "Connections to backends that have been closed." { backend_closes }
    "delphinus_queries_killed_total" "KILL QUERY sent because the client had disconnected." { queries_killed }
    "delphinus_session_microseconds_total" "Time that sessions which have ended were connected, microseconds." { session_us }
    "delphinus_fixups_total" "Statements run to bring a backend connection into the state of its session." { fixups }
    "delphinus_pool_waits_total" "Commands that had to wait for a backend connection." { pool_waits }
    "delphinus_pool_wait_microseconds_total" "Time that commands waited for a backend connection, microseconds." { pool_wait_us }
}

impl ClusterCounters {
    /// Counts an error that has ended a command or a session.
    pub fn count_error(&self, kind: ErrorKind) {
        if let Some(counter) = self.errors.get(kind as usize) {
            counter.increment();
        }
    }
}

/// The counters of all threads that count.
#[derive(Debug, Clone)]
pub struct CounterSet {
    process: Arc<[Arc<ProcessCounters>]>,
    clusters: Arc<[OfCluster]>,
}

/// What one thread counts.
#[derive(Debug, Clone)]
pub struct ThreadCounters {
    /// Of clients that have no cluster yet.
    pub process: Arc<ProcessCounters>,
    /// Of each cluster, in the order of [`CounterSet::new`].
    pub clusters: Vec<Arc<ClusterCounters>>,
}

/// The counters of one cluster: one of each thread.
#[derive(Debug)]
struct OfCluster {
    name: Arc<str>,
    threads: Vec<Arc<ClusterCounters>>,
}

impl CounterSet {
    /// Counters for `threads` threads, for example the workers and the acceptor, and in each for the clusters with these
    /// names; `pins` are the labels of reasons to keep a connection.
    pub fn new(
        threads: usize,
        clusters: impl IntoIterator<Item = Arc<str>>,
        pins: &'static [&'static str],
    ) -> Self {
        let counters = || ClusterCounters {
            pinned_us: ByLabel::new(pins),
            errors: ByLabel::new(ErrorKind::LABELS),
            ..ClusterCounters::default()
        };
        let of_cluster =
            |name| OfCluster { name, threads: (0..threads).map(|_| Arc::new(counters())).collect() };
        Self {
            process: (0..threads).map(|_| Arc::default()).collect(),
            clusters: clusters.into_iter().map(of_cluster).collect(),
        }
    }

    /// The counters of the thread `index`; `None` if there are not so many. Give each index to one
    /// thread only.
    pub fn thread(&self, index: usize) -> Option<ThreadCounters> {
        let process = self.process.get(index)?.clone();
        let clusters = self.clusters.iter().map(|cluster| cluster.threads[index].clone()).collect();
        Some(ThreadCounters { process, clusters })
    }

    /// Everything that is counted, summed over the threads, always in the same order. Samples of one
    /// name stand together.
    pub fn snapshot(&self) -> Vec<Sample> {
        let mut all = sum(self.process.iter().map(|thread| thread.samples(None)));
        let of_cluster = |cluster: &OfCluster| {
            sum(cluster.threads.iter().map(|thread| thread.samples(Some(&cluster.name))))
        };
        let clusters: Vec<_> = self.clusters.iter().map(of_cluster).collect();
        let mut at = 0;
        for family in clusters.first().into_iter().flat_map(|one| one.chunk_by(|a, b| a.name == b.name)) {
            let range = at..at + family.len();
            at = range.end;
            all.extend(clusters.iter().filter_map(|one| one.get(range.clone())).flatten().cloned());
        }
        all
    }
}

/// The samples of threads, added up.
fn sum(threads: impl Iterator<Item = Vec<Sample>>) -> Vec<Sample> {
    let add = |mut sums: Vec<Sample>, thread: Vec<Sample>| {
        for (sum, sample) in sums.iter_mut().zip(thread) {
            sum.value = sum.value.wrapping_add(sample.value);
        }
        sums
    };
    threads.reduce(add).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Counters of two clusters in so many threads.
    fn set(threads: usize) -> CounterSet {
        CounterSet::new(threads, ["shop", "stats"].map(Arc::from), &["lock", "cursor"])
    }

    #[test]
    fn threads_are_summed_and_nothing_is_lost() {
        let set = set(4);
        std::thread::scope(|scope| {
            for index in 0..4 {
                let ThreadCounters { process, clusters } = set.thread(index).unwrap();
                scope.spawn(move || {
                    for _ in 0..50_000 {
                        process.logins_ok.increment();
                        clusters[0].command_query.increment();
                        clusters[1].client_bytes_out.add(index as u64);
                    }
                });
            }
        });
        let counted: Vec<_> = set.snapshot().into_iter().filter(|sample| sample.value > 0).collect();
        let named: Vec<_> = counted.iter().map(|sample| (sample.series(), sample.value)).collect();
        let expected = [
            ("delphinus_logins_total{result=\"ok\"}", 200_000),
            ("delphinus_commands_total{cluster=\"shop\",kind=\"query\"}", 200_000),
            ("delphinus_client_bytes_total{cluster=\"stats\",direction=\"out\"}", 50_000 * (1 + 2 + 3)),
        ];
        assert_eq!(named, expected.map(|(name, value)| (name.to_owned(), value)));
        assert!(set.thread(4).is_none());
    }

    #[test]
    fn every_sample_can_be_told_apart() {
        let samples = set(1).snapshot();
        let series: HashSet<_> = samples.iter().map(Sample::series).collect();
        assert_eq!(series.len(), samples.len());
        for sample in &samples {
            assert!(sample.name.ends_with("_total") && sample.help.ends_with('.'), "{sample:?}");
            let alike = |other: &&Sample| other.name == sample.name && other.cluster == sample.cluster;
            assert_eq!(samples.iter().filter(alike).count() > 1, sample.label.is_some(), "{sample:?}");
        }
        let names: Vec<_> = samples.chunk_by(|a, b| a.name == b.name).map(|family| family[0].name).collect();
        assert_eq!(
            names.iter().collect::<HashSet<_>>().len(),
            names.len(),
            "samples of a name stand together"
        );
    }

    #[test]
    fn labels_are_written_as_prometheus_reads_them() {
        assert_eq!(series("up", []), "up");
        assert_eq!(series("up", [(CLUSTER, "main")]), "up{cluster=\"main\"}");
        assert_eq!(series("up", [(CLUSTER, "a\\b\"c\n"), ("x", "y")]), r#"up{cluster="a\\b\"c\n",x="y"}"#);
    }

    #[test]
    fn counters_of_two_threads_share_no_cache_line() {
        assert_eq!((align_of::<ProcessCounters>(), align_of::<ClusterCounters>()), (128, 128));
        assert_eq!((size_of::<ProcessCounters>() % 128, size_of::<ClusterCounters>() % 128), (0, 0));
    }
}
