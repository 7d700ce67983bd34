//! A plan for a read, with a primary and two replicas.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use delphinus_route::{Balance, Intent, Reason, Scope, plan};
use delphinus_sql::{Access, Why};
use delphinus_topology::{Health, Member, Role, Snapshot};

use crate::measure;

const READ: Intent<'static> = Intent {
    access: Access::Read,
    why: Why::PlainRead,
    in_transaction: false,
    autocommit_off: false,
    pinned: None,
    avoid: &[],
    behind: &[],
    text: 0,
    wish: None,
    scope: Scope::Usual,
};

pub(crate) fn run() -> Result<()> {
    let (snapshot, mut balance) = (cluster(), Balance::default());
    let planned = plan(&READ, &snapshot, &mut balance);
    ensure!(planned.reason == Reason::Read, "not to a replica: {planned:?}");
    measure(|| plan(black_box(&READ), black_box(&snapshot), &mut balance));
    Ok(())
}

fn cluster() -> Snapshot {
    let roles = [Role::Primary, Role::Replica, Role::Replica];
    let mut snapshot =
        Snapshot::new(roles.map(|role| Member { name: "b".into(), role, weight: 100 }).to_vec());
    for backend in &mut snapshot.backends {
        backend.health = Health::Up { since: Instant::now() };
    }
    snapshot
}
