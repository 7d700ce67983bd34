//! `RELAY ROTATE`: the source begins a new log file, so that the one that it was writing is a closed file here: whole, and due for the
//! archive.
//!
//! The relay's files are the source's, byte for byte, so that only the source can end one. The relay asks it to, on a connection of its
//! own and as its own user, and waits until the new file is here. Owns: what is asked, and when it is true. Must not know what becomes of
//! closed files.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_wire::error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR;

use crate::log::Log;
use crate::settings::{Settings, Target};
use crate::source::{Connection, Facts, SourceError};
use crate::status::{State, Told};

/// LOCAL: it is in no log, and replicas do not do the same.
const FLUSH: &str = "FLUSH LOCAL BINARY LOGS";

/// Has the source begin a new file. Gives the name of the file that was closed by that, once the relay has all of it.
///
/// # Errors
/// Why not, in words.
pub(crate) async fn rotate(
    target: Option<Target>,
    settings: &Settings,
    (log, told): (&Log, &Told),
) -> Result<String, String> {
    if told.state != State::Receiving {
        return Err(format!(
            "the relay is {}, and does not receive what the source would write: SHOW RELAY STATUS says why",
            told.state.word()
        ));
    }
    let target = target.ok_or_else(|| SourceError::NoTarget.to_string())?;
    let limit = settings.limit;
    let late = || format!("the source has not answered within {} ms (timeout_ms)", limit.as_millis());
    let before = log.end().map(|end| end.ordinal);
    let facts = rt::timeout(limit, ask(&target, settings, &told.identity)).await.ok_or_else(late)??;
    let turned = rt::timeout(limit, turns(log, before, &facts)).await;
    turned.ok_or_else(|| not_here(limit))
}

fn not_here(limit: Duration) -> String {
    format!(
        "the source has begun a new file, and the relay has not come to it within {} ms (timeout_ms): it is behind. SHOW RELAY FILES \
         has the file when it is here",
        limit.as_millis()
    )
}

/// Asks the source; what it had before.
async fn ask(target: &Target, settings: &Settings, identity: &str) -> Result<Facts, String> {
    let mut source = Connection::open(target, settings).await.map_err(|error| error.to_string())?;
    let facts = Facts::ask(&mut source).await.map_err(|error| error.to_string())?;
    if facts.identity != identity {
        return Err(format!("another server answers there: {}, not {identity}", facts.identity));
    }
    if facts.is_relay {
        return Err(
            "the source is a relay, and its files are those of its own source: RELAY ROTATE there".to_owned()
        );
    }
    source.execute(FLUSH).await.map_err(|error| refused(&error, &settings.user))?;
    Ok(facts)
}

fn refused(error: &SourceError, user: &str) -> String {
    let advice = match error {
        SourceError::Answer(packet) if packet.code == ER_SPECIFIC_ACCESS_DENIED_ERROR => format!(
            ". The relay's user there, {user}, may not do it: GRANT RELOAD ON *.* TO {user}, or run FLUSH LOCAL BINARY LOGS on the source \
             yourself"
        ),
        _ => String::new(),
    };
    format!("{FLUSH}: {error}{advice}")
}

/// Waits until the log ends in a newer file, before which is all that the source had; the name of the file before that.
async fn turns(log: &Log, before: Option<u32>, facts: &Facts) -> String {
    let bell = log.register();
    loop {
        if let Some(end) = log.end()
            && Some(end.ordinal) > before
            && let Some(file) = log.file(end.ordinal)
            && facts.is_all_before(&file.previous, &file.list)
        {
            let closed = end.ordinal.checked_sub(1).and_then(|ordinal| log.file(ordinal));
            return closed.map(|file| file.name.to_string()).unwrap_or_default();
        }
        bell.rung().await;
    }
}
