//! From a new client to a session: greeting, user lookup, its parts.

mod entrance;
mod first_state;
mod greeting;
mod origin;
mod password;

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{
    Activity, ClientConnId, Clusters, Connected, Entry, ListenerSettings, LoginAttempt, Rank, Visitor,
};
use delphinus_memory::{Account, Owner, Share};
use delphinus_net::rt::{self, Either};
use delphinus_net::tls::ServerTls;
use delphinus_net::{Buffer, LoginEnd, LoginServices, NetError, Peer, Stream, serve_login};
use delphinus_pool::{Identity, Memory};
use delphinus_state::{Pins, SqlStatements};
use delphinus_topology::ServerFacts;
use delphinus_wire::auth::Nonce;
use delphinus_wire::compression::{Algorithm, CompressedLink, Side};
use delphinus_wire::handshake::server::{LoginOutcome, ServerSettings};
use delphinus_wire::response::{Layer, OkPacket, SessionChanges, Status};
use delphinus_wire::{Capabilities, begin_packet, end_packet, put_packet};

use self::entrance::entrance;
pub(crate) use self::entrance::{Destination, destination};
use self::first_state::check_name;
pub(crate) use self::first_state::{check_schema, first_state, lex, may_talk};
use self::greeting::{refuse, server_settings};
use self::origin::Origin;
use crate::client_error::{ClientError, ProxyError};
use crate::follow::Noted;
use crate::fresh::Causality;
use crate::hold::{Held, Seats};
use crate::io::Client;
use crate::login_facts::LoginFacts;
use crate::session::{ForNextUser, Session};
use crate::spent::Spent;
use crate::state::{AskedTracking, JustBegun, Published, Wanted};
use crate::statements::ClientStatements;
use crate::steer::Steering;
use crate::worker::Worker;

/// Clients choose the level that answers to them are compressed with; from 10 on, a worker would do little else.
const MOST_ZSTD_LEVEL: u8 = 9;

/// The session of a client that has arrived, if it gets one.
pub(crate) async fn enter(
    clusters: Rc<Clusters<Worker>>,
    (peer, listener): (Peer, Arc<ListenerSettings>),
    connected: &Connected,
) -> Option<Box<Session>> {
    let worker = clusters.first(&listener).clone();
    let origin = Origin { host: peer.host(), ip: peer.ip, system_user: peer.system_user };
    let (host, local) = (origin.host.clone(), peer.local);
    let stream = peer.into_stream().ok()?;
    let limit = Duration::from_millis(worker.settings().connect_timeout_ms);
    let login = Box::pin(log_in(clusters, stream, listener, (origin, connected)));
    match rt::either(rt::timeout(limit, login), connected.evicted()).await {
        // Boxed, so that a client that has not logged in does not carry the room of one that has.
        Either::First(Some(Ok(session))) => {
            session.held.activity.has_come_to(local);
            return Some(Box::new(session));
        }
        Either::First(Some(Err(error))) => note_failure(&worker, &host, &error),
        Either::First(None) => note_failure(&worker, &host, &NetError::TimedOut(limit.as_millis() as u64)),
        Either::Second(()) => {
            worker.process.logins_evicted.increment();
            tracing::debug!(client.host = %host, "login ended: a newer one took its place");
        }
    }
    None
}

/// A client that leaves before it has said anything is a probe, not worth a word.
fn note_failure(worker: &Worker, host: &str, error: &NetError) {
    worker.process.logins_broken.increment();
    tracing::debug!(client.host = %host, %error, "login not finished");
}

async fn log_in(
    clusters: Rc<Clusters<Worker>>,
    mut stream: Stream,
    listener: Arc<ListenerSettings>,
    (peer, connected): (Origin, &Connected),
) -> Result<Session, NetError> {
    let mut buffer = Buffer::default();
    // Until the client's own cluster is known.
    let worker = clusters.first(&listener).clone();
    let limit = worker.settings().connect_timeout_ms;
    let Origin { host, ip, system_user } = peer.resolve(&mut stream, &mut buffer, (&listener, limit)).await?;
    if let Err(error) = worker.lets_in((&listener, connected), (ip, &host)) {
        // Before the greeting there is no SQLSTATE in errors.
        refuse(&mut stream, &ClientError::from(&error), 0, Capabilities::default()).await;
        return Err(NetError::Closed);
    }
    let id = worker.registry.next_id();
    let entrance = match entrance(&clusters, &listener).await {
        Ok(entrance) => entrance,
        Err(error) => {
            refuse(&mut stream, &ClientError::from(&error), 0, Capabilities::default()).await;
            return Err(NetError::Closed);
        }
    };
    let settings = server_settings(&worker, &entrance, &listener, &stream, (id, host.clone()))?;
    let visitor = Visitor::of(ip, system_user);
    let limit = Duration::from_millis(limit);
    let attempt = LoginAttempt::new(worker.registry.failed_logins(), connected, (visitor, &host), limit);
    let services = LoginServices {
        memory: &worker.memory,
        tls: listener.tls.as_ref(),
        pause: &|query| attempt.pause(query.user()),
        lookup: &|query| {
            clusters.choose(&listener, query.user(), query.schema()).users.record(query.user(), ip)
        },
        verify: &|query| {
            let worker = clusters.choose(&listener, query.user(), query.schema()).clone();
            Box::pin(async move { worker.check_password(query, ip).await })
        },
    };
    let outcome = match serve_login(&mut stream, &mut buffer, settings.clone(), &services).await {
        Ok(outcome) => outcome,
        Err(end) => {
            attempt.failed(&end).await;
            return Err(refuse_login(&worker, (&mut stream, &buffer), &host, end).await);
        }
    };
    attempt.succeeded();
    let who = Admitting { clusters: &clusters, listener: &listener, host: &host, visitor };
    let admitted = match who.admit((connected, id), &outcome).await {
        Ok(admitted) => admitted,
        Err(error) => {
            refuse_known(&mut stream, &error, &outcome).await;
            return Err(NetError::Closed);
        }
    };
    let (Destination { worker, facts }, info) = admitted;
    worker.process.logins_ok.increment();
    let seed = Seed { clusters, stream, buffer, listener, settings, info, client_ip: ip };
    let mut session = seed.grow(worker, &facts, &outcome);
    session.state.pin_if_dedicated(&session.worker.users);
    let remark = remark_of(&outcome, &session.login, &session.next_user.settings.nonce);
    // Boxed for the same reason: it may have to check a connection out, which takes most of the room.
    let Session { worker, client, held, state, .. } = &mut session;
    let limits = (worker.settings().connect_timeout_ms, &worker.memory);
    let finished = Box::pin(finish_login(client, held, state, (&outcome, &remark), limits)).await;
    if let Err(error) = finished {
        session.leave();
        return Err(error);
    }
    Ok(session)
}

/// Tells a client why it is not let in, if it is still there.
async fn refuse_login(
    worker: &Worker,
    (stream, buffer): (&mut Stream, &Buffer),
    host: &str,
    end: LoginEnd,
) -> NetError {
    match end {
        LoginEnd::Broken(error) => {
            origin::refuse_header(stream, buffer, host).await;
            error
        }
        LoginEnd::Refused(refusal) => {
            worker.process.logins_denied.increment();
            tracing::info!(client.host = %host, code = refusal.code, reason = refusal.reason, "login refused");
            let error = ClientError::new(refusal.code, refusal.state, refusal.message);
            refuse(stream, &error, refusal.seq, Capabilities::PROTOCOL_41).await;
            NetError::Closed
        }
    }
}

/// A client whose password was right, and what else is asked of it.
struct Admitting<'a> {
    clusters: &'a Clusters<Worker>,
    listener: &'a ListenerSettings,
    host: &'a str,
    visitor: Visitor,
}

impl Admitting<'_> {
    /// Gives it its cluster and its place, or says why it gets none.
    async fn admit(
        &self,
        (connected, id): (&Connected, ClientConnId),
        outcome: &LoginOutcome,
    ) -> Result<(Destination, Arc<Activity>), ProxyError> {
        let counters = &self.clusters.first(self.listener).process;
        let agreed = outcome.connection.capabilities;
        if self.listener.must_compress && Algorithm::agreed(agreed, 0).is_none() {
            counters.logins_denied.increment();
            tracing::info!(client.host = %self.host, "login refused: the client does not compress");
            return Err(ProxyError::NotCompressed);
        }
        let to = destination(self.clusters, self.listener, outcome).await.inspect_err(|error| {
            counters.logins_denied.increment();
            let why = error.reason();
            tracing::info!(client.host = %self.host, user = outcome.user, why, "login refused: cluster");
        })?;
        may_talk(&to.facts, outcome)?;
        check_name(&to.facts, outcome)?;
        let worker = &to.worker;
        let entry = Entry { id, host: self.host.to_owned(), visitor: self.visitor, cluster: worker.cluster };
        let entered =
            worker.registry.enter(connected, worker.users.newcomer(&outcome.user, self.visitor), entry);
        let info = entered.map_err(|refusal| worker.refused(refusal, (&outcome.user, self.host)))?;
        Ok((to, info))
    }
}

/// The parts of a session that are there before its user is known.
struct Seed {
    clusters: Rc<Clusters<Worker>>,
    stream: Stream,
    buffer: Buffer,
    listener: Arc<ListenerSettings>,
    settings: ServerSettings,
    info: Arc<Activity>,
    client_ip: Option<IpAddr>,
}

impl Seed {
    fn grow(self, worker: Rc<Worker>, facts: &ServerFacts, outcome: &LoginOutcome) -> Session {
        let initial = worker.shared(first_state(&worker, facts, outcome, self.listener.mode));
        let keys = worker.users.keys(&outcome.user, (&outcome.secret, &outcome.record));
        // First: see `lex`.
        let rights = keys.epoch();
        let (lex, first_mode) = lex(&worker, facts, &initial);
        let identity = worker.pool.identity(
            Identity::new(outcome.user.clone(), outcome.connection.capabilities, &keys)
                .of_client(self.client_ip, outcome.attributes.clone())
                .of_admin(self.info.rank() == Rank::ConnectionAdmin),
        );
        let account = &worker.memory;
        let (room, share) = (account.open(Owner::Buffers), Share::of(account));
        let spent = Rc::new(Spent::new(self.info.clone()));
        let agreed = outcome.connection.capabilities;
        let equipment = (worker.equipment.clone(), spent.clone());
        let client = Client::new(self.stream, self.buffer, room, agreed, equipment);
        let (id, published) = (self.info.id, Published::new(self.info.clone(), worker.counters.clone()));
        let takes_expired = agreed.contains(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS);
        let peer = Layer::of_client(&outcome.attributes, agreed);
        let held = Held {
            source: worker.source.clone(),
            activity: self.info,
            spent,
            seats: Seats::default(),
            bound: None,
            identity,
            rights,
            keys,
            memory: Memory::of(&share, id.0, first_mode),
            last_backend: None,
            broke_on: Cell::default(),
            takes_expired,
            taken: Cell::default(),
        };
        let state = Wanted {
            id,
            lex,
            want: initial.clone(),
            initial,
            sql: SqlStatements::default(),
            pins: Pins::default(),
            published,
            just_begun: JustBegun::default(),
            status: Status::AUTOCOMMIT,
            asked_tracking: AskedTracking::at_login(peer),
            idle_limit_s: 0,
            share,
            kept_state: None,
        };
        Session {
            steering: Steering::new(worker.standing(&outcome.user, &self.listener, self.client_ip)),
            noted: Noted::default(),
            causality: Causality::default(),
            settings: worker.settings(),
            worker,
            client,
            login: LoginFacts { listener: self.listener, client_ip: self.client_ip, peer },
            next_user: Box::new(ForNextUser {
                established: outcome.connection,
                settings: self.settings,
                clusters: self.clusters,
                refusals: 0,
            }),
            state,
            held,
            statements: ClientStatements::default(),
            costs: Box::default(),
        }
    }
}

/// Refuses a client whose password was right.
async fn refuse_known(stream: &mut Stream, error: &ProxyError, outcome: &LoginOutcome) {
    if let Some(packet) = &outcome.before_ok {
        let mut out = Vec::new();
        put_packet(&mut out, packet.seq, &packet.payload);
        // As below.
        let _ = stream.write_bytes(&out).await;
    }
    refuse(stream, &ClientError::from(error).of_login(), outcome.next_seq, Capabilities::PROTOCOL_41).await;
}

/// Checks the schema, where the client names one, and says OK.
async fn finish_login(
    client: &mut Client,
    held: &mut Held,
    state: &mut Wanted,
    (outcome, remark): (&LoginOutcome, &[u8]),
    (limit_ms, account): (u64, &Account),
) -> Result<(), NetError> {
    if let Err(error) = check_schema(held, state, limit_ms).await {
        refuse_known(&mut client.stream, &error, outcome).await;
        return Err(NetError::Closed);
    }
    held.activity.enters(state.want.schema.as_deref());
    say_welcome(client, state.status, (outcome, remark), account).await
}

/// The remark of the OK: a proof for MariaDB's clients, which may take the listener's certificate for it.
pub(crate) fn remark_of(outcome: &LoginOutcome, login: &LoginFacts, nonce: &Nonce) -> Vec<u8> {
    outcome.remark(nonce, login.listener.tls.as_ref().map(ServerTls::fingerprint))
}

/// Says OK, with this remark; from then on, the connection is compressed as was agreed.
pub(crate) async fn say_welcome(
    client: &mut Client,
    status: Status,
    (outcome, remark): (&LoginOutcome, &[u8]),
    account: &Account,
) -> Result<(), NetError> {
    let mut out = Vec::new();
    if let Some(packet) = &outcome.before_ok {
        put_packet(&mut out, packet.seq, &packet.payload);
    }
    let at = begin_packet(&mut out);
    let told = Layer::of_client(&outcome.attributes, client.capabilities).told();
    let changes = SessionChanges::new(&told);
    OkPacket { status, info: remark, changes, ..OkPacket::default() }.put(&mut out, 0, client.capabilities);
    end_packet(&mut out, at, outcome.next_seq);
    client.write_bytes(&out).await?;
    let level = outcome.connection.zstd_level.clamp(1, MOST_ZSTD_LEVEL);
    if let Some(algorithm) = Algorithm::agreed(client.capabilities, level)
        && !client.stream.is_compressed()
    {
        let link = CompressedLink::new(algorithm, Side::Server);
        client.stream.start_compression(link, client.buffer.data());
        client.stream.limit_unpacked(account);
        client.buffer.clear();
    }
    Ok(())
}
