//! A primary that is lost: by an operator's word, or found by the proxy itself.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::promotion::{Loss, Move, OnLoss, Plan};
use tracing::{error, info, warn};

use super::super::story::Told;
use super::{Driver, find};

/// Between two looks where nothing is done by itself: semi-sync is watched all the same, for a failover by an operator.
const SLOW: Duration = Duration::from_secs(1);

impl Driver {
    /// The primary is lost, by an operator's word.
    pub(in super::super) async fn fail_over(
        &mut self,
        to: Option<&str>,
        on_loss: Option<OnLoss>,
        by: String,
    ) -> Result<Told, String> {
        let set = self.ready().await?;
        let mut wanted = self.wanted(&set, to)?;
        wanted.on_loss = Self::on_loss(&set, on_loss);
        let servers = self.look().await;
        let snapshot = self.reader.load();
        let from =
            snapshot.primary().map(|primary| primary.id).or(self.watched).ok_or_else(|| {
                format!("it is not known who was the primary: {}", snapshot.why_no_primary())
            })?;
        let primary = find(&servers, from)?;
        if primary.is_open() {
            return Err(format!("{} answers and takes writes: use SWITCHOVER", primary.name));
        }
        let mut plan = Plan::new(Move::Failover, from, wanted, set.limits);
        plan.proof = self.proof.clone();
        plan.is_group = self.settings.kind == delphinus_topology::Kind::GroupReplication;
        self.alert.clear();
        self.drive(plan, &servers, (set, by)).await
    }

    /// Watches the primary; ready when it is lost and has to be replaced without an operator's word.
    pub(in super::super) async fn watch(&mut self) {
        loop {
            let pause = match self.ready().await {
                Ok(set) if self.settings.kind != delphinus_topology::Kind::GroupReplication => {
                    if self.watch_once(&set).await {
                        return;
                    }
                    if set.is_auto { self.settings.interval().min(SLOW) } else { SLOW }
                }
                _ => SLOW,
            };
            rt::sleep(pause).await;
        }
    }

    /// True if it has to be replaced now.
    async fn watch_once(&mut self, set: &super::PromotionSettings) -> bool {
        let primary = self.reader.load().primary().map(|primary| primary.id);
        if primary.is_some() && primary != self.watched {
            self.proof.forget();
            self.detection = Default::default();
            self.watched = primary;
        }
        let Some(watched) = self.watched else { return false };
        let at = rt::now();
        let servers = self.look().await;
        let Ok(server) = find(&servers, watched) else { return false };
        self.proof.watch(server, &servers, at);
        let loss = self.detection.look(server, &servers, set.patience, rt::now());
        if !set.is_auto {
            return false;
        }
        let told = match loss {
            Loss::None => None,
            Loss::Doubted(why) => Some(format!("not replaced: {why}")),
            Loss::Certain => match (self.alert.blocked(set.pause, rt::now()), self.parts.leave.permit()) {
                (Some(left), _) => Some(format!(
                    "not replaced: the last failover was a moment ago; the proxy acts by itself again in {} s, FAILOVER acts now",
                    left.as_secs()
                )),
                (None, Err(why)) => Some(format!("not replaced by this proxy: {why}")),
                (None, Ok(_)) => return true,
            },
        };
        if told != self.told {
            match &told {
                Some(why) => warn!(backend = &*server.name, why, "the primary does not answer"),
                None => info!(backend = &*server.name, "the primary answers"),
            }
            self.told = told;
        }
        false
    }

    /// Replaces it.
    pub(in super::super) async fn replace_lost(&mut self) {
        let Some(from) = self.watched else { return };
        let Ok(set) = self.ready().await else { return };
        let Ok(wanted) = self.wanted(&set, None) else { return };
        self.alert.note(rt::now());
        let servers = self.look().await;
        let mut plan = Plan::new(Move::Failover, from, wanted, set.limits);
        plan.proof = self.proof.clone();
        if let Err(why) = self.drive(plan, &servers, (set, "auto_failover".to_owned())).await {
            error!(why, "the lost primary was not replaced");
        }
    }
}
