//! What is asked about one command beside its statement: by hints, by rules, by the listener.
//!
//! Nobody comes here with a statement without hints, where there are no rules and the listener is an ordinary one.

mod cache;
mod deadline;
mod mirror;
mod trace;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::ListenerMode;
use delphinus_net::rt;
use delphinus_route::{Facts, Rule, RulePlace, Scope, Wish, is_for_readers, obstacle};
use delphinus_sql::{
    Access, CacheWish, Class, CodeChange, Consistency, Effects, Hints, LexOptions, Statement, Target, Uses,
    Wanted, assignments, hints,
};
use delphinus_state::PinReason;
use delphinus_topology::{BackendId, Role};
use delphinus_wire::response::Status;

use crate::client_error::{ProxyError, Steered};
use crate::read_only::isolation_is;
use crate::rights::MayChange;
use crate::session::Session;
use crate::stored_code::TextExecuted;

use cache::Keeping;
pub(crate) use deadline::Deadline;
pub(crate) use mirror::{CopyWanted, Mirrors};
use trace::Trace;

/// What is asked about the command that runs, and what holds for all commands of the session.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each looked at by itself")]
pub(crate) struct Steering {
    /// Something was asked about the command that runs.
    pub(crate) is_asked: bool,
    wish: Option<Asked>,
    /// Whether its answer may come from the cache, or go there.
    pub(crate) cache: Option<CacheWish>,
    /// Its answer, which is to be kept.
    pub(crate) keeping: Option<Box<Keeping>>,
    /// How long the statement may run.
    pub(crate) timeout: Option<Duration>,
    /// How old what the command reads may be.
    asked: Option<Consistency>,
    /// The same for all commands, where that is said for the session, its user or all.
    standing: Option<Consistency>,
    /// What the session's own settings ask for.
    pub(crate) own: Option<Box<Hints>>,
    /// Rules, the listener or the session's settings have a say in every command.
    always: bool,
    /// The connection that the session was given last is one to a replica.
    pub(crate) on_replica: bool,
    /// The transaction on the replica has read something, so that it cannot begin again elsewhere.
    pub(crate) has_read: bool,
    /// Something that was said in it holds for that connection only, or for a later transaction: even one without a view of its
    /// own cannot begin again elsewhere.
    pub(crate) is_rooted: bool,
    /// A transaction of this session needed the primary when it had read on a replica: the next ones begin there.
    pub(crate) needs_primary: bool,
    /// The command's text is a rule's already.
    pub(crate) is_rewritten: bool,
    /// Where a rule wants the command copied to.
    pub(crate) mirror: Option<CopyWanted>,
    /// The session wants each of its statements traced.
    pub(crate) traces: bool,
    /// What the log will be told of the command that runs.
    pub(crate) trace: Option<Box<Trace>>,
    /// The command that runs may change rights.
    pub(crate) rights: Option<MayChange>,
    /// What it may change of the code in the database.
    pub(crate) code: Option<Box<CodeChange>>,
    /// The texts that the command runs by EXECUTE, once they were looked for.
    pub(crate) executed: Option<Rc<Vec<TextExecuted>>>,
    /// Hints of this session that came to nothing.
    ignored: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Asked {
    Hint(RulePlace),
    Rule(RulePlace),
}

impl Steering {
    /// For a session of this listener.
    pub(crate) fn new(always: bool, standing: Option<Consistency>) -> Self {
        Self { standing, always, ..Self::default() }
    }

    /// How old what is read may be, if anybody says.
    #[inline]
    pub(crate) fn consistency(&self) -> Option<Consistency> {
        self.asked.or(self.standing)
    }

    /// Forgets what was about one command.
    #[inline]
    pub(crate) fn end_command(&mut self) {
        if self.is_asked {
            self.is_asked = false;
            self.is_rewritten = false;
            self.asked = None;
            self.wish = None;
            self.timeout = None;
            self.cache = None;
            self.keeping = None;
            self.mirror = None;
            self.code = None;
            self.executed = None;
        }
    }

    /// The same, and by whom.
    pub(crate) fn asked_place(&self) -> Option<&Asked> {
        self.wish.as_ref()
    }

    /// Where the command is wanted.
    #[inline]
    pub(crate) fn wish(&self) -> Option<Wish<'_>> {
        self.wish.as_ref().map(|asked| match asked {
            Asked::Hint(place) => Wish::Hint(place.as_place()),
            Asked::Rule(place) => Wish::Rule(place.as_place()),
        })
    }
}

/// The hints among query attributes: those whose name begins with `delphinus.`.
pub(crate) fn hints_of(attributes: &[(Vec<u8>, Vec<u8>)]) -> Hints {
    let mut hints = Hints::default();
    for (name, value) in attributes {
        if let Some((PREFIX, short)) = name.split_at_checked(PREFIX.len()) {
            hints.ask(short, Some(value));
        }
    }
    hints
}

/// What the names of query attributes for the proxy begin with.
const PREFIX: &[u8] = b"delphinus.";

impl Session {
    /// True if [`Session::steer`] has to be asked about this statement.
    #[inline]
    pub(crate) fn is_steered(&self, statement: &Statement) -> bool {
        self.steering.always
            || self.steering.on_replica && self.held.bound.is_some()
            || statement.uses.contains(Uses::HINTS)
    }

    /// Forgets the session's own settings.
    pub(crate) fn reset_steering(&mut self) {
        let standing = self.worker.consistency_of(&self.activity.user());
        // What its program does in transactions is the same after a reset.
        let needs_primary = self.steering.needs_primary;
        let fresh = Steering::new(self.worker.is_steered(&self.login.listener), standing);
        self.steering = Steering { needs_primary, ..fresh };
    }

    /// Takes over new settings of the session.
    pub(crate) fn set_own_hints(&mut self, own: Hints, traces: bool) {
        let is_empty = own.is_empty();
        self.steering.traces = traces;
        self.steering.standing =
            own.consistency.or_else(|| self.worker.consistency_of(&self.activity.user()));
        self.steering.own = (!is_empty).then(|| Box::new(own));
        self.steering.always = !is_empty || traces || self.worker.is_steered(&self.login.listener);
    }

    /// How far replicas may be used for the statement.
    #[inline]
    pub(crate) fn scope(&self, statement: &Statement) -> Scope {
        match self.login.listener.mode {
            ListenerMode::Split => {}
            ListenerMode::ReadOnly => return Scope::Replicas,
            ListenerMode::ReadWrite => return Scope::Primary,
        }
        let autocommit_off = !self.state.status.contains(Status::AUTOCOMMIT);
        let begins = matches!(statement.class, Class::Begin | Class::StartTransaction);
        let may_go =
            self.worker.settings.routing.replica_read_only_transactions && !self.steering.needs_primary;
        // Where every read locks, the locks of a replica keep nobody from writing.
        if (begins || autocommit_off) && may_go && !isolation_is(&self.state.want.vars, &["SERIALIZABLE"]) {
            let reads_only = delphinus_state::reads_only(&self.state.want.vars);
            return Scope::of_transaction(statement, reads_only, autocommit_off);
        }
        Scope::Usual
    }

    /// The same for the router: what needs no primary is not to wait for one.
    #[inline]
    pub(crate) fn scope_to_plan(&self, statement: &Statement) -> Scope {
        match self.scope(statement) {
            Scope::Usual if self.needs_no_primary(statement) => Scope::WithoutPrimary,
            scope => scope,
        }
    }

    /// True for what is about the session alone, and for reads without autocommit, which begin a transaction that goes on there.
    #[inline]
    fn needs_no_primary(&self, statement: &Statement) -> bool {
        if statement.access == Access::Write {
            return statement.is_of_session;
        }
        !self.state.status.contains(Status::AUTOCOMMIT)
            && !self.steering.needs_primary
            && !isolation_is(&self.state.want.vars, &["SERIALIZABLE"])
    }

    /// Finds out what is asked about a statement beside itself. An error means that it must not run; a text, that this is to
    /// run in its place, once it has been steered, too.
    pub(crate) async fn steer(
        &mut self,
        sql: &[u8],
        statement: &Statement,
        attributes: Hints,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        self.steering.is_asked = true;
        if statement.uses.contains(Uses::ROUTE) && statement.class == Class::Explain {
            // Not this one is about to run.
            return Ok(None);
        }
        if self.steering.traces && self.steering.trace.is_none() {
            self.begin_trace(sql, statement, &attributes);
        }
        self.check_listener(sql, statement)?;
        if self.steering.is_rewritten {
            return Ok(None);
        }
        let lex = self.state.lex.options(&self.state.want.vars);
        let in_text = if statement.uses.contains(Uses::HINTS) { hints(sql, lex) } else { Hints::default() };
        let asked = in_text.or(&attributes);
        for unknown in &asked.unknown {
            self.cannot(&format!("it does not know {unknown:?}"))?;
        }
        let standing = self.steering.own.as_deref().cloned().unwrap_or_default();
        let is_standing = asked.wanted.is_none();
        let place = self.place_of(&asked.clone().or(&standing))?;
        if let Some(place) = &place
            && !is_standing
        {
            self.check_obstacle(statement, place)?;
        }
        if let Some(token) = &asked.causality_token {
            match self.causality.read_token(token, lex.flavor, &self.state.share) {
                Some(token) => self.causality.take_token(token),
                None => self.cannot("the causality_token is none of these servers")?,
            }
        }
        self.steering.asked = asked.consistency;
        self.steer_cache(&asked, &standing, statement)?;
        let timeout_ms = asked.timeout_ms.or(standing.timeout_ms);
        self.steering.wish = place.map(Asked::Hint);
        self.steering.timeout = timeout_ms.filter(|limit| *limit > 0).map(Duration::from_millis);
        if !self.worker.settings.routing.rules.is_empty()
            && let Some(text) = self.follow_rule(sql, statement, &attributes).await?
        {
            self.steering.is_rewritten = true;
            return Ok(Some(text));
        }
        Ok(None)
    }

    /// The same for a statement that was prepared before: its text is what a rule made of it then.
    pub(crate) async fn steer_prepared(
        &mut self,
        sql: &[u8],
        statement: &Statement,
        attributes: Hints,
    ) -> Result<(), ProxyError> {
        // Its text is what a rule has made of it when it was prepared.
        self.steer(sql, statement, attributes).await?;
        self.check_where_it_is(sql, statement).await
    }

    /// How long a statement that was prepared before may run, by its text, the session's settings and the rules: for what is done for
    /// it before it runs. Nothing is counted or told.
    pub(crate) fn time_limit(&mut self, sql: &[u8], statement: &Statement) -> Option<Duration> {
        if !self.is_steered(statement) {
            return None;
        }
        let lex = self.state.lex.options(&self.state.want.vars);
        let in_text = if statement.uses.contains(Uses::HINTS) { hints(sql, lex) } else { Hints::default() };
        let own = self.steering.own.as_ref().and_then(|own| own.timeout_ms);
        let asked = in_text.timeout_ms.or(own).filter(|limit| *limit > 0).map(Duration::from_millis);
        asked.or_else(|| {
            let user = self.activity.user();
            let facts = self.facts(&user, sql, (statement, lex));
            self.worker.settings.routing.rules.look(&facts)?.then.timeout
        })
    }

    /// What rules look at.
    fn facts<'a>(
        &'a self,
        user: &'a str,
        sql: &'a [u8],
        (statement, lex): (&'a Statement, LexOptions),
    ) -> Facts<'a> {
        Facts {
            user,
            schema: self.state.want.schema.as_deref(),
            client: self.login.client_ip,
            listener: &self.login.listener.name,
            statement,
            sql,
            lex,
        }
    }

    /// What a listener for reading lets through.
    pub(crate) fn check_listener(&mut self, sql: &[u8], statement: &Statement) -> Result<(), ProxyError> {
        if self.login.listener.mode != ListenerMode::ReadOnly || statement.uses.contains(Uses::PROXY_SETTINGS)
        {
            return Ok(());
        }
        let sets = Effects::SETS_SYSTEM_VARS.union(Effects::SETS_NEXT_TRANSACTION);
        let is_refused =
            !is_for_readers(statement) || statement.effects.intersects(sets) && self.may_write_then(sql);
        if is_refused { Err(Steered::ReadOnlyListener.into()) } else { Ok(()) }
    }

    /// True if transactions may write after this `SET`.
    fn may_write_then(&mut self, sql: &[u8]) -> bool {
        let lex = self.state.lex.options(&self.state.want.vars);
        assignments(sql, lex).iter().any(|assignment| match &assignment.target {
            Target::System { name, .. } => name == "transaction_read_only" || name == "tx_read_only",
            Target::Transaction { .. } => assignment
                .value
                .split(|byte| !byte.is_ascii_alphabetic())
                .any(|word| word.eq_ignore_ascii_case(b"write")),
            _ => false,
        })
    }

    /// The place that hints ask for.
    fn place_of(&mut self, asked: &Hints) -> Result<Option<RulePlace>, ProxyError> {
        let place = match &asked.wanted {
            Some(Wanted::Primary) => Some(RulePlace::Primary),
            Some(Wanted::Replica) => Some(RulePlace::Replica),
            Some(Wanted::Backend(name)) => {
                let found = self.backend_named(name);
                if found.is_none() {
                    self.cannot(&format!("it has no backend {name:?}"))?;
                }
                found.map(|id| RulePlace::Among(Arc::from([id])))
            }
            Some(Wanted::Auto) | None => None,
        };
        if asked.consistency == Some(Consistency::Global)
            && matches!(place, Some(RulePlace::Replica | RulePlace::Among(_)))
        {
            self.cannot("it cannot keep the consistency that is asked for on a replica")?;
        }
        Ok(place)
    }

    /// The backend with this name.
    pub(crate) fn backend_named(&self, name: &str) -> Option<BackendId> {
        self.worker.outlook.with_snapshot(|snapshot, _| snapshot.named(name).map(|backend| backend.id))
    }

    /// A hint for a place where the statement must not run.
    fn check_obstacle(&mut self, statement: &Statement, place: &RulePlace) -> Result<(), ProxyError> {
        let (is_primary, is_up) = match place {
            RulePlace::Primary => (true, true),
            RulePlace::Replica => (false, true),
            RulePlace::Among(ids) => self.worker.outlook.with_snapshot(|snapshot, _| {
                let named: Vec<_> = snapshot.backends.iter().filter(|one| ids.contains(&one.id)).collect();
                (named.iter().any(|one| one.role == Role::Primary), named.iter().any(|one| one.is_up()))
            }),
        };
        if !is_up {
            return self.cannot("the backend cannot be used");
        }
        let (is_held, on_replica) = (self.held.bound.is_some(), self.steering.on_replica);
        if is_primary {
            let stays = is_held && on_replica && self.steering.has_read;
            let is_kept = stays || self.login.listener.mode == ListenerMode::ReadOnly;
            return if is_kept { self.cannot("the session is on a replica") } else { Ok(()) };
        }
        if is_held && on_replica || self.scope(statement) == Scope::ReadOnlyTransaction {
            return Ok(());
        }
        match (self.login.listener.mode, obstacle(&self.intent(statement, &[]))) {
            (ListenerMode::ReadWrite, _) => self.cannot("the listener is for the primary"),
            (ListenerMode::Split, Some(reason)) => self.cannot(reason.as_str()),
            _ => Ok(()),
        }
    }

    /// A hint that comes to nothing is an error where hints are strict; else it is counted, and the first one of a
    /// session is logged.
    pub(crate) fn cannot(&mut self, why: &str) -> Result<(), ProxyError> {
        self.worker.counters.hints_ignored.increment();
        if self.worker.settings.routing.strict_hints {
            return Err(Steered::Hint(why.to_owned()).into());
        }
        if self.steering.ignored == 0 {
            tracing::warn!(session.id = self.activity.id.0, user = %self.activity.user(), why, "a hint is ignored");
        }
        self.steering.ignored += 1;
        Ok(())
    }

    /// Does what the first rule that matches says. Returns the text that it puts in the place of this one.
    async fn follow_rule(
        &mut self,
        sql: &[u8],
        statement: &Statement,
        attributes: &Hints,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        let worker = self.worker.clone();
        let lex = self.state.lex.options(&self.state.want.vars);
        let user = self.activity.user();
        let facts = self.facts(&user, sql, (statement, lex));
        let id = self.activity.id.0;
        let tell = |rule: &Rule, text: &str| {
            tracing::info!(session.id = id, user = %user, rule = %rule.name, class = statement.class.as_str(), "{text}");
        };
        let found = worker.settings.routing.rules.find(&facts, |rule| tell(rule, "a rule would match"));
        let Some(rule) = found else { return Ok(None) };
        self.steering.mirror = CopyWanted::by(rule);
        if rule.then.log && self.steering.trace.is_none() {
            self.begin_trace(sql, statement, attributes);
        }
        if let Some(message) = &rule.then.reject {
            return Err(Steered::RejectedByRule(message.clone()).into());
        }
        if self.steering.wish.is_none() {
            self.steering.wish = rule.then.place.clone().map(Asked::Rule);
        }
        if self.steering.timeout.is_none() {
            self.steering.timeout = rule.then.timeout;
        }
        let own = self.steering.own.as_ref().and_then(|own| own.consistency);
        if self.steering.asked.is_none() && own.is_none() {
            self.steering.asked = rule.then.consistency;
        }
        if let (None, Some(ttl)) = (self.steering.cache, rule.then.cache_ttl) {
            let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            self.steering.cache = Some(CacheWish::TtlMs(ttl_ms));
        }
        // A transaction on a replica is not to stay there when it has ended.
        if rule.then.dedicates && !(self.steering.on_replica && self.held.bound.is_some()) {
            self.state.pins.add(PinReason::Dedicated, rt::now(), sql);
            self.publish_pin();
        }
        if !rule.then.delay.is_zero() {
            rt::sleep(rule.then.delay).await;
        }
        Ok(rule.rewritten(sql))
    }
}
