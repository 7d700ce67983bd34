//! Transactions on the old primary that are not this proxy's: of other proxies, and of clients that reach the server themselves. A planned
//! move lets them end, too. What begins later is not waited for: other proxies hold it back, and nobody else asks.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Move, Plan};

use super::Driver;
use crate::probe::query;
use crate::promotion::look::text;

/// So long another proxy may take to hear of a move.
const HEARS: Duration = Duration::from_millis(60);

/// More than anybody waits for.
const MOST: usize = 10_000;

/// Those of sessions that live, but for a prepared transaction that no session has.
const OPEN: &str = "SELECT CONCAT(trx_mysql_thread_id, ' ', trx_started) FROM information_schema.INNODB_TRX \
     WHERE trx_mysql_thread_id NOT IN (0, CONNECTION_ID()) LIMIT 10000";

/// `InnoDB` answers from a copy, which it makes anew only if nobody has asked for 100 ms (`CACHE_MIN_IDLE_TIME` in both servers' sources).
const PAUSE: Duration = Duration::from_millis(130);

/// Transactions that are waited for.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: Option<Vec<String>>,
    asked: Option<Instant>,
}

impl Driver {
    /// How many transactions a planned move still waits for: this proxy's, then those that other clients had open when it began.
    pub(super) async fn still_open(&mut self, plan: &Plan) -> usize {
        let own = self.parts.holding.open(plan.from);
        let is_asked = plan.kind == Move::Switchover && plan.undoing.is_none() && plan.frozen.is_none();
        let Some(held) = plan.held.filter(|_| is_asked && own == 0) else { return own };
        let hears = self.parts.leave.permit().is_ok_and(|permit| permit.until.is_some());
        if hears && held.elapsed() < HEARS {
            // Another proxy may not have heard of it, and begins something.
            return 1;
        }
        if self.others.asked.is_none_or(|asked| asked.elapsed() > PAUSE) {
            let found = self.open_on(plan.from).await;
            let known = self.others.known.get_or_insert_with(|| found.clone());
            known.retain(|one| found.contains(one));
            self.others.asked = Some(rt::now());
        }
        self.others.known.as_ref().map_or(0, Vec::len)
    }

    /// None where the server does not tell: then nobody is waited for, as a server that does not answer is found out elsewhere.
    async fn open_on(&mut self, id: BackendId) -> Vec<String> {
        let limit = self.settings.timeout();
        let Some(hand) = self.hands.iter_mut().find(|hand| hand.id == id) else { return Vec::new() };
        let found = RefCell::new(Vec::new());
        let asked = hand.act(limit, async |open| {
            let rows = query::query(&mut open.connection, OPEN, MOST).await?;
            *found.borrow_mut() = rows.iter().map(|row| text(row, 0)).collect();
            Ok(String::new())
        });
        if let Err(error) = asked.await {
            tracing::info!(error, "it is not known which transactions are open on the primary");
        }
        found.into_inner()
    }
}
