//! `[[filter]]`: names, users, and that each filter is about something.

use super::Check;
use crate::config::{Cluster, Filter};
use crate::parse::Rows;
use crate::schema::{FilterSection, Written};
use crate::word::{FilterAction, Unseen};

impl Check<'_, '_> {
    pub(super) fn filters(&mut self, filters: Rows<FilterSection>, clusters: &[Cluster]) -> Vec<Filter> {
        self.refuse_same_names(&filters.rows, |filter| filter.name.as_ref());
        self.refuse_numbered(&filters.rows, "filter", |filter| filter.name.as_ref());
        let rows = filters.rows.into_iter().enumerate();
        rows.map(|(index, row)| self.filter(&row, index + 1, clusters)).collect()
    }

    fn filter(&mut self, row: &Written<FilterSection>, number: usize, clusters: &[Cluster]) -> Filter {
        let written = &row.value;
        if written.statement.is_empty() {
            let instead = "write statement = [\"write_without_where\"], or others of the reference";
            self.mistakes.push(row.at("statement"), "the filter matches no statement", instead);
        }
        let usual = match written.action {
            FilterAction::Off => Unseen::Allow,
            FilterAction::Log => Unseen::Log,
            FilterAction::Reject => Unseen::Reject,
        };
        Filter {
            name: written.name.clone().unwrap_or_else(|| format!("filter {number}")),
            statements: written.statement.clone(),
            action: written.action,
            unseen: written.unseen.unwrap_or(usual),
            users: written.user.clone(),
            clusters: self.clusters_of(row, &written.cluster, clusters),
        }
    }
}
