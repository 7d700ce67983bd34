//! The table of leases on a real group, by the store's own statements and with the rights that docs/ha.md names: what is refused, what
//! grows, what comes late.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use delphinus_lease::{
    Claimed, Entry, Errand, Glance, Group, Holding, Row, Servers, ServersError, Store, Told,
};

use super::Row as Line;
use super::agents::Agents;
use crate::client::{Client, Login};
use crate::stage::Address;

/// Apart from the agents' keys.
const SCOPE: &str = "/another/main/";
const TTL: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(400);

/// One connection to the primary.
struct Primary(Client);

impl std::fmt::Debug for Primary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Primary")
    }
}

impl Servers for Primary {
    fn run(&mut self, errand: &Errand, _: &mut Vec<Glance>) -> Result<Told, ServersError> {
        let mut told = Vec::new();
        for sql in &errand.statements {
            let failed = |error: anyhow::Error| ServersError::Refused(format!("{sql}: {error:#}"));
            if let Some(names) = columns(sql) {
                let rows = self.0.rows(sql).map_err(failed)?;
                told.push(rows.into_iter().map(|row| named(&names, row)).collect());
            } else {
                self.0.query(sql).map_err(failed)?;
            }
        }
        Ok(told)
    }
}

/// The names of what a question asks for.
fn columns(sql: &str) -> Option<Vec<&str>> {
    let names = sql.strip_prefix("SELECT ")?.split(" FROM ").next()?;
    Some(names.split(", ").map(|name| name.rsplit(['.', ' ']).next().unwrap_or(name)).collect())
}

fn named(names: &[&str], row: Vec<Option<String>>) -> Row {
    names.iter().zip(row).filter_map(|(name, value)| Some(((*name).to_owned(), value?))).collect()
}

fn open(world: &Agents) -> Result<Group> {
    Ok(Group::new(Box::new(Primary(connect(world)?)), SCOPE, TTL))
}

/// A session as those of the product are.
fn connect(world: &Agents) -> Result<Client> {
    let server = &world.cluster.servers[world.primary];
    let address = Address {
        host: server.host.clone(),
        port: server.port,
        socket: std::path::PathBuf::new(),
        user: "lease".to_owned(),
        password: "leasepw".to_owned(),
        database: String::new(),
    };
    let mut client = Client::connect(&Login::new(&address).over_tcp(&address))?;
    client.query("SET SESSION transaction_isolation = 'READ-COMMITTED'")?;
    Ok(client)
}

fn found(store: &mut Group, key: &str) -> Result<Option<Entry>> {
    Ok(store.list()?.into_iter().find(|entry| entry.key == key))
}

/// A case of the group store.
pub(super) fn holds(world: &mut Agents) -> Result<Line> {
    let (mut one, mut other) = (open(world)?, open(world)?);
    taken_once(&mut one, &mut other)?;
    kept(&mut one)?;
    by_right(&mut one, &mut other, world)?;
    over(&mut one, open(world)?)?;
    Ok(Line {
        case: "",
        gap: Duration::ZERO,
        note: "taken once, epochs grow, what is late is refused".to_owned(),
    })
}

fn taken_once(one: &mut Group, other: &mut Group) -> Result<()> {
    let (first, second) = (one.grant(TTL)?.lease, other.grant(TTL)?.lease);
    ensure!(one.claim("vips/w", "a", first)? == Claimed::Ours, "a key that is free");
    ensure!(other.claim("vips/w", "b", second)? == Claimed::Taken, "another's key");
    ensure!(one.claim("vips/w", "a2", first)? == Claimed::Ours, "its own key");
    let entry =
        Entry { key: "vips/w".to_owned(), value: "a2".to_owned(), lease: first, epoch: 1, revision: 1 };
    ensure!(found(other, "vips/w")? == Some(entry.clone()), "{:?}", other.list());
    one.release("vips/w", 2)?;
    ensure!(found(other, "vips/w")? == Some(entry), "a release of another epoch");
    one.release("vips/w", 1)?;
    ensure!(found(other, "vips/w")?.is_none(), "a release");
    ensure!(other.claim("vips/w", "b", second)? == Claimed::Ours, "a key that was given back");
    ensure!(found(one, "vips/w")?.map(|entry| entry.epoch) == Some(2), "the epoch has not grown");
    // A message that was on its way for long.
    one.release("vips/w", 1)?;
    ensure!(found(one, "vips/w")?.map(|entry| entry.lease) == Some(second), "a late release");
    other.end(second)?;
    ensure!(found(one, "vips/w")?.is_none(), "the key of a lease that has ended");
    ensure!(other.claim("vips/w", "b", second)? == Claimed::Taken, "a late claim");
    ensure!(other.renew(second)?.is_none(), "a late renewal");
    ensure!(one.claim("vips/w", "a", first)? == Claimed::Ours, "a key whose lease has ended");
    ensure!(found(one, "vips/w")?.map(|entry| entry.epoch) == Some(3), "the epoch has not grown");
    Ok(())
}

/// As the journal of a switchover is.
fn kept(one: &mut Group) -> Result<()> {
    let long = "x".repeat(1_000_000);
    for text in ["", "it's \\ \"quoted\"\n\t\u{1f42c}", &long] {
        one.put("journal/main/plan", text)?;
        let entry = found(one, "journal/main/plan")?;
        ensure!(entry.is_some_and(|entry| entry.value == text && entry.lease == 0), "another text was kept");
    }
    let lease = one.grant(TTL)?.lease;
    ensure!(one.claim("journal/main/plan", "x", lease)? == Claimed::Taken, "a key that stays");
    one.delete("journal/main/plan")?;
    ensure!(found(one, "journal/main/plan")?.is_none(), "it was deleted");
    Ok(())
}

/// As the acting proxy writes its plan: by the right of a key.
fn by_right(one: &mut Group, other: &mut Group, world: &Agents) -> Result<()> {
    let (first, second) = (one.grant(TTL)?.lease, other.grant(TTL)?.lease);
    ensure!(one.claim("actor/main", "one", first)? == Claimed::Ours, "a key that is free");
    let epoch =
        |store: &mut Group| Ok::<_, anyhow::Error>(found(store, "actor/main")?.map_or(0, |key| key.epoch));
    let held = Holding { key: "actor/main".to_owned(), epoch: epoch(one)? };
    let plan =
        |store: &mut Group| Ok::<_, anyhow::Error>(found(store, "journal/main/plan")?.map(|key| key.value));
    for text in ["a", "b", "b"] {
        ensure!(one.write_as("journal/main/plan", Some(text), &held)?, "its holder writes");
        ensure!(plan(other)?.as_deref() == Some(text), "it is not written");
    }
    let earlier = Holding { epoch: held.epoch - 1, ..held.clone() };
    ensure!(!one.write_as("journal/main/plan", Some("c"), &earlier)?, "by an earlier epoch");
    ensure!(one.write_as("journal/main/plan", None, &held)? && plan(one)?.is_none(), "it is not deleted");
    ensure!(one.write_as("journal/main/plan", None, &held)?, "what is not there may be deleted");
    ensure!(one.write_as("journal/main/plan", Some("d"), &held)?, "its holder writes");
    one.end(first)?;
    ensure!(!one.write_as("journal/main/plan", Some("e"), &held)?, "its lease has ended");
    ensure!(other.claim("actor/main", "two", second)? == Claimed::Ours, "a key whose lease has ended");
    ensure!(!one.write_as("journal/main/plan", None, &held)?, "another holds it");
    ensure!(plan(other)?.as_deref() == Some("d"), "one without the right has written: {:?}", plan(other)?);
    waits_for_the_right(other, connect(world)?, second)
}

/// The right is taken away by a transaction that has not committed yet: a write by it waits, and is refused then.
fn waits_for_the_right(holder: &mut Group, mut taker: Client, lease: u64) -> Result<()> {
    let key = found(holder, "actor/main")?.context("nobody holds it")?;
    let by = Holding { key: key.key, epoch: key.epoch };
    ensure!(holder.write_as("journal/main/plan", Some("f"), &by)?, "its holder writes");
    taker.query("BEGIN")?;
    taker.query(&format!("DELETE FROM delphinus.leases WHERE lease = {lease}"))?;
    let ended = thread::spawn(move || {
        thread::sleep(SHORT);
        taker.query("COMMIT").map(drop)
    });
    let is_written = holder.write_as("journal/main/plan", Some("g"), &by);
    ended.join().map_err(|_| anyhow!("the thread has panicked"))??;
    ensure!(!is_written?, "it was written while the right was being taken away");
    let kept = found(holder, "journal/main/plan")?.map(|key| key.value);
    ensure!(kept.as_deref() == Some("f"), "{kept:?}");
    Ok(holder.delete("journal/main/plan")?)
}

fn over(one: &mut Group, mut silent: Group) -> Result<()> {
    let lease = silent.grant(SHORT)?.lease;
    ensure!(silent.claim("members/m", "replica", lease)? == Claimed::Ours, "a key that is free");
    ensure!(found(one, "members/m")?.is_some(), "it is not shown");
    thread::sleep(SHORT + SHORT / 2);
    ensure!(silent.renew(lease)?.is_some(), "a row goes only when somebody takes it away");
    ensure!(found(one, "members/m")?.is_some(), "it was renewed in the last moment");
    thread::sleep(SHORT + SHORT / 2);
    ensure!(found(one, "members/m")?.is_none(), "its beat has stood still");
    ensure!(silent.renew(lease)?.is_none(), "it was taken away");
    ensure!(silent.claim("members/m", "replica", lease)? == Claimed::Taken, "a late claim");
    Ok(())
}
