//! Makes a connection ready for a client: saves what the session before left on it, and runs the fix-ups.

use std::rc::Rc;
use std::time::Duration;

use delphinus_journal::Origin;
use delphinus_net::{LoginError, Place, change_user, rt};
use delphinus_state::{FixUp, SessionState, diff};
use delphinus_wire::command::Code;
use delphinus_wire::error_code;

use crate::ask::{Answer, AskError, SHOW_WARNINGS, aside, query};
use crate::asked::Question;
use crate::connection::Connection;
use crate::error::PoolError;
use crate::expired::{Standing, set_up};
use crate::first_mode::take_first_mode;
use crate::memory::{ListCounts, MOST_WARNINGS, Memory, Seen};
use crate::open::initialise;

/// How a connection came to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// It was in the wanted state.
    AsItWas,
    /// Fix-ups were run.
    FixedUp,
}

/// What may be done to bring a connection into another state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// It may also start over.
    All,
    /// It may not: the session has something there that nothing brings back, as a transaction.
    Settings,
}

/// The longest that saving and fix-ups may take together, and a question of the proxy's own.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What sessions have prepared in SQL text stays on the connection for as long as it is not in the way: servers limit how
/// much there may be of that altogether.
const MOST_LEFT: usize = 32;

/// And so many bytes of it.
const MOST_BYTES_LEFT: usize = 64 << 10;

fn has_much_left(connection: &Connection) -> bool {
    let sql = &connection.sql;
    !sql.is_empty() && (sql.len() > MOST_LEFT || sql.bytes() > MOST_BYTES_LEFT)
}

/// Brings `connection` into the state `want` for the session of `memory`.
pub(crate) async fn make_ready(
    connection: &mut Connection,
    place: &Place,
    want: &SessionState,
    memory: &Rc<Memory>,
    means: Means,
) -> Result<Ready, PoolError> {
    if matches!(connection.standing, Standing::Expired(_)) {
        if !connection.is_owned_by(memory) {
            connection.belong_to(memory.clone());
        }
        return Box::pin(set_up(connection, place, want)).await;
    }
    if !connection.is_owned_by(memory) {
        if connection.has_unsaved() {
            Box::pin(bounded(place, save(connection))).await?;
        }
        if connection.may_hide_user_vars || has_much_left(connection) {
            Box::pin(start_over(connection, place)).await?;
        }
        if connection.lists_warnings {
            Box::pin(without_list(connection, place)).await?;
        }
        connection.belong_to(memory.clone());
    }
    let mut ready = Ready::AsItWas;
    if connection.have.is_same(want) {
        // The same maps, not only equal ones: the next comparison is one of pointers.
        connection.have = want.clone();
    } else {
        // Boxed, so that an idle session does not carry the room of it.
        if let Err(error) = Box::pin(fix_up_silently(connection, place, want, means)).await {
            return connection.is_limited_by(error).map(|()| Ready::AsItWas);
        }
        ready = Ready::FixedUp;
    }
    if connection.misreads(memory) {
        if let Err(error) = Box::pin(take_first_mode(connection, place, memory, means)).await {
            return connection.is_limited_by(error).map(|()| Ready::AsItWas);
        }
        ready = Ready::FixedUp;
    }
    Ok(ready)
}

/// What the proxy sets may warn, of a variable that is going out of use: MariaDB would go on listing that behind statements
/// without tables.
pub(crate) async fn fix_up_silently(
    connection: &mut Connection,
    place: &Place,
    want: &SessionState,
    means: Means,
) -> Result<(), PoolError> {
    let listed_before = std::mem::take(&mut connection.lists_warnings);
    let done = fix_up(connection, place, want, means).await;
    let has_warned = std::mem::replace(&mut connection.lists_warnings, true);
    done?;
    if has_warned {
        return match bounded(place, empty_list(connection)).await {
            // By a limit that the session has set: its statements fare no better.
            Err(PoolError::Refused { .. }) => Ok(()),
            done => done,
        };
    }
    connection.lists_warnings = listed_before;
    Ok(())
}

/// Empties the list of warnings for another session. Where a limit of the session before refuses that, all of that session goes.
async fn without_list(connection: &mut Connection, place: &Place) -> Result<(), PoolError> {
    match bounded(place, empty_list(connection)).await {
        Err(PoolError::Refused { .. }) => start_over(connection, place).await,
        done => done,
    }
}

async fn fix_up(
    connection: &mut Connection,
    place: &Place,
    want: &SessionState,
    means: Means,
) -> Result<(), PoolError> {
    // Fix-ups are statements too: they would wipe out what the session's last statement left here.
    bounded(place, save(connection)).await?;
    let steps = diff(want, &connection.have);
    let done = if steps == [FixUp::ChangeUser] {
        Ok(false)
    } else {
        match run_all(connection, place, want, steps).await {
            Err(error) if error.is_expired_statement() => return Err(error),
            // Something that another session was given cannot be set back.
            Err(PoolError::Refused { .. }) if means == Means::All => Ok(false),
            other => other.map(|()| true),
        }
    };
    if means == Means::Settings && matches!(done, Ok(false)) {
        return Err(PoolError::NoWayBack { backend: place.name() });
    }
    if !done? {
        run_all(connection, place, want, vec![FixUp::ChangeUser]).await?;
        let set = run_all(connection, place, want, diff(want, &connection.have)).await;
        if matches!(set, Err(PoolError::Refused { .. })) {
            // How much of it was set is not known.
            start_over(connection, place).await?;
        }
        set?;
    }
    connection.have = want.clone();
    connection.room = None;
    Ok(())
}

/// COM_CHANGE_USER to the same user: nothing of a session survives that.
pub(crate) async fn start_over(connection: &mut Connection, place: &Place) -> Result<(), PoolError> {
    let want = SessionState::default();
    run_all(connection, place, &want, vec![FixUp::ChangeUser]).await
}

async fn run_all(
    connection: &mut Connection,
    place: &Place,
    want: &SessionState,
    steps: Vec<FixUp>,
) -> Result<(), PoolError> {
    for step in steps {
        rt::timeout(LIMIT, run(connection, place, want, step))
            .await
            .unwrap_or_else(|| Err(timed_out(place)))?;
    }
    Ok(())
}

async fn run(
    connection: &mut Connection,
    place: &Place,
    want: &SessionState,
    step: FixUp,
) -> Result<(), PoolError> {
    match step {
        FixUp::ChangeUser => {
            change_user_again(connection, place).await?;
        }
        FixUp::SetOption(on) => {
            let payload = [Code::SetOption as u8, u8::from(!on), 0];
            aside(connection, &payload).await.map_err(|error| failed(place, error))?;
            connection.have.multi_statements = on;
        }
        FixUp::InitDb(schema) => {
            let mut payload = vec![Code::InitDb as u8];
            payload.extend_from_slice(schema.as_bytes());
            aside(connection, &payload).await.map_err(|error| failed(place, error))?;
            connection.have.schema = Some(schema);
        }
        FixUp::Set(sql) => {
            let answer = query(connection, &sql).await.map_err(|error| failed(place, error))?;
            connection.have.vars = want.vars.clone();
            connection.have.user_vars = want.user_vars.clone();
            // Its default may be another one by now than when the connection was opened.
            connection.learn_mode(&answer.changes);
        }
    }
    Ok(())
}

/// COM_CHANGE_USER to the same user.
async fn change_user_again(connection: &mut Connection, place: &Place) -> Result<(), PoolError> {
    let identity = connection.identity.clone();
    let lost = || PoolError::Lost { backend: place.name(), error: delphinus_net::NetError::Closed };
    let keys = identity.keys().ok_or_else(lost)?;
    let (key, secret) = keys.first_for(connection.backend).ok_or_else(lost)?;
    let login = crate::pool::change_user_request(place, &identity, secret);
    let began = connection.begin_question();
    let changed = change_user(&mut connection.stream, &mut connection.buffer, connection.link, &login).await;
    if let Some(began) = began {
        let payload = &[Code::ChangeUser as u8];
        let error = match &changed {
            Ok(_) => 0,
            Err(LoginError::Refused(refusal)) => refusal.code,
            Err(_) => error_code::CR_SERVER_LOST,
        };
        let origin = Origin::Proxy;
        connection.log_question(Question { origin, payload, text: None, began, error, rows: 0 });
    }
    match changed.map_err(|error| crate::pool::change_user_failed(place, error)) {
        Ok(link) => connection.link = link,
        // The backend has closed the connection. The password was changed: a new one may do better with another key.
        Err(error) if error.is_about_password() => {
            keys.refused(connection.backend, key);
            return Err(lost());
        }
        Err(error) => return Err(error),
    }
    initialise(connection, place).await
}

/// Moves what only the connection knows of its owner's last statement into the owner's memory. What the server refuses to tell, as
/// for a limit that the owner has set, nobody knows from then on.
pub(crate) async fn save(connection: &mut Connection) -> Result<(), AskError> {
    let seen = connection.seen;
    let asks_for_rows = connection.memory.asks_for_rows(seen);
    let asks_for_insert_id = connection.asks_for_insert_id();
    // Every statement that follows here wipes out what FOUND_ROWS() and its kin tell.
    connection.seen = seen.without_answers();
    let unsaved = std::mem::take(&mut connection.unsaved);
    if connection.memory.asks_for_list(seen) {
        // First, because every other statement may forget the warnings.
        let is_unclear = connection.memory.is_list_unclear();
        let sql = format!("{SHOW_WARNINGS} LIMIT {}", MOST_WARNINGS + 1);
        if let Some(answer) = unless_refused(query(connection, &sql).await)? {
            let vars = &connection.have.vars;
            let charset = vars.get("character_set_results").cloned();
            let most =
                vars.get("max_error_count").and_then(|most| std::str::from_utf8(most).ok()?.parse().ok());
            let counts = ListCounts::of(&answer.result, most);
            connection.lists_warnings &= counts != Some(ListCounts::default());
            connection.memory.save_list(seen, (answer.result, counts), charset);
            if is_unclear {
                // What the session has may be what another connection had before.
                connection.seen.lose_list();
            }
        } else {
            connection.memory.lose_list(seen);
        }
    }
    if asks_for_insert_id || asks_for_rows {
        // Nothing else is asked with it: MySQL warns of FOUND_ROWS(), before it counts warnings.
        let sql = "SELECT FOUND_ROWS(), LAST_INSERT_ID() LIMIT 1";
        let Some(answer) = unless_refused(query(connection, sql).await)? else {
            if connection.memory.asks_for_rows(seen) {
                connection.memory.lose_rows();
            }
            // The id is still here, and otherwise what the OK packet has said has to do.
            connection.unsaved = unsaved;
            return Ok(());
        };
        let number = |at: usize| {
            let cell = answer.result.rows.first()?.get(at)?.as_ref()?;
            std::str::from_utf8(cell).ok()?.parse::<u64>().ok()
        };
        if let Some(rows) = number(0) {
            connection.memory.save_rows(seen, rows);
        }
        if asks_for_insert_id {
            let (id, is_there) = unsaved.reported.judge(number(1).unwrap_or(0));
            connection.memory.save_insert_id(seen, id);
            if !is_there {
                connection.seen = Seen::NOTHING;
            }
        }
    }
    Ok(())
}

fn unless_refused(answer: Result<Answer, AskError>) -> Result<Option<Answer>, AskError> {
    match answer {
        Err(AskError::Refused(_)) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Runs a SET, which leaves FOUND_ROWS() as it was.
pub(crate) async fn set(connection: &mut Connection, sql: &str) -> Result<(), AskError> {
    let seen = connection.seen;
    let asks = connection.memory.asks_for_rows(seen) || connection.asks_for_insert_id();
    save(connection).await?;
    query(connection, sql).await?;
    if !asks {
        connection.seen.keep_rows(seen);
    }
    Ok(())
}

/// Makes the server forget the warnings of the statement before, as every statement with a table does.
pub(crate) async fn empty_list(connection: &mut Connection) -> Result<(), AskError> {
    // Without LIMIT, which MariaDB takes for unsafe (docs/protocol-notes.md). Whether the row comes makes no difference.
    query(connection, "SELECT 1 FROM (SELECT 1) AS t").await.map(drop)
}

pub(crate) async fn bounded<F: Future<Output = Result<(), AskError>>>(
    place: &Place,
    work: F,
) -> Result<(), PoolError> {
    match rt::timeout(LIMIT, work).await {
        Some(result) => result.map_err(|error| failed(place, error)),
        None => Err(timed_out(place)),
    }
}

fn timed_out(place: &Place) -> PoolError {
    let error = delphinus_net::NetError::TimedOut(LIMIT.as_millis() as u64);
    PoolError::Lost { backend: place.name(), error }
}

fn failed(place: &Place, error: AskError) -> PoolError {
    error.into_pool_error(place.name())
}
