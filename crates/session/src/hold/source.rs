//! What the sessions of one worker get connections by.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_clients::Users;
use delphinus_pool::Pool;
use delphinus_telemetry::ClusterCounters;

use crate::outlook::Outlook;
use crate::settings::Failover;

/// That of one cluster.
pub(crate) struct Source {
    pub pool: Rc<Pool>,
    pub outlook: Rc<Outlook>,
    /// They know what new sessions begin with.
    pub users: Arc<Users>,
    pub counters: Arc<ClusterCounters>,
    /// What is done where the primary is missing.
    pub failover: Cell<Failover>,
}
