//! `[[limit]]`: names, digests, and that each limit limits something.

use super::Check;
use crate::config::{Cluster, Limit};
use crate::parse::Rows;
use crate::schema::{LimitSection, Written};

impl Check<'_, '_> {
    pub(super) fn limits(&mut self, limits: Rows<LimitSection>, clusters: &[Cluster]) -> Vec<Limit> {
        self.refuse_same_names(&limits.rows, |limit| limit.name.as_ref());
        self.refuse_numbered(&limits.rows, "limit", |limit| limit.name.as_ref());
        let rows = limits.rows.into_iter().enumerate();
        rows.map(|(index, row)| self.limit(&row, index + 1, clusters)).collect()
    }

    fn limit(&mut self, row: &Written<LimitSection>, number: usize, clusters: &[Cluster]) -> Limit {
        let written = &row.value;
        self.limits_something(row);
        let digests = written.digest.iter().filter_map(|digest| self.digest(row, digest));
        Limit {
            name: written.name.clone().unwrap_or_else(|| format!("limit {number}")),
            users: written.user.clone(),
            schemas: written.schema.clone(),
            clients: written.client.clone(),
            digests: digests.collect(),
            clusters: self.clusters_of(row, &written.cluster, clusters),
            per: written.per,
            statements_per_second: written.statements_per_second,
            burst: written.burst.or(written.statements_per_second).unwrap_or(1),
            concurrency: written.concurrency,
            queue: written.queue,
            queue_timeout_ms: written.queue_timeout_ms,
            max_rows: written.max_rows,
            max_bytes: written.max_bytes,
            timeout_ms: written.timeout_ms,
            idle_in_transaction_timeout_s: written.idle_in_transaction_timeout_s,
        }
    }

    fn limits_something(&mut self, row: &Written<LimitSection>) {
        let written = &row.value;
        let all = [
            ("statements_per_second", written.statements_per_second.is_some()),
            ("concurrency", written.concurrency.is_some()),
            ("max_rows", written.max_rows.is_some()),
            ("max_bytes", written.max_bytes.is_some()),
            ("timeout_ms", written.timeout_ms.is_some()),
            ("idle_in_transaction_timeout_s", written.idle_in_transaction_timeout_s.is_some()),
        ];
        if !all.iter().any(|(field, is_set)| *is_set || row.has(field)) {
            let names = all.map(|(field, _)| field).join(", ");
            self.mistakes.push(row.at("name"), "the limit limits nothing", format!("write one of {names}"));
        }
        if written.burst.is_some()
            && written.statements_per_second.is_none()
            && !row.has("statements_per_second")
        {
            let instead = "write statements_per_second, or remove burst";
            self.mistakes.push(row.at("burst"), "burst without statements_per_second", instead);
        }
        let by_statement = !written.digest.is_empty() || !written.schema.is_empty();
        if by_statement && written.idle_in_transaction_timeout_s.is_some() {
            let what = "idle_in_transaction_timeout_s beside schema or digest";
            let instead = "write it in a limit by user or client: no statement runs while a session is idle";
            self.mistakes.push(row.at("idle_in_transaction_timeout_s"), what, instead);
        }
    }
}
