//! `[monitor]`: its user and password.

use super::Check;
use super::password::Sources;
use crate::config::Monitor;
use crate::schema::{MonitorSection, Written};

impl Check<'_, '_> {
    pub(super) fn monitor(&mut self, row: &Written<MonitorSection>) -> Option<Monitor> {
        let written = &row.value;
        self.user_name(&written.user, row.at("user"));
        let sources = Sources {
            of: "[monitor]".to_owned(),
            prefix: "",
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: None,
        };
        let password = self.one_source(&sources, row).and_then(|source| self.plain(&source, "", row))?;
        Some(Monitor {
            user: written.user.clone(),
            password,
            interval_ms: written.interval_ms,
            timeout_ms: written.timeout_ms,
            fall: written.fall,
            rise: written.rise,
        })
    }
}
