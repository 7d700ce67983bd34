//! Between the operators' side and what moves the primary's role: the proxy's sessions as a move sees them, and a move as operators
//! see it.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::{
    CheckRow, MoveEnds, MoveLine, MoveRow, Moving, RemoteRelayRow, Switching, WorkerLine, followed,
};
use delphinus_clients::Registry;
use delphinus_config::{self as config, Cluster};
use delphinus_monitor::{Account, Asked, Holding, Outcome, Promotion, PromotionSettings, Told};
use delphinus_topology::promotion::{Limits, OnLoss};
use delphinus_topology::{BackendId, ClusterId};
use delphinus_wire::auth::Password;

use crate::ackers::Ackers;

/// How the role moves in a cluster, by its configuration.
pub(crate) fn settings(cluster: &Cluster) -> Option<PromotionSettings> {
    let failover = cluster.failover.as_ref()?;
    let account = |of: &config::FailoverAccount| Account {
        user: of.user.clone(),
        password: Password::new(of.password.expose()),
    };
    let ms = Duration::from_millis;
    Some(PromotionSettings {
        account: account(&failover.account),
        replication: account(&failover.replication),
        is_auto: failover.auto_failover,
        limits: Limits {
            drain: ms(failover.transaction_wait_ms),
            catch_up: ms(failover.catch_up_ms),
            ackers: ms(failover.acker_wait_ms),
            others: ms(failover.step_timeout_ms),
        },
        step: ms(failover.step_timeout_ms),
        hook: ms(failover.hook_timeout_ms),
        patience: ms(failover.detect_ms),
        pause: Duration::from_secs(failover.pause_s),
        on_loss: match failover.on_loss {
            config::OnLoss::Refuse => OnLoss::Refuse,
            config::OnLoss::Proceed => OnLoss::Proceed,
        },
        relays: failover.relays.clone().into(),
        prefer: failover.prefer.clone().into(),
        never: failover.never.clone().into(),
    })
}

/// The relays of other processes that acknowledge to its primary.
pub(crate) fn remote_relays(cluster: &Cluster) -> Arc<[config::RemoteRelay]> {
    cluster.failover.iter().flat_map(|failover| failover.remote_relays.iter().cloned()).collect()
}

/// The sessions of a cluster.
pub(crate) struct Sessions {
    pub cluster: ClusterId,
    pub registry: Arc<Registry>,
    pub workers: Vec<WorkerLine>,
}

impl Holding for Sessions {
    fn open(&self, backend: BackendId) -> usize {
        let is_open = |one: &Arc<delphinus_clients::Activity>| {
            let runs = one.place().is_some_and(|(place, _)| place == backend);
            let hold = one.hold();
            one.cluster() == self.cluster && (runs || hold.is_in_transaction && hold.backend == Some(backend))
        };
        self.registry.list().iter().filter(|one| is_open(one)).count()
    }

    fn followed(&self, backend: BackendId, is_offline: bool) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(followed(&self.workers, backend, is_offline))
    }
}

/// What operators are given.
pub(crate) struct Door(pub Promotion, pub Rc<Ackers>);

impl Switching for Door {
    fn check(&self, to: Option<String>) -> Moving<'_, Vec<CheckRow>> {
        Box::pin(async move {
            let Outcome::Checked(found) = self.0.ask(Asked::Check { to }).await? else {
                return Ok(Vec::new());
            };
            let row = |(backend, check): (Option<String>, delphinus_topology::promotion::Check)| CheckRow {
                check: check.name,
                backend,
                verdict: check.verdict.as_str(),
                result: check.result,
                advice: check.advice,
            };
            Ok(found.into_iter().map(row).collect())
        })
    }

    fn switch_over<'a>(&'a self, to: Option<String>, by: &'a str) -> Moving<'a, MoveRow> {
        Box::pin(moved(&self.0, Asked::Switchover { to, by: by.to_owned() }))
    }

    fn fail_over<'a>(
        &'a self,
        to: Option<String>,
        proceeds: Option<bool>,
        by: &'a str,
    ) -> Moving<'a, MoveRow> {
        let on_loss = proceeds.map(|proceeds| if proceeds { OnLoss::Proceed } else { OnLoss::Refuse });
        Box::pin(moved(&self.0, Asked::Failover { to, on_loss, by: by.to_owned() }))
    }

    fn rejoin<'a>(&'a self, name: &str, by: &'a str) -> Moving<'a, MoveRow> {
        Box::pin(moved(&self.0, Asked::Rejoin { name: name.to_owned(), by: by.to_owned() }))
    }

    fn moves(&self) -> Vec<MoveRow> {
        self.0.story().moves().map(row).collect()
    }

    fn ends(&self) -> Vec<MoveEnds> {
        let story = self.0.story();
        let ends = story.ends().iter();
        let counts =
            |ends: &delphinus_monitor::Ends| ends.counts.iter().map(|(state, n)| (*state, *n)).collect();
        ends.map(|(kind, ends)| MoveEnds { kind, counts: counts(ends), last: ends.last }).collect()
    }

    fn remote_relays(&self) -> Vec<RemoteRelayRow> {
        self.1.remote_rows()
    }
}

async fn moved(promotion: &Promotion, asked: Asked) -> Result<MoveRow, String> {
    match promotion.ask(asked).await? {
        Outcome::Moved(told) => Ok(row(&told)),
        Outcome::Checked(_) => Err("nothing was moved".to_owned()),
    }
}

fn row(told: &Told) -> MoveRow {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let line = |line: &delphinus_monitor::Line| MoveLine {
        at_ms: ms(line.after),
        took_ms: ms(line.took),
        backend: line.backend.clone(),
        step: line.step.clone(),
        result: line.result.clone(),
    };
    MoveRow {
        number: told.number,
        kind: told.kind,
        from: told.from.clone(),
        to: told.to.clone(),
        by: told.by.clone(),
        state: told.state,
        reason: told.reason.clone(),
        began: told.began,
        lines: told.lines.iter().map(line).collect(),
    }
}
