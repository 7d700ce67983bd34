//! Opens a connection: dials, logs in, and makes the backend report what changes.

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::{Announce, BackendLogin, Buffer, LoggedIn, LoginError, Place, dial_at, log_in, rt};
use delphinus_state::{SessionState, SqlStatements};
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::BackendSecret;
use delphinus_wire::compression::Algorithm;
use delphinus_wire::response::Layer;

use crate::ask::{AskError, query};
use crate::asked::AskedLog;
use crate::budget::Permit;
use crate::census::Member;
use crate::connection::{BackendConnId, Connection, Identity, SHAPE};
use crate::error::PoolError;
use crate::expired::Standing;
use crate::forgotten_transactions::Transactions;
use crate::memory::{Memory, Seen, Unsaved};
use crate::pool::Settings;
use crate::statements::Statements;

/// What every connection to a backend has beside its shape.
const ALWAYS: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::MARIADB_STMT_BULK.0,
);

/// utf8mb4_general_ci, which both families know; clients' own collations are set by fix-ups.
const COLLATION: u8 = 45;

/// Makes the backend report every change of the session, and makes the character sets those that `known_state`
/// says, whatever the server makes of the login's collation. `MariaDB`, which reads no such comment of `MySQL`'s, reports
/// `last_gtid` among the variables. The `sql_mode`, which is left as it is, is reported with it: that of sessions which set none.
const INIT: &str = "SET @@session.session_track_system_variables='*', @@session.session_track_schema=ON, \
     @@session.session_track_state_change=ON, @@session.character_set_client='utf8mb4', \
     @@session.character_set_results='utf8mb4', @@session.collation_connection='utf8mb4_general_ci', \
     @@session.sql_mode=@@session.sql_mode /*!50706 , @@session.session_track_gtids=OWN_GTID */";

/// The same on one of us, who reports everything to one of us unasked. A client that sets these variables is pinned there.
const INIT_LAYER: &str = "SET @@session.character_set_client='utf8mb4', @@session.character_set_results='utf8mb4', \
     @@session.collation_connection='utf8mb4_general_ci'";

/// Opens a connection for `identity`.
pub(crate) async fn open(
    (backend, place): (BackendId, &Place),
    (identity, takes_expired): (&Rc<Identity>, bool),
    id: BackendConnId,
    permit: Permit,
    (settings, log): (&Settings, Option<AskedLog>),
) -> Result<Box<Connection>, PoolError> {
    // Before the address is looked up: one that moves meanwhile makes it an old connection.
    let moves = place.moves();
    // Before the login: what changes during it may or may not be in it.
    let rights = identity.epoch().unwrap_or_default();
    let mut standing = Standing::Full;
    let logged_in = match log_in_with_keys((backend, place), identity, identity.shape, settings).await {
        Err(error) if takes_expired && error.is_expired_login() => {
            standing = Standing::SetUp;
            let shape = identity.shape | Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
            log_in_with_keys((backend, place), identity, shape, settings).await?
        }
        logged_in => logged_in?,
    };
    if logged_in.capabilities & SHAPE != identity.shape {
        let reason = "it lacks a protocol capability that the other backends have".to_owned();
        return Err(PoolError::Login { backend: place.name(), reason });
    }
    let now = rt::now();
    let mut connection = Box::new(Connection {
        backend,
        moves,
        id,
        thread_id: logged_in.thread_id,
        stream: logged_in.stream,
        buffer: Buffer::default(),
        capabilities: logged_in.capabilities,
        link: logged_in.link,
        peer: logged_in.peer,
        have: known_state(),
        reading: None,
        account: settings.memory.clone(),
        room: None,
        statements: Statements::new(settings.statements_per_connection),
        temporary_tables_made: 0,
        sql: SqlStatements::default(),
        may_hide_user_vars: false,
        sequences: Vec::new(),
        tells_late: false,
        transactions: Transactions::Known,
        lists_warnings: false,
        identity: identity.clone(),
        standing: Standing::Full,
        rights,
        memory: Rc::new(Memory::default()),
        unsaved: Unsaved::default(),
        leaving: None,
        seen: Seen::NOTHING,
        held_until: now,
        idle_since: now,
        retire_at: now + settings.lifetime(id),
        idle_limit: permit.budget().idle_limit(identity.shape.contains(Capabilities::INTERACTIVE)),
        member: Rc::new(Member::of(identity, rights)),
        log,
        permit,
    });
    if !matches!(standing, Standing::Full) {
        connection.stands(standing);
    }
    if let Err(error) = initialise(&mut connection, place).await {
        connection.is_limited_by(error)?;
    }
    Ok(connection)
}

/// Tries the user's keys, the one that the backend took last before the other. A backend that has refused all of them
/// is not asked again at once: an account would be locked by it.
pub(crate) async fn log_in_with_keys(
    (backend, place): (BackendId, &Place),
    identity: &Identity,
    shape: Capabilities,
    settings: &Settings,
) -> Result<LoggedIn, PoolError> {
    let name = || place.name();
    let nothing = || PoolError::Login { backend: name(), reason: "no password is known".to_owned() };
    let keys = identity.keys().ok_or_else(nothing)?;
    let list = keys
        .for_backend(backend, rt::now())
        .map_err(|error| PoolError::Refused { backend: name(), error })?;
    let mut last = nothing();
    for (key, secret) in list {
        match Box::pin(log_in_as(place, (identity, secret), shape, settings)).await {
            Ok(logged_in) => {
                keys.accepted(backend, key);
                return Ok(logged_in);
            }
            Err(error) if error.is_about_password() => {
                keys.refused(backend, key);
                last = error;
            }
            Err(error) => return Err(error),
        }
    }
    if let PoolError::Refused { error, .. } = &last
        && keys.refused_all(backend, error.clone(), rt::now())
    {
        let (user, reason) = (&*identity.user, error.text());
        tracing::warn!(backend = %place.name(), user, code = error.code, %reason, "a backend refuses the user's password");
    }
    Err(last)
}

/// Dials and logs in.
pub(crate) async fn log_in_as(
    place: &Place,
    (identity, secret): (&Identity, BackendSecret),
    shape: Capabilities,
    settings: &Settings,
) -> Result<LoggedIn, PoolError> {
    let limit = Duration::from_millis(settings.connect_timeout_ms);
    let unreachable = |error| PoolError::Unreachable { backend: place.name(), error };
    let (spot, reach) = (place.spot(), place.reach());
    let announce = reach.proxy_protocol.map(|version| Announce { version, client: identity.client_ip });
    let stream = dial_at(&spot, announce, limit).await.map_err(unreachable)?;
    let (compression, zstd_level) = Algorithm::asked_for(reach.compression);
    let login = BackendLogin {
        user: identity.user.clone(),
        secret,
        schema: None,
        capabilities: ALWAYS | shape | compression,
        collation: COLLATION,
        tls: reach.tls.clone(),
        host: spot.host().to_owned(),
        attributes: identity.attributes.clone(),
        zstd_level,
        trust: reach.trust.clone(),
    };
    rt::timeout(limit, log_in(stream, &login))
        .await
        .unwrap_or(Err(LoginError::Net(delphinus_net::NetError::TimedOut(settings.connect_timeout_ms))))
        .map_err(|error| login_failed(place, error))
}

/// Sets what `INIT` sets, on a new connection or after COM_CHANGE_USER.
pub(crate) async fn initialise(connection: &mut Connection, place: &Place) -> Result<(), PoolError> {
    let init = if connection.peer == Layer::None { INIT } else { INIT_LAYER };
    match query(connection, init).await {
        Ok(answer) => {
            // COM_CHANGE_USER does not touch this one.
            let multi_statements = connection.have.multi_statements;
            connection.have = SessionState { multi_statements, ..known_state() };
            connection.reading = None;
            connection.learn_mode(&answer.changes);
            connection.statements.clear();
            connection.sql.clear();
            connection.temporary_tables_made = 0;
            // Warnings may still be listed: MariaDB keeps them.
            connection.may_hide_user_vars = false;
            connection.sequences.clear();
            connection.unsaved = Unsaved::default();
            connection.seen = Seen::NOTHING;
            Ok(())
        }
        Err(AskError::Broken(error)) => Err(PoolError::Lost { backend: place.name(), error }),
        Err(AskError::Refused(error)) => Err(PoolError::Refused { backend: place.name(), error }),
    }
}

/// The state of a connection right after `INIT`.
fn known_state() -> SessionState {
    let vars = [
        ("character_set_client", "utf8mb4"),
        ("character_set_results", "utf8mb4"),
        ("collation_connection", "utf8mb4_general_ci"),
    ];
    SessionState {
        schema: None,
        vars: Rc::new(vars.iter().map(|(name, value)| ((*name).into(), value.as_bytes().into())).collect()),
        user_vars: Rc::default(),
        multi_statements: true,
    }
}

pub(crate) fn login_failed(place: &Place, error: LoginError) -> PoolError {
    let backend = place.name();
    match error {
        LoginError::Net(error) => PoolError::Unreachable { backend, error },
        LoginError::Refused(error) => PoolError::Refused { backend, error },
        LoginError::Unsuitable(reason) => PoolError::Login { backend, reason },
    }
}
