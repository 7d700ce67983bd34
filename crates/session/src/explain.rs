//! `EXPLAIN ROUTE` of a client: where a statement of its session would go now.
//!
//! Owns: what the session knows of itself for that, and who may ask. The words are `route`'s.

use delphinus_pool::Checkout;
use delphinus_route::{Asker, Cluster, Question, Row, Usual, explain};
use delphinus_sql::{Effects, Hidden, Hints, Statement, classify, explained_route};
use delphinus_state::PinReason;
use delphinus_topology::BackendId;
use delphinus_wire::response::{Status, TextResult};
use delphinus_wire::{HEADER_LEN, query_attributes};

use crate::answer::{Answer, TextShape};
use crate::client_error::{ProxyError, Steered};
use crate::fresh::Reading;
use crate::io::Input;
use crate::served::Outcome;
use crate::session::Session;
use crate::steer::{check_listener, hints_of};

/// The longest values that columns are announced for, in characters.
const WIDTHS: [u32; 2] = [64, 4096];

/// Where a session is while a statement runs, beside what the statement says.
struct Standing {
    /// The connection that it keeps.
    held: Option<BackendId>,
    in_transaction: bool,
    pinned: Option<PinReason>,
    refused: Option<String>,
}

impl Session {
    /// True if the user may ask where its statements go.
    pub(crate) fn may_explain(&self) -> bool {
        let own = self.worker.users.find(&self.activity.user()).and_then(|user| user.explain_route);
        own.unwrap_or(self.worker.settings.routing.explain_route)
    }

    /// Answers `EXPLAIN ROUTE`.
    pub(crate) async fn explain_route(&mut self, input: Input, text_at: usize, sql: &[u8]) -> Outcome {
        if !self.may_explain() {
            return self.refuse(input, Steered::MayNotExplain("EXPLAIN ROUTE").into()).await;
        }
        if !input.is_whole() {
            return self.refuse(input, ProxyError::PacketTooLarge).await;
        }
        let lex = self.state.lex.options(&self.state.want.vars);
        let Some(asked) = explained_route(sql, lex) else {
            return self.refuse(input, Steered::RouteMixed.into()).await;
        };
        let mut statement = classify(asked, lex);
        if self.worker.stored_code.concerns(&statement) {
            let catalog = self.worker.stored_code.catalog().await;
            catalog.uncover(&mut statement, asked, lex);
            statement.effects |= as_if_its_own(&catalog.hidden(&statement, asked, lex));
        }
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held.max(text_at)];
        let attributes = hints_of(&query_attributes(payload, self.client.capabilities));
        let rows = self.explained(asked, &statement, &attributes, explain);
        self.client.skip(input).await?;
        let result = table_of(rows, self.text_shape());
        self.answer(&Answer::rows(result)).await
    }

    /// What `look` makes of a statement, of the cluster, and of what this session is.
    pub(crate) fn explained<T>(
        &mut self,
        sql: &[u8],
        statement: &Statement,
        attributes: &Hints,
        look: impl FnOnce(&Question<'_>, Cluster<'_>, &Asker<'_>) -> T,
    ) -> T {
        let lex = self.state.lex.options(&self.state.want.vars);
        let standing = self.where_it_stands(sql, statement);
        let (user, avoid) = (self.activity.user(), self.worker.outlook.avoided());
        let routing = &self.worker.settings.routing;
        let of_user = self.worker.users.find(&user).and_then(|user| user.consistency);
        self.worker.outlook.with_snapshot(|snapshot, balance| {
            let reading = self.reading(snapshot);
            let demanded = |level| self.causality.demanded(&Reading { level, ..reading });
            let asker = Asker {
                user: &user,
                schema: self.state.want.schema.as_deref(),
                client: self.login.client_ip,
                listener: &self.login.listener.name,
                attributes: attributes.clone(),
                own: self.steering.own.as_deref().cloned().unwrap_or_default(),
                usual: Usual::of(of_user, routing.consistency, snapshot),
                in_transaction: standing.in_transaction,
                autocommit_off: !self.state.status.contains(Status::AUTOCOMMIT),
                pinned: standing.pinned,
                held: standing.held,
                pins: self.state.pins.iter().map(|pin| pin.reason).collect(),
                avoid,
                scope: self.steering.scope_to_plan(statement, self.around()),
                refused: standing.refused,
                demanded: Some(&demanded),
            };
            let cluster = Cluster { snapshot, rules: &routing.rules, policy: *balance.policy() };
            look(&Question { sql, lex, statement }, cluster, &asker)
        })
    }

    /// Where the session is for this statement. One that does not belong into a transaction on a replica ends it, or
    /// begins it again on the primary.
    fn where_it_stands(&mut self, sql: &[u8], statement: &Statement) -> Standing {
        let question = Question { sql, lex: self.state.lex(), statement };
        let refused = check_listener(self.login.listener.mode, &question).err();
        let refused = refused.map(|why| ProxyError::from(why).reason());
        let mut standing = Standing {
            held: self.held.bound.as_ref().map(Checkout::backend),
            in_transaction: self.state.status.contains(Status::IN_TRANS),
            pinned: self.around().reason_for_primary(),
            refused,
        };
        if self.is_held_on_replica() {
            match self.stays_on_replica(sql, statement) {
                Ok(true) => {}
                Ok(false) => {
                    standing = Standing { held: None, in_transaction: false, pinned: None, refused: None };
                }
                Err(why) => standing.refused = Some(ProxyError::from(why).reason()),
            }
        }
        standing
    }
}

/// As a table.
fn table_of(rows: Vec<Row>, shape: TextShape) -> TextResult {
    let column = |(name, width): (&str, u32)| shape.column(name.as_bytes(), width);
    let cell = |text: String| Some(text.into_bytes());
    TextResult {
        columns: ["item", "value"].into_iter().zip(WIDTHS).map(column).collect(),
        rows: rows.into_iter().map(|(item, value)| vec![cell(item.to_owned()), cell(value)]).collect(),
    }
}

/// What code in the database does, as the effects of a statement that does so itself.
fn as_if_its_own(hidden: &Hidden) -> Effects {
    let facts = [
        (hidden.locks, Effects::GETS_LOCK),
        (hidden.next_transaction, Effects::SETS_NEXT_TRANSACTION),
        (hidden.is_unknown, Effects::UNKNOWN),
    ];
    let facts = facts.into_iter().filter(|(is_so, _)| *is_so);
    facts.fold(Effects::default(), |all, (_, effect)| all.union(effect))
}
