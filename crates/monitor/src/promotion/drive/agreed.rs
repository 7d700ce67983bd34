//! What the proxies of a cluster have agreed on, by the lease store: who has the primary's role, and which servers were replaced. The one
//! that acts writes it, all others read it.

use std::time::{Duration, SystemTime};

use delphinus_net::rt;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Known, Move, Plan, Server, Step};
use tracing::{info, warn};

use super::Driver;
use super::lost::{AUTO, EARLIER};

/// The key of who has the role.
const ROLES: &str = "roles";

/// As it was read or written last.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    text: Option<String>,
    known: Known,
    /// In which life of the right to act this process has written it last.
    own: Option<u64>,
}

impl Agreed {
    /// True if this process, which has the right to act, has written it in this life of that right: nobody else writes meanwhile, so that
    /// another text that the store shows is an older one.
    fn is_newest(&self, epoch: Option<u64>) -> bool {
        self.own.is_some() && self.own == epoch
    }

    /// Those that were replaced and have not come back, by their ids.
    fn replaced(&self, id: impl Fn(&str) -> Option<BackendId>) -> Vec<BackendId> {
        let names = self.known.replaced.iter().filter(|name| Some(*name) != self.known.primary.as_ref());
        names.filter_map(|name| id(name)).collect()
    }
}

impl Driver {
    /// Reads what has changed, and has the monitor follow it.
    pub(super) async fn learn_what_is_agreed(&mut self) {
        if self.agreed.is_newest(self.epoch_now()) {
            return;
        }
        let Ok(text) = self.parts.leave.get(ROLES).await else { return };
        if text.is_none() && self.agreed.known != Known::default() {
            // Another store, or one that has lost its keys. It does not say that no server was replaced: whoever acts writes it anew, as soon
            // as it may.
            (self.agreed.text, self.agreed.own) = (None, None);
            if self.parts.leave.permit().is_ok() {
                self.agree(self.agreed.known.clone()).await;
            }
            return;
        }
        if text == self.agreed.text {
            return;
        }
        let known = text.as_deref().map(Known::of_text).unwrap_or_default();
        info!(primary = known.primary, replaced = ?known.replaced, "what the proxies have agreed on");
        self.take_in(text, known).await;
    }

    async fn take_in(&mut self, text: Option<String>, known: Known) {
        self.agreed.text = text;
        let before = std::mem::replace(&mut self.agreed.known, known.clone());
        let by = known.primary.as_deref();
        for name in before.replaced.iter().filter(|name| !known.replaced.contains(name)) {
            self.say_replaced(name, None).await;
        }
        for name in known.replaced.iter().filter(|name| Some(name.as_str()) != by) {
            self.say_replaced(name, by).await;
        }
        // Who has come back is none of them any more: the proxy would close it, and have it follow, when somebody else uses it.
        self.replaced = self.agreed.replaced(|name| self.id(name));
        if before.failover_at != known.failover_at {
            match known.failover_at {
                // Clocks that differ make it later or earlier by that, and never later than now.
                Some(at) => {
                    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at));
                    let ago = at.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default();
                    self.alert.note(rt::now().checked_sub(ago).unwrap_or_else(rt::now));
                }
                None => self.alert.clear(),
            }
        }
        if before.primary != known.primary
            && let Some(id) = by.and_then(|name| self.id(name))
        {
            // Its view is older than what was agreed on.
            self.ask_monitor(id);
            self.watched = self.watched.or(Some(id));
        }
    }

    async fn say_replaced(&self, name: &str, by: Option<&str>) {
        if let Some(id) = self.id(name) {
            self.reader.reporter().replaced(id, rt::now(), by).await;
        }
    }

    /// Who is to have the role when a move has come to its end.
    pub(super) fn agreed_primary(&self) -> Option<BackendId> {
        self.agreed.known.primary.as_deref().and_then(|name| self.id(name))
    }

    /// Before a server is opened all proxies have to know that it has the role: whoever starts anew then believes no other.
    /// False: they do not know it.
    pub(super) async fn agree_on(&mut self, plan: &Plan, steps: &[Step], servers: &[Server]) -> bool {
        let opened = steps.iter().find_map(|step| match step {
            Step::Open(on) => Some(*on),
            _ => None,
        });
        let Some(opened) = opened.filter(|on| plan.undoing.is_none() && plan.to == Some(*on)) else {
            return true;
        };
        let lost = is_lost(plan, servers).then_some(plan.from).and_then(|id| self.name(id));
        // To open one that is no backend any more would leave the proxy without a primary.
        let Some(name) = self.name(opened).filter(|_| self.is_backend(opened)) else { return false };
        self.agree(self.agreed.known.promoted(&name, lost.as_deref())).await
    }

    /// Takes a move back whose candidate was removed from the configuration meanwhile, unless it may take writes by now. One whose old
    /// primary was removed goes on: that one is to have no role.
    pub(super) fn undo_if_removed(&self, plan: &mut Plan, servers: &[Server]) {
        let Some(to) = plan.to.filter(|to| *to != plan.from && !self.is_backend(*to)) else { return };
        let server = servers.iter().find(|server| server.id == to);
        let name = server.map_or("the candidate", |server| &*server.name);
        plan.undo(format!("{name} is no backend any more"));
    }

    fn is_backend(&self, id: BackendId) -> bool {
        self.reader.load().backend(id).is_some_and(|one| one.origin.is_present())
    }

    /// A failover is done: no proxy does the next one by itself for a while, unless an operator has wanted this one.
    pub(super) async fn note_failover(&mut self, by: &str) {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = [AUTO, EARLIER].contains(&by).then_some(at.as_secs());
        if at.is_some() {
            self.alert.note(rt::now());
        }
        self.agree(self.agreed.known.failed_over(at)).await;
    }

    /// It follows the primary, so that it can be taken for it no more.
    pub(super) async fn agree_on_return(&mut self, id: BackendId) {
        self.replaced.retain(|replaced| *replaced != id);
        if let Some(name) = self.name(id) {
            self.agree(self.agreed.known.returned(&name)).await;
        }
    }

    /// Somebody else has moved the role, or it was never written down.
    pub(super) async fn agree_on_what_is_seen(&mut self, primary: BackendId) {
        let is_known = self.agreed_primary() == Some(primary);
        if is_known || self.replaced.contains(&primary) || self.parts.leave.permit().is_err() {
            return;
        }
        if let Some(name) = self.name(primary) {
            self.agree(self.agreed.known.promoted(&name, None)).await;
        }
    }

    async fn agree(&mut self, known: Known) -> bool {
        let text = known.text();
        if self.agreed.text.as_deref() == Some(&*text) {
            return true;
        }
        let epoch = self.epoch_now();
        // Where the answer is lost the store says what has become of it.
        self.agreed.own = None;
        let done = self.parts.leave.put(ROLES, Some(&text)).await;
        match &done {
            Ok(()) => {
                self.agreed.own = epoch.filter(|epoch| self.epoch_now() == Some(*epoch));
                self.take_in(Some(text), known).await;
            }
            Err(error) => warn!(error, "who has the primary's role cannot be written into the lease store"),
        }
        done.is_ok()
    }

    fn epoch_now(&self) -> Option<u64> {
        self.parts.leave.permit().ok().map(|permit| permit.epoch)
    }

    fn id(&self, name: &str) -> Option<BackendId> {
        Some(self.reader.load().named(name)?.id)
    }

    fn name(&self, id: BackendId) -> Option<String> {
        Some(self.reader.load().backend(id)?.name.to_string())
    }
}

/// True if the old primary is replaced, and has to be seen to it when it comes back: it is lost, or has died since it gave its role up.
fn is_lost(plan: &Plan, servers: &[Server]) -> bool {
    let is_gone = || servers.iter().any(|server| server.id == plan.from && server.seen.is_err());
    plan.kind == Move::Failover || plan.kind == Move::Switchover && is_gone()
}

#[cfg(test)]
mod tests {
    use delphinus_topology::promotion::{Limits, Wanted};

    use super::*;

    #[test]
    fn an_old_primary_that_has_died_in_a_switchover_comes_back_as_a_lost_one() {
        let seen = Err("gone".into());
        let gone = Server { id: BackendId(1), name: "db1".into(), host: "db1".into(), port: 3306, seen };
        let of = |kind, from| {
            let plan = Plan::new(kind, BackendId(from), Wanted::default(), Limits::default());
            is_lost(&plan, std::slice::from_ref(&gone))
        };
        assert!(of(Move::Switchover, 1) && of(Move::Failover, 1) && of(Move::Failover, 2));
        assert!(!of(Move::Switchover, 2) && !of(Move::Reopening, 1));
    }

    fn id(name: &str) -> Option<BackendId> {
        name.strip_prefix("db").and_then(|number| number.parse().ok()).map(BackendId)
    }

    #[test]
    fn a_server_that_has_come_back_is_replaced_no_more() {
        let known = Known::default().promoted("db2", Some("db1")).promoted("db3", Some("db2"));
        let mut agreed = Agreed { known, ..Agreed::default() };
        assert_eq!(agreed.replaced(id), [BackendId(1), BackendId(2)]);
        agreed.known = agreed.known.returned("db1");
        assert_eq!(agreed.replaced(id), [BackendId(2)]);
        agreed.known = agreed.known.returned("db2");
        assert!(agreed.replaced(id).is_empty());
    }

    #[test]
    fn what_this_process_has_written_is_newer_than_what_the_store_shows() {
        let mut agreed = Agreed::default();
        assert!(!agreed.is_newest(None) && !agreed.is_newest(Some(3)));
        agreed.own = Some(3);
        assert!(agreed.is_newest(Some(3)));
        // Another one may have acted since.
        assert!(!agreed.is_newest(Some(4)) && !agreed.is_newest(None));
    }
}
