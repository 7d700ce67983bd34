//! Agents that move the primary's role themselves: at an operator's word, and when the primary or its host is lost. The write VIP follows the
//! role. No two hosts have it, no two servers take writes, and no write that was acknowledged is lost.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use delphinus_sandbox::{Flavor, Server};

use super::Row;
use super::agents::Agents;
use super::watch::Watch;
use super::world::{LIMIT, ask, virtual_ip};
use super::writers::Writers;
use crate::failover::Servers;
use crate::failover_account::failover_account;
use crate::machines::Machines;
use crate::poll::{eventually, until};

/// The agents replace a primary that is lost. Between two failovers the product waits for an hour else.
const GUARDED: &[&str] = &["auto_failover = true", "pause_s = 0", "detect_ms = 1000"];

/// Each agent has looked at the primary twice by then: it knows that commits wait for replicas.
const CALM: Duration = Duration::from_millis(3500);

/// What is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The server is killed.
    Server,
    /// Its host is cut off; the server runs on.
    Link,
    /// Both.
    Host,
}

impl Loss {
    fn kills(self) -> bool {
        self != Self::Link
    }

    fn cuts(self) -> bool {
        self != Self::Server
    }

    /// When it began.
    fn strike(self, world: &mut Agents, at: usize) -> Result<Instant> {
        let begun = Instant::now();
        if self.cuts() {
            world.machines.cut_off(at)?;
        }
        if self.kills() {
            world.cluster.servers[at].kill9();
        }
        Ok(begun)
    }
}

/// Asks the agent that may move the role: the others refuse.
fn ask_actor(machines: &Machines, order: &str) -> Result<String> {
    let mut last = ask(machines, 0, order);
    for at in 1..3 {
        if last.as_ref().is_err_and(|error| format!("{error:#}").contains("acts for this cluster")) {
            last = ask(machines, at, order);
        }
    }
    last
}

/// From now on the agents move the role, with these lines of `[cluster.failover]`.
fn hand_over(world: &mut Agents, lines: &'static [&'static str]) -> Result<()> {
    if world.failover.is_none() {
        world.cluster.servers[world.primary].query(&failover_account(world.cluster.flavor))?;
    }
    world.failover = Some(lines);
    for at in 0..3 {
        world.processes[at] = None;
        world.processes[at] = Some(world.start_agent(at)?);
    }
    Ok(())
}

fn until_placed(world: &Agents) -> Result<()> {
    let placed = until(2 * LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()));
    placed.with_context(|| format!("the primary is {}; {}", world.primary, world.told()))
}

fn until_it_can_move(world: &Agents) -> Result<()> {
    until_placed(world)?;
    until(LIMIT, "servers that the role can move to", || {
        Ok(world.ask(0, "SWITCHOVER CHECK").is_ok_and(|rows| !rows.contains("failed")))
    })
}

/// An agent moves the role; clients reach the servers past it. The address stays as long as the old primary has the role, and so does
/// a transaction that ends in the time that a move gives it.
pub(super) fn switchover(world: &mut Agents) -> Result<Row> {
    const OPEN: Duration = Duration::from_millis(2_500);
    let new = (world.primary + 1) % 3;
    hand_over(world, &[])?;
    until_it_can_move(world)?;
    let checks = world.ask(0, "SELECT check_name, ok, result FROM vip_checks")?;
    let expected = [("server listens on the address", 3), ("lease time", 1), ("clock", 1), ("rights", 3)];
    for (name, count) in expected {
        let is_ok = |line: &&str| line.starts_with(&format!("{name}\t1\t"));
        ensure!(checks.lines().filter(is_ok).count() == count, "{name} is not {count} times in:\n{checks}");
    }
    let mut session = world.connect(0)?;
    session.query("CREATE TABLE IF NOT EXISTS app.held (id INT PRIMARY KEY)")?;
    session.query("BEGIN")?;
    session.query("INSERT INTO app.held VALUES (1)")?;
    let since = Instant::now();
    let machines = &world.machines;
    let moved = thread::scope(|scope| {
        let order = format!("SWITCHOVER TO db{new}");
        let moving = scope.spawn(move || ask_actor(machines, &order));
        thread::sleep(OPEN);
        let gap = world.watches[0].gap_since(since);
        let ended = session.query("INSERT INTO app.held VALUES (2)").and_then(|_| session.query("COMMIT"));
        let moved = moving.join().map_err(|_| anyhow!("the command's thread panicked"))?;
        ended.context("the end of an open transaction")?;
        ensure!(gap.is_zero(), "the address was nowhere for {gap:?} while the transaction was open");
        moved.context("SWITCHOVER")
    });
    moved?;
    world.primary = new;
    until(LIMIT, "all virtual IPs in their new places", || Ok(world.is_placed()))?;
    let gap = world.watches[0].gap_since(since);
    ensure!(
        world.value(0, "SELECT COUNT(*) FROM app.held")? == "2",
        "the transaction is not on the new primary"
    );
    ensure!(world.value(0, "SELECT @@read_only")? == "0", "the write VIP leads to a replica");
    ensure!(gap < Duration::from_secs(2), "the address was nowhere for {gap:?}");
    let note = format!(
        "an open transaction ended first; all placed {} ms after the command",
        since.elapsed().as_millis()
    );
    Ok(Row { case: "", gap, note })
}

pub(super) fn server_dies(world: &mut Agents) -> Result<Row> {
    guard(world)?;
    is_replaced(world, Loss::Server)
}

/// It has to let the write VIP go before another host has it, and its server gets nothing acknowledged.
pub(super) fn host_is_cut_off(world: &mut Agents) -> Result<Row> {
    guard(world)?;
    move_to_the_actor(world)?;
    is_replaced(world, Loss::Link)
}

pub(super) fn host_dies(world: &mut Agents) -> Result<Row> {
    guard(world)?;
    move_to_the_actor(world)?;
    is_replaced(world, Loss::Host)
}

/// The agents replace a lost primary, a commit waits for a replica, and a server that crashes is read-only when it is back.
fn guard(world: &mut Agents) -> Result<()> {
    let is_new = world.failover != Some(GUARDED);
    if is_new {
        hand_over(world, GUARDED)?;
    }
    until_it_can_move(world)?;
    if is_new {
        let mariadb = world.cluster.flavor == Flavor::MariaDb;
        let kind = if mariadb { Servers::MariaDbSemiSync } else { Servers::MySqlSemiSync };
        kind.enable_semi_sync(&world.cluster.servers, world.primary)?;
        world.cluster.servers.iter().try_for_each(starts_read_only)?;
    }
    until_both_acknowledge(world)
}

/// As docs/switchover.md wants it.
fn starts_read_only(server: &Server) -> Result<()> {
    let file = server.datadir.with_file_name("my.cnf");
    let mut cnf = OpenOptions::new().append(true).open(file)?;
    Ok(writeln!(cnf, "read_only=ON")?)
}

fn until_both_acknowledge(world: &Agents) -> Result<()> {
    let primary = &world.cluster.servers[world.primary];
    let both = until(LIMIT, "two replicas that acknowledge", || {
        Ok(primary.query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_%_clients'")?.trim().ends_with("\t2"))
    });
    both.with_context(|| world.told())
}

/// Where the agent is that acts.
fn actor(world: &Agents) -> Result<usize> {
    let etcd = world.etcd.as_ref().context("no etcd")?;
    let name = etcd.ask(&["get", "--print-value-only", "/delphinus/main/actor/main"])?;
    name.trim().strip_prefix('m').context("no agent acts")?.parse().context("no agent's name")
}

/// The primary is on the host of the agent that acts: what is done to that host is done to both.
fn move_to_the_actor(world: &mut Agents) -> Result<()> {
    let at = eventually(LIMIT, "an agent that acts", || actor(world).map(Some))?;
    if at != world.primary {
        eventually(LIMIT, "SWITCHOVER", || world.ask(at, &format!("SWITCHOVER TO db{at}")).map(Some))?;
        world.primary = at;
    }
    until_it_can_move(world)?;
    until_both_acknowledge(world)
}

/// The primary is lost, another server has its role, and it comes back as a replica.
fn is_replaced(world: &mut Agents, loss: Loss) -> Result<Row> {
    let (old, writers) = (world.primary, begin(world)?);
    let since = writers.quiet(|| {
        // What is written on a host that is cut off is that server's own: another case does that.
        writers.rest(old, loss.cuts());
        loss.strike(world, old)
    })?;
    let row = follows(world, &writers, (old, since));
    let back = comes_back(world, loss, old);
    let row = row?;
    back?;
    let before = writers.refused(old);
    writers.rest(old, false);
    until(LIMIT, "the old primary to refuse a write", || Ok(writers.refused(old) > before))?;
    until_both_acknowledge(world)?;
    let count = writers.end(&world.cluster.servers, world.primary, &[0, 1, 2])?;
    Ok(Row { note: format!("{}; {count} acknowledged writes are there", row.note), ..row })
}

fn begin(world: &Agents) -> Result<Writers> {
    let address = virtual_ip(&world.machines, 100).to_string();
    let writers = Writers::begin(&world.cluster, world.primary, &address)?;
    thread::sleep(CALM);
    Ok(writers)
}

/// The write VIP goes from the old primary's host to the new one's, and takes writes there.
fn follows(world: &mut Agents, writers: &Writers, (old, since): (usize, Instant)) -> Result<Row> {
    let moved = eventually(2 * LIMIT, "the write VIP on another host", || {
        Ok(world.watches[0].holder().filter(|at| *at != old))
    });
    world.primary = moved.with_context(|| world.told())?;
    let (gap, there) = (world.watches[0].gap_since(since), since.elapsed());
    let written = until(LIMIT, "a write by the write VIP", || Ok(writers.has_written(since)));
    written.with_context(|| world.told())?;
    let written = since.elapsed();
    ensure!(world.value(0, "SELECT @@read_only")? == "0", "the write VIP leads to a replica");
    let note = format!(
        "on the new primary's host after {} ms, a write after {} ms",
        there.as_millis(),
        written.as_millis()
    );
    Ok(Row { case: "", gap, note })
}

/// It follows the new primary, without the write VIP.
fn comes_back(world: &mut Agents, loss: Loss, old: usize) -> Result<()> {
    if loss.cuts() {
        world.machines.join(old)?;
    }
    if loss.kills() {
        let server = &mut world.cluster.servers[old];
        server.start_again()?;
        ensure!(is_read_only(server)?, "the old primary takes writes as soon as it has started");
    }
    until_placed(world)?;
    ensure!(is_read_only(&world.cluster.servers[old])?, "the old primary takes writes");
    Ok(())
}

/// What it says itself. The proxy that fences it ends its clients' sessions, and this one may be among them: it asks again.
fn is_read_only(server: &Server) -> Result<bool> {
    let look = || Ok(Some(server.query("SELECT @@read_only")?.trim() == "1"));
    eventually(LIMIT, "an answer of the former primary", look)
}

/// The client is acknowledged nothing. Its writes are the old primary's own: that server is refused, and has no virtual IP.
pub(super) fn client_writes_on(world: &mut Agents) -> Result<Row> {
    guard(world)?;
    move_to_the_actor(world)?;
    let (old, writers) = (world.primary, begin(world)?);
    let (since, before) = writers.quiet(|| {
        let since = Loss::Link.strike(world, old)?;
        Ok::<_, anyhow::Error>((since, writers.tried(old)))
    })?;
    let row = follows(world, &writers, (old, since));
    let tried = writers.tried(old) - before;
    world.machines.join(old)?;
    let row = row?;
    ensure!(tried > 0, "nobody has written at the old primary");
    is_refused(world, old)?;
    let acknowledged = writers.acknowledged_at(old, since);
    ensure!(acknowledged == 0, "{acknowledged} writes were acknowledged on the host that was cut off");
    let third = 3 - old - world.primary;
    let count = writers.end(&world.cluster.servers, world.primary, &[third])?;
    let note = format!(
        "{}; of {tried} writes on the old host none was acknowledged; {count} others are there",
        row.note
    );
    Ok(Row { note, ..row })
}

/// An agent says which transactions the old primary has of its own, and how to export them.
fn is_refused(world: &Agents, old: usize) -> Result<()> {
    let sql = "SELECT state, from_backend, reason FROM switchovers WHERE kind = 'rejoin' ORDER BY number DESC LIMIT 1";
    let refused = until(2 * LIMIT, "the old primary to be refused", || {
        let said = world.ask(actor(world)?, sql)?;
        Ok(said.starts_with(&format!("refused\tdb{old}\t")) && said.contains("binlog"))
    });
    refused.with_context(|| world.told())?;
    let server = &world.cluster.servers[old];
    until(LIMIT, "the old primary to be read-only", || is_read_only(server))?;
    let is_mariadb = world.cluster.flavor == Flavor::MariaDb;
    let status = if is_mariadb { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" };
    ensure!(server.query(status)?.trim().is_empty(), "the old primary follows another server");
    let has_none = || !world.watches.iter().map(Watch::holder).any(|holder| holder == Some(old));
    until(LIMIT, "no virtual IP on the old primary's host", || Ok(has_none()))
}
