//! Attacks on places: of operators, of logins, and of backend connections.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::APP2;
use delphinus_wire::Capabilities;
use delphinus_wire::response::LOCAL_INFILE;

use super::super::arena::Arena;
use super::{Held, session};
use crate::client::{Client, Login, ServerError};
use crate::stage::Address;

/// An operator who takes longer to get in is kept out.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections to the operators' listener that say nothing, half of them by TCP.
pub(super) fn half_open_operators(arena: &Arena, clients: usize) -> Result<Held> {
    let at = arena.at_operators();
    let mut held: Held = Vec::new();
    for number in 0..clients {
        if number % 2 == 0 {
            held.push(Box::new(TcpStream::connect((at.host.as_str(), at.port))?));
        } else {
            held.push(Box::new(UnixStream::connect(&at.socket)?));
        }
        if number % 16 == 15 {
            operators_get_in(&at)?;
        }
    }
    operators_get_in(&at)?;
    Ok(held)
}

fn operators_get_in(at: &Address) -> Result<()> {
    for login in [Login::new(at), Login::new(at).over_tcp(at)] {
        let began = Instant::now();
        Client::connect(&login).context("an operator is kept out")?.rows("SHOW STATUS")?;
        ensure!(began.elapsed() < PATIENCE, "an operator was kept out for {:?}", began.elapsed());
    }
    Ok(())
}

/// Wrong passwords by TCP, at the listener for clients and at that for operators; others get in on the Unix sockets.
pub(super) fn failed_logins(arena: &Arena, clients: usize) -> Result<Held> {
    let at_clients = Address { password: "wrong".to_owned(), ..arena.stage.address.clone() };
    let at_operators = Address { password: "wrong".to_owned(), ..arena.at_operators() };
    for at in [&at_clients, &at_operators] {
        let times: Vec<_> = (0..7).map(|_| refused(at)).collect::<Result<_>>()?;
        ensure!(times[6] > Duration::from_millis(900), "no growing delay: {times:?}");
    }
    thread::scope(|scope| {
        let work = |number| if number % 2 == 0 { &at_clients } else { &at_operators };
        let all: Vec<_> = (0..clients).map(|number| scope.spawn(move || refused(work(number)))).collect();
        thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        Client::connect(&Login::new(&arena.at_operators())).context("an operator is kept out")?;
        session(&arena.stage)?;
        ensure!(began.elapsed() < PATIENCE, "others were kept out for {:?}", began.elapsed());
        all.into_iter().try_for_each(|one| one.join().expect("invariant: it does not panic").map(drop))
    })?;
    Ok(Vec::new())
}

/// How long it takes to be refused; an end without a word is a refusal, too.
fn refused(at: &Address) -> Result<Duration> {
    let began = Instant::now();
    let login = Client::connect(&Login::new(at).over_tcp(at));
    let error = login.err().context("a wrong password was let in")?;
    let known = error.downcast_ref::<ServerError>().map(|error| error.code);
    // Access denied, too many connections, blocked; or the connection has been closed.
    ensure!(matches!(known, Some(1045 | 1040 | 1129) | None), "{error:#}");
    Ok(began.elapsed())
}

/// LOAD DATA LOCAL of one user whose files never come. Ordinary clients write beside it, and one of a third user does.
pub(super) fn stalled_loads(arena: &Arena, clients: usize) -> Result<Held> {
    session(&arena.stage)?.run("CREATE TABLE IF NOT EXISTS app.loaded (a INT)")?;
    let login = arena.stage.address.login().with(Capabilities::LOCAL_FILES);
    let mut all = Vec::new();
    for _ in 0..clients {
        all.push(login.connect()?);
    }
    for client in &mut all {
        client.send(b"\x03LOAD DATA LOCAL INFILE 'never' INTO TABLE app.loaded")?;
    }
    let first = all.first_mut().context("no clients")?.read_packet()?;
    ensure!(first.get(4) == Some(&LOCAL_INFILE), "no file was asked for: {first:?}");
    let login = arena.stage.address.login().user(APP2.user, APP2.password);
    let began = Instant::now();
    login.connect()?.run("INSERT INTO app.loaded VALUES (1)")?;
    ensure!(began.elapsed() < PATIENCE, "a write of another user took {:?}", began.elapsed());
    Ok(all.into_iter().map(|client| Box::new(client) as Box<dyn std::any::Any>).collect())
}

/// A login of 60 KiB without its last byte.
pub(super) fn half_logins(arena: &Arena, clients: usize) -> Result<Held> {
    let mut login = vec![0x60, 0xea, 0, 1, 0, 0x82, 0, 0];
    login.resize(4 + 60_000 - 1, 1);
    greeted(arena, clients, &login)
}

/// TLS that has begun and does not go on: all but the last byte of a record of 16 KiB.
pub(super) fn half_handshakes(arena: &Arena, clients: usize) -> Result<Held> {
    // PROTOCOL_41, SSL, SECURE_CONNECTION, and the collation.
    let mut request = vec![32, 0, 0, 1, 0, 0x8a, 0, 0, 0, 0, 0, 1, 45];
    request.resize(36, 0);
    let mut record = vec![22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc];
    record.resize(5 + 0x4000 - 1, 0);
    greeted(arena, clients, &[request, record].concat())
}

/// Clients that answer the greeting with these bytes.
fn greeted(arena: &Arena, clients: usize, answer: &[u8]) -> Result<Held> {
    let at = &arena.stage.address;
    let mut held: Held = Vec::new();
    for _ in 0..clients {
        let mut stream = TcpStream::connect((at.host.as_str(), at.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_write_timeout(Some(Duration::from_millis(500)))?;
        // One that is not greeted, or not listened to, has been refused.
        if stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {
            let _ = stream.write_all(answer);
        }
        held.push(Box::new(stream));
    }
    Ok(held)
}
