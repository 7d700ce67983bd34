//! Steps are carried out, each on its server, at the same time; and only while this process may act.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_topology::promotion::{Plan, Server, Step, identity_of};
use delphinus_topology::{BackendId, Wish};
use tracing::{info, warn};

use super::super::act::{Around, Place, act};
use super::super::hand::Hand;
use super::super::settings::PromotionSettings;
use super::super::story::Line;
use super::Driver;

/// So long the monitor may take to take in what a move wants of a backend: as a rule that is its next turn. An operator may have said
/// otherwise at the same moment.
const TAKEN_IN: Duration = Duration::from_secs(5);

type Doing<'a> = Pin<Box<dyn Future<Output = (Step, Duration, Result<String, String>)> + 'a>>;

/// A step that was carried out, or has failed.
struct Done<'a> {
    step: &'a Step,
    /// So long after the move began it was begun.
    after: Duration,
    took: Duration,
    outcome: &'a Result<String, String>,
}

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
            let (own, others): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step.is_own());
            for step in own {
                let begun = rt::now();
                let done = self.hold(step).await;
                outcomes.push((step.clone(), begun.elapsed(), done));
            }
            let (at_relays, on_servers): (Vec<_>, Vec<_>) =
                others.iter().partition(|step| step.at_relay().is_some());
            outcomes.extend(self.at_relays(&at_relays, plan, servers, limit).await);
            outcomes.extend(self.on_servers(&on_servers, plan, servers, (set, limit)).await);
        }
        let mut all_done = true;
        for (step, took, outcome) in outcomes {
            self.tell(plan, servers, &Done { step: &step, after, took, outcome: &outcome });
            match outcome {
                Ok(_) => {
                    plan.done(&step, rt::now());
                    if let Step::Close(on) | Step::Open(on) | Step::Elect(on) = step {
                        self.ask_monitor(on);
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
        let permit = self.may_go_on()?;
        let Some(until) = permit.until else { return Ok(step) };
        let left = until.saturating_duration_since(rt::now());
        if left.is_zero() {
            return Err("the right to act has run out".to_owned());
        }
        Ok(step.min(left))
    }

    /// What is done at relays, at the same time.
    async fn at_relays(
        &self,
        steps: &[&Step],
        plan: &Plan,
        servers: &[Server],
        limit: Duration,
    ) -> Vec<(Step, Duration, Result<String, String>)> {
        let doing = steps.iter().map(|step| {
            let doing: Doing<'_> = Box::pin(async move {
                let begun = rt::now();
                let late = || Err(format!("no answer within {} s", limit.as_secs_f32()));
                let outcome = rt::timeout(limit, self.at_relay(step, plan, servers)).await;
                ((*step).clone(), begun.elapsed(), outcome.unwrap_or_else(late))
            });
            doing
        });
        rt::all(doing.collect()).await
    }

    async fn at_relay(&self, step: &Step, plan: &Plan, servers: &[Server]) -> Result<String, String> {
        let known = |id| plan.relays.iter().find(|relay| relay.id == id);
        let none = || "there is no such relay any more".to_owned();
        match step {
            Step::Cut(relay) => {
                let relay = known(*relay).ok_or_else(none)?;
                let standing = relay.seen.as_ref().map_err(ToString::to_string)?;
                self.parts.relays.cut(&relay.name, standing.epoch).await
            }
            Step::Turn { relay, to, epoch } => {
                let standing = servers.iter().find(|server| server.id == *to).and_then(Server::standing);
                let standing = standing.ok_or_else(|| "its new source does not answer".to_owned())?;
                let identity = identity_of(&standing.identity);
                let name = &known(*relay).ok_or_else(none)?.name;
                self.parts.relays.turn(name, (*to, &identity), *epoch).await
            }
            _ => Ok(String::new()),
        }
    }

    async fn on_servers(
        &mut self,
        steps: &[&Step],
        plan: &Plan,
        servers: &[Server],
        (set, limit): (&PromotionSettings, Duration),
    ) -> Vec<(Step, Duration, Result<String, String>)> {
        let (manner, monitor) = (&self.manner, self.settings.tuning().user.clone());
        let monitor = &monitor;
        let find = |id: BackendId| servers.iter().find(|server| server.id == id);
        let mut doing: Vec<Doing<'_>> = Vec::new();
        for hand in &mut self.hands {
            let of_hand: Vec<_> = steps.iter().filter(|step| step.on() == Some(hand.id)).copied().collect();
            let Some(own) = find(hand.id) else { continue };
            // One server has one connection: its steps come one after the other, and there is one as a rule.
            let [step] = of_hand.as_slice() else { continue };
            let step: &Step = step;
            let other = match step {
                Step::Attach { to, .. } => find(*to).map(|to| (&to.name, &to.host, to.port)),
                Step::Drain { relay, .. } => {
                    let relay = plan.relays.iter().find(|known| known.id == *relay);
                    relay.map(|relay| (&relay.name, &relay.host, relay.port))
                }
                _ => None,
            };
            let place = |(name, host, port): (&Arc<str>, &Arc<str>, u16)| Place {
                name: name.clone(),
                host: host.clone(),
                port,
            };
            let has_account = own.relay(&plan.relays).is_none();
            let is_replaced = plan.is_replaced(hand.id);
            let around = Around {
                settings: set,
                monitor,
                other: other.map(place),
                has_account,
                own,
                is_replaced,
                manner,
            };
            doing.push(Box::pin(one(hand, step, around, limit)));
        }
        rt::all(doing).await
    }

    /// The proxy's own sessions: new transactions wait, or go on.
    pub(super) async fn hold(&self, step: &Step) -> Result<String, String> {
        let now = rt::now();
        let (on, is_offline, told) = match step {
            Step::Hold(on) | Step::GiveUp(on) => {
                let is_held = matches!(step, Step::Hold(_));
                let wish = if is_held { Wish::Held { since: now } } else { Wish::GivenUp { since: now } };
                let is_seen = rt::timeout(TAKEN_IN, self.reader.wish(*on, now, wish)).await;
                let is_seen =
                    is_seen.ok_or("the monitor does not take it in: an operator may have said otherwise")?;
                (*on, is_seen.then_some(true), "new transactions wait")
            }
            Step::Release(on) => {
                let is_offline = self.reader.release(*on, now).await;
                let stays = is_offline == Some(true);
                let told =
                    if stays { "an operator has set it OFFLINE, and that stays so" } else { "they go on" };
                (*on, is_offline, told)
            }
            _ => return Ok(String::new()),
        };
        let is_offline = is_offline.ok_or("the proxy stops")?;
        if !self.parts.holding.followed(on, is_offline).await {
            // A worker that is busy takes it in with its next command.
            return Ok("a worker is busy, and applies this later".to_owned());
        }
        Ok(told.to_owned())
    }

    fn tell(&self, plan: &Plan, servers: &[Server], done: &Done<'_>) {
        let Done { step, after, took, outcome } = *done;
        let server = servers.iter().find(|server| Some(server.id) == step.on() && !step.is_own());
        let relay = plan.relays.iter().find(|relay| Some(relay.id) == step.at_relay());
        let name = server.map(|server| &server.name).or(relay.map(|relay| &relay.name));
        let backend = name.map(ToString::to_string).unwrap_or_default();
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
            if let Some(server) = servers.iter_mut().find(|server| server.id == hand.id) {
                hand.add_rights(server, limit).await;
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
