//! For tests: a primary with two replicas, what probes have told of them, and statements that have run there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_memory::Account;
use delphinus_net::rt;
use delphinus_route::Policy;
use delphinus_sql::{Consistency, LexOptions, classify};
use delphinus_state::{Changed, Response};
use delphinus_topology::{BackendId, Health, Member, Rest, Role, Snapshot};
use delphinus_view::{Positions, Publisher, StoredCode, TrafficReporter, channel};
use delphinus_wire::gtid::GtidSet;

use crate::outlook::Outlook;

use super::{Causality, Done, Reading};

pub(super) const PRIMARY: BackendId = BackendId(0);
pub(super) const ONE: BackendId = BackendId(1);
pub(super) const TWO: BackendId = BackendId(2);

pub(super) struct Scene {
    pub(super) snapshot: Snapshot,
    pub(super) outlook: Outlook,
    positions: Arc<Positions>,
    _publisher: Publisher,
}

impl Scene {
    /// All backends are up; `rest`: nothing is being written, and the replicas have everything.
    pub(super) fn new(rest: Option<Rest>) -> Self {
        let member = |role| Member { name: "b".into(), role, weight: 100 };
        let mut snapshot = Snapshot::new([Role::Primary, Role::Replica, Role::Replica].map(member).into());
        for backend in &mut snapshot.backends {
            backend.health = Health::Up { since: Instant::now() };
        }
        (snapshot.rest, snapshot.tells_gtids) = (rest, true);
        let (observations, _) = rt::mpsc::channel(1);
        let code = StoredCode::new(false, Account::new(1 << 20));
        let (publisher, reader) = channel((snapshot.clone(), 3), TrafficReporter::new(observations), code);
        let positions = reader.positions().clone();
        let outlook = Outlook::new(reader, Policy::default());
        Self { snapshot, outlook, positions, _publisher: publisher }
    }

    /// A probe tells that this backend has these transactions.
    pub(super) fn probed(&self, backend: BackendId, set: &str) {
        let set = GtidSet::parse(set).expect("invariant: tests name sets as servers do");
        self.positions.learn(backend, Some(&Arc::new(set)));
    }

    /// Another server is behind the name of this backend.
    pub(super) fn begin_anew(&self, backend: BackendId) {
        self.positions.begin_anew(backend);
    }

    pub(super) fn reading(&self, level: Consistency) -> Reading<'_> {
        let patience = Duration::from_millis(100);
        let (snapshot, progress) = (&self.snapshot, &self.outlook.progress);
        Reading { level, snapshot, progress, patience, is_for_layer: false }
    }

    /// The session runs a statement there, and the server tells these GTIDs.
    pub(super) fn run(&self, causality: &mut Causality, backend: BackendId, (sql, gtids): (&str, &str)) {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        let mut response = Response::default();
        if !gtids.is_empty() {
            response.changes.push(Changed::Gtids(gtids.into()));
        }
        causality.begin_statement(&statement, false);
        causality.count_write(&self.outlook.progress, (backend, backend != PRIMARY));
        let done = Done { backend, statement: &statement, response: &response, is_late: false };
        causality.follow(done, None, &self.outlook);
        causality.end_command();
    }

    /// The replicas that are behind, and whether the others have to be waited for.
    pub(super) fn behind(&self, causality: &Causality) -> (Vec<BackendId>, bool) {
        let found = causality.behind(&self.reading(Consistency::Session), &[]);
        (found.replicas, found.must_wait)
    }
}
