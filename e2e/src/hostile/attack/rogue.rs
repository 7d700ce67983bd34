//! Attacks of a server on the proxy's clients and its memory.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use delphinus_wire::Capabilities;
use delphinus_wire::response::ERR;

use super::super::arena::Arena;
use super::super::rogue::{FILE, LIES};
use super::Held;

/// Requests for files to clients that did not agree to send any, and to those that did and sent no LOAD DATA LOCAL.
pub(super) fn files(arena: &Arena, clients: usize) -> Result<Held> {
    let login = arena.at_rogue().login();
    let agrees = login.clone().with(Capabilities::LOCAL_FILES);
    let loads = format!("LOAD DATA LOCAL INFILE '{FILE}' INTO TABLE app.ordinary");
    let others = ["SELECT 1", "DO 1", "UPDATE app.ordinary SET b = b"].map(|sql| format!("{sql} -- {FILE}"));
    for number in 0..clients {
        let sql = if number % 4 == 3 { &loads } else { &others[number % 4] };
        // What agrees to send files does not say LOAD DATA.
        let login = if number % 8 >= 4 && number % 4 != 3 { &agrees } else { &login };
        let mut client = login.connect()?;
        client.send(&[b"\x03", sql.as_bytes()].concat())?;
        let first = client.read_packet()?;
        ensure!(first.get(4) == Some(&ERR), "{sql}: {first:?}");
    }
    Ok(Vec::new())
}

/// The proxy's own questions are answered without end, for many sessions at the same time.
pub(super) fn answers(arena: &Arena, clients: usize) -> Held {
    let login = arena.at_rogue().login().patience(Duration::from_secs(30));
    thread::scope(|scope| {
        for number in 0..clients {
            let (login, name) = (&login, LIES[number % LIES.len()]);
            scope.spawn(move || {
                // Whether that is an error or the session's end is not looked at.
                let _ = login.connect().and_then(|mut client| client.query(format!("SET @{name} = 'x'")));
            });
        }
    });
    Vec::new()
}

/// And those of the monitor.
pub(super) fn probes(arena: &Arena) -> Held {
    arena.rogue.lie_to_monitors(true);
    thread::sleep(Duration::from_secs(5));
    arena.rogue.lie_to_monitors(false);
    Vec::new()
}
