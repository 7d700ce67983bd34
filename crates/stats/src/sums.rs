//! Sums of rows, by whatever is asked: digest, user, schema, backend, cluster, or all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use delphinus_sql::Digest;
use delphinus_topology::{BackendId, ClusterId};

use crate::histogram::Times;
use crate::row::{Key, REST, Row, Totals};
use crate::statistics::Statistics;

/// Whose statements these are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// The cluster that they are for.
    pub cluster: ClusterId,
    /// The user; `None`: of all users that had no room of their own.
    pub user: Option<Arc<str>>,
    /// The schema that their sessions were in.
    pub schema: Option<Arc<str>>,
}

/// The sum of rows that are alike in what was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    /// Their counts.
    pub totals: Totals,
    /// Their times.
    pub times: Times,
}

impl Sum {
    fn add(&mut self, row: &Row) {
        row.add_to(&mut self.totals, &mut self.times);
    }

    /// Adds another one.
    pub fn merge(&mut self, other: &Self) {
        self.totals.merge(&other.totals);
        self.times.merge(&other.times);
    }
}

/// What was counted before the last RESET, by cluster, user and backend.
#[derive(Default)]
pub(crate) struct Retired(BTreeMap<(Who, Option<BackendId>), Sum>);

impl Retired {
    fn add(&mut self, who: Who, row: &Row) {
        self.0.entry((Who { schema: None, ..who }, row.key.backend)).or_default().add(row);
    }
}

impl Statistics {
    /// Rows since the last RESET, added up by digest (`None`: the rest), user and schema, and backend.
    pub fn by_digest(&self, mut each: impl FnMut(Option<Digest>, &Who, Option<BackendId>, &Sum)) {
        let mut rows = self.rows(&mut self.retired()).0;
        rows.sort_unstable_by_key(|row| row.key);
        for alike in rows.chunk_by(|a, b| a.key == b.key) {
            let Key { digest, who, backend } = alike[0].key;
            let Some(who) = self.who_is(who) else { continue };
            let sum = sum_of(alike);
            if sum.totals.count > 0 {
                each((digest != REST).then_some(digest), &who, backend, &sum);
            }
        }
    }

    /// Rows since the last RESET, added up by cluster and digest alone.
    pub fn by_statement(&self, mut each: impl FnMut(ClusterId, Option<Digest>, &Sum)) {
        let mut rows: Vec<_> = self
            .rows(&mut self.retired())
            .0
            .into_iter()
            .filter_map(|row| Some(((self.who_is(row.key.who)?.cluster, row.key.digest), row)))
            .collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        for alike in rows.chunk_by(|a, b| a.0 == b.0) {
            let (cluster, digest) = alike[0].0;
            let mut sum = Sum::default();
            for (_, row) in alike {
                sum.add(row);
            }
            if sum.totals.count > 0 {
                each(cluster, (digest != REST).then_some(digest), &sum);
            }
        }
    }

    /// Everything since the start, added up by what `group` makes of whose it was and where it ran. Schemas are not known any more
    /// of what is older than the last RESET.
    pub fn since_start<G: Ord>(&self, group: impl Fn(&Who, Option<BackendId>) -> G) -> BTreeMap<G, Sum> {
        // For the whole time: what somebody else retires meanwhile would be counted twice.
        let mut retired = self.retired();
        let (now, old) = self.rows(&mut retired);
        let mut sums: BTreeMap<G, Sum> = BTreeMap::new();
        for row in now.iter().chain(&old) {
            if let Some(who) = self.who_is(row.key.who) {
                sums.entry(group(&who, row.key.backend)).or_default().add(row);
            }
        }
        for ((who, backend), sum) in &retired.0 {
            sums.entry(group(who, *backend)).or_default().merge(sum);
        }
        sums
    }

    /// The rows since the last RESET, and those that are older and still written. What no worker writes any more is
    /// retired.
    fn rows(&self, retired: &mut Retired) -> (Vec<Arc<Row>>, Vec<Arc<Row>>) {
        let epoch = self.epoch();
        let (mut current, mut old) = (Vec::new(), Vec::new());
        for ledger in self.ledgers() {
            let (rows, is_old) = ledger.rows(epoch, &mut |row| {
                if let Some(who) = self.who_is(row.key.who) {
                    retired.add(who, row);
                }
            });
            if is_old { &mut old } else { &mut current }.extend(rows);
        }
        (current, old)
    }
}

fn sum_of(rows: &[Arc<Row>]) -> Sum {
    let mut sum = Sum::default();
    for row in rows {
        sum.add(row);
    }
    sum
}
