//! `kill_on_move`: what becomes of sessions on a virtual IP that moves, where they are cut at once and where they are left.

use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::proxies::Proxies;
use super::world::LIMIT;
use super::{Case, Row};
use crate::client::{Client, Login};
use crate::poll::until;
use crate::stage::Address;

pub(super) const CASES: &[Case<Proxies>] = &[
    Case { name: "kill_on_move = all", is_short: true, run: all },
    Case { name: "kill_on_move = none", is_short: true, run: none },
];

/// The end of the line with the addresses.
const ADDRESSES: &str = "\"fd77::100\"]";

/// So long nothing comes from a host that says nothing. One that cuts sessions does so before the address leaves.
const SILENCE: Duration = Duration::from_secs(1);

/// Sessions of three clients.
struct Sessions {
    /// On the virtual IP, without a transaction.
    idle: Client,
    /// On the virtual IP, in a transaction that has written.
    busy: Client,
    /// On the host's own address.
    own: Client,
}

impl Sessions {
    fn open(world: &Proxies, holder: usize) -> Result<Self> {
        let own = Address { host: world.machines().address(holder).to_string(), ..world.address() };
        let own = Client::connect(&Login::new(&own).over_tcp(&own))?;
        let (idle, mut busy) = (world.connect()?, world.connect()?);
        busy.query("CREATE TABLE IF NOT EXISTS app.kept (id INT PRIMARY KEY)")?;
        busy.query("BEGIN")?;
        busy.query("INSERT INTO app.kept VALUES (1)")?;
        Ok(Self { idle, busy, own })
    }
}

/// Transactions that have written and are open at the database.
fn open_transactions(world: &Proxies) -> Result<u32> {
    let sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0";
    Ok(world.database().query(sql)?.trim().parse()?)
}

/// Whether the other end has told a client that has sent nothing that its connection has ended.
fn is_told(client: Client) -> Result<bool> {
    let mut wire = client.into_wire();
    wire.set_limit(SILENCE)?;
    match wire.read(&mut [0]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
        Err(error) => Err(error).context("neither an end nor silence"),
    }
}

/// Changes the holder's settings, has the virtual IP move away, and looks at the sessions. The settings are as before then.
fn moved(
    world: &mut Proxies,
    lines: &str,
    look: fn(&mut Proxies, Sessions, usize) -> Result<()>,
) -> Result<Duration> {
    let holder = world.holder()?;
    let before = world.config(holder)?;
    world.change(holder, &before.replace(ADDRESSES, &format!("{ADDRESSES}\n{lines}")))?;
    let sessions = Sessions::open(world, holder)?;
    let since = Instant::now();
    world.ask(holder, &format!("VIP MOVE apps TO m{}", 1 - holder))?;
    let gap = world.has_moved_from(holder, since)?.gap;
    look(world, sessions, holder)?;
    world.change(holder, &before)?;
    world.ask(holder, "VIP REBALANCE")?;
    Ok(gap)
}

/// Also in a transaction, although `drain_timeout_ms` would leave time for its end.
fn all(world: &mut Proxies) -> Result<Row> {
    let gap = moved(world, "kill_on_move = \"all\"\ndrain_timeout_ms = 600000", |world, sessions, _| {
        let Sessions { idle, mut busy, mut own } = sessions;
        ensure!(is_told(idle)?, "an idle session was not cut");
        ensure!(busy.query("COMMIT").is_err(), "an open transaction was committed");
        ensure!(own.value("SELECT 1")? == "1", "a session on the host's own address was cut");
        until(LIMIT, "the end of the transaction", || Ok(open_transactions(world)? == 0))?;
        let rows = world.connect()?.value("SELECT COUNT(*) FROM app.kept")?;
        ensure!(rows == "0", "what was not committed is there");
        Ok(())
    })?;
    Ok(Row { case: "", gap, note: "sessions were cut, also one in a transaction".to_owned() })
}

/// Its clients hear nothing. Whoever sends hears from the next host that there is no such session. What is left on the old host ends there
/// when the address comes back.
fn none(world: &mut Proxies) -> Result<Row> {
    let gap = moved(world, "kill_on_move = \"none\"", |world, sessions, old| {
        let Sessions { idle, mut busy, mut own } = sessions;
        ensure!(!is_told(idle)?, "an idle session was cut");
        ensure!(own.value("SELECT 1")? == "1", "a session on the host's own address was cut");
        ensure!(open_transactions(world)? == 1, "the open transaction was ended");
        let error = busy.query("COMMIT").err().context("a session has gone on at another proxy")?;
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        ensure!(kind == Some(ErrorKind::ConnectionReset), "a client that sends is not told: {error:#}");
        ensure!(open_transactions(world)? == 1, "the open transaction was ended");
        let since = Instant::now();
        world.ask(old, &format!("VIP MOVE apps TO m{old}"))?;
        world.has_moved_from(1 - old, since)?;
        until(LIMIT, "the end of the transaction", || Ok(open_transactions(world)? == 0))
    })?;
    Ok(Row { case: "", gap, note: "sessions were left, and ended when the address came back".to_owned() })
}
