//! Steps are carried out, each on its server, at the same time; and only while this process may act.

use std::pin::Pin;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_topology::promotion::{Plan, Server, Step};
use delphinus_topology::{BackendId, Wish};
use tracing::{info, warn};

use super::super::act::{Around, act};
use super::super::hand::Hand;
use super::super::look;
use super::super::settings::PromotionSettings;
use super::super::story::Line;
use super::{Driver, all};

type Doing<'a> = Pin<Box<dyn Future<Output = (Step, Duration, Result<String, String>)> + 'a>>;

impl Driver {
    /// False if one has failed.
    pub(super) async fn perform(
        &mut self,
        plan: &mut Plan,
        steps: &[Step],
        servers: &[Server],
        (set, began): (&PromotionSettings, Instant),
    ) -> bool {
        let after = began.elapsed();
        let mut outcomes = Vec::new();
        let limit = match self.allowance(set.step) {
            Ok(limit) => limit,
            Err(why) => {
                outcomes.extend(steps.iter().map(|step| (step.clone(), Duration::ZERO, Err(why.clone()))));
                Duration::ZERO
            }
        };
        if !limit.is_zero() {
            let (own, others): (Vec<_>, Vec<_>) = steps
                .iter()
                .partition(|step| matches!(step, Step::Hold(_) | Step::GiveUp(_) | Step::Release(_)));
            for step in own {
                let begun = rt::now();
                let done = self.hold(step).await;
                outcomes.push((step.clone(), begun.elapsed(), done));
            }
            outcomes.extend(self.on_servers(&others, servers, (set, limit)).await);
        }
        let mut all_done = true;
        for (step, took, outcome) in outcomes {
            self.tell(servers, &step, (after, took), &outcome);
            match outcome {
                Ok(_) => {
                    plan.done(&step, rt::now());
                    if matches!(step, Step::Close(_) | Step::Open(_) | Step::Elect(_)) {
                        self.ask_monitor(step.on());
                    }
                }
                Err(why) => {
                    all_done = false;
                    plan.failed(&step, &why, rt::now());
                }
            }
        }
        all_done
    }

    /// How long a step may take: no statement may be under way when another proxy may act.
    fn allowance(&self, step: Duration) -> Result<Duration, String> {
        let permit = self.parts.leave.permit()?;
        let Some(until) = permit.until else { return Ok(step) };
        let left = until.saturating_duration_since(rt::now());
        if left.is_zero() {
            return Err("the right to act has run out".to_owned());
        }
        Ok(step.min(left))
    }

    async fn on_servers(
        &mut self,
        steps: &[&Step],
        servers: &[Server],
        (set, limit): (&PromotionSettings, Duration),
    ) -> Vec<(Step, Duration, Result<String, String>)> {
        let (manner, monitor) = (&self.manner, self.settings.tuning().user.clone());
        let monitor = &monitor;
        let find = |id: BackendId| servers.iter().find(|server| server.id == id);
        let mut doing: Vec<Doing<'_>> = Vec::new();
        for hand in &mut self.hands {
            let of_hand: Vec<_> = steps.iter().filter(|step| step.on() == hand.id).copied().collect();
            let Some(own) = find(hand.id) else { continue };
            // One server has one connection: its steps come one after the other, and there is one as a rule.
            let [step] = of_hand.as_slice() else { continue };
            let step: &Step = step;
            let other = if let Step::Attach { to, .. } = step { find(*to) } else { None };
            let around = Around { settings: set, monitor, other, own, manner };
            doing.push(Box::pin(one(hand, step, around, limit)));
        }
        all(doing).await
    }

    /// The proxy's own sessions: new transactions wait, or go on.
    async fn hold(&self, step: &Step) -> Result<String, String> {
        let (on, wish) = match step {
            Step::Hold(on) => (*on, Wish::Offline { since: rt::now() }),
            Step::GiveUp(on) => (*on, Wish::GivenUp { since: rt::now() }),
            step => (step.on(), Wish::Online),
        };
        if !self.reader.wish(on, rt::now(), wish).await {
            return Err("the proxy stops".to_owned());
        }
        if !self.parts.holding.followed(on, wish.is_offline()).await {
            // A worker that is busy takes it in with its next command.
            return Ok("a worker is busy, and follows later".to_owned());
        }
        Ok(if wish.is_offline() { "new transactions wait" } else { "they go on" }.to_owned())
    }

    fn tell(
        &self,
        servers: &[Server],
        step: &Step,
        (after, took): (Duration, Duration),
        outcome: &Result<String, String>,
    ) {
        let is_own = matches!(step, Step::Hold(_) | Step::GiveUp(_) | Step::Release(_));
        let name = servers.iter().find(|server| server.id == step.on() && !is_own);
        let backend = name.map(|server| server.name.to_string()).unwrap_or_default();
        let result = match outcome {
            Ok(text) => text.clone(),
            Err(why) => format!("failed: {why}"),
        };
        match outcome {
            Ok(text) => info!(
                backend,
                step = step.name(),
                took_ms = took.as_millis() as u64,
                result = text,
                "a step of a switchover"
            ),
            Err(why) => warn!(
                backend,
                step = step.name(),
                took_ms = took.as_millis() as u64,
                why,
                "a step of a switchover has failed"
            ),
        }
        self.story.borrow_mut().tell(Line { after, took, backend, step: step.name().to_owned(), result });
    }

    /// What the account may not do on each server.
    pub(super) async fn add_rights(&mut self, servers: &mut [Server]) {
        let limit = self.settings.timeout();
        for hand in &mut self.hands {
            let Some(server) = servers.iter_mut().find(|server| server.id == hand.id) else { continue };
            let Ok(standing) = &mut server.seen else { continue };
            let is_group = standing.group.is_some();
            let found = std::cell::RefCell::new(None);
            let asked = hand.act(limit, async |open| {
                *found.borrow_mut() = Some(look::more(open, is_group).await?);
                Ok(String::new())
            });
            match asked.await {
                Ok(_) => {
                    if let Some((missing, starts_read_only)) = found.into_inner() {
                        standing.missing_rights = missing.into();
                        standing.starts_read_only = starts_read_only;
                    }
                }
                Err(why) => server.seen = Err(why.into()),
            }
        }
    }
}

async fn one<'a>(
    hand: &'a mut Hand,
    step: &'a Step,
    around: Around<'a>,
    limit: Duration,
) -> (Step, Duration, Result<String, String>) {
    let begun = rt::now();
    let outcome = hand.act(limit, async |open| act(open, step, &around).await).await;
    (step.clone(), begun.elapsed(), outcome)
}
