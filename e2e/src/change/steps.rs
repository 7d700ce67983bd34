//! What the operator does, change by change.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::ground::Ground;
use super::{Load, UNDER_WAY};
use crate::poll::until;

const LIMIT: Duration = Duration::from_mins(1);

/// One kind of change.
pub struct Change {
    /// The name for the command line.
    pub name: &'static str,
    /// What is done, for the page.
    pub what: &'static str,
    /// How often.
    pub rounds: u32,
    /// The same in a short run.
    pub few: u32,
    /// Who works meanwhile.
    pub(super) clients: Clients,
    pub(super) run: fn(&mut Ground, &Load, u32) -> Result<()>,
}

/// Who works while something changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clients {
    /// sysbench, and an application's clients, at one proxy.
    All,
    /// The application's clients alone, which know both proxies.
    AtBoth,
}

const fn change(
    name: &'static str,
    what: &'static str,
    (rounds, few): (u32, u32),
    run: fn(&mut Ground, &Load, u32) -> Result<()>,
) -> Change {
    Change { name, what, rounds, few, clients: Clients::All, run }
}

/// All of them.
pub const CHANGES: &[Change] = &[
    change("replica", "a replica OFFLINE, drained, and ONLINE", (50, 3), replica),
    change("reload", "the file changed and read again, every tenth time by SIGHUP", (100, 10), reload),
    change("backends", "a backend removed and added", (20, 2), backends),
    change("rules", "a rule added, changed and removed", (20, 3), rules),
    change("passwords", "the application's password changed, two valid at once", (10, 2), passwords),
    change("pause", "PAUSE WAIT and RESUME", (20, 3), pause),
    change("primary", "the primary OFFLINE, drained, and ONLINE", (20, 3), primary),
    Change {
        name: "proxy",
        what: "one of two proxies OFFLINE, empty, and ONLINE",
        rounds: 20,
        few: 3,
        clients: Clients::AtBoth,
        run: proxy,
    },
];

fn replica(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    for round in 0..rounds {
        let name = &ground.replica(round).name;
        ground.tell(&format!("SET BACKEND '{name}' OFFLINE WAIT 30"))?;
        let open = ground.tell(&format!("SELECT connections FROM backends WHERE name = '{name}'"))?;
        ensure!(open[0][0].as_deref() == Some("0"), "{name} has connections: {open:?}");
        load.go_on()?;
        ground.tell(&format!("SET BACKEND '{name}' ONLINE"))?;
        ground.until_reading(round)?;
    }
    Ok(())
}

fn reload(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    for round in 0..rounds {
        let share = (round % 50).to_string();
        ground.write("routing", "read_primary_percentage", &share)?;
        ground.write("pool", "hold_ms", &(100 + round).to_string())?;
        if round % 10 == 9 {
            ground.hang_up()?;
        } else {
            ground.tell("CONFIG APPLY")?;
        }
        let is_read = || Ok(ground.option("routing.read_primary_percentage")? == share);
        until(LIMIT, "the file to be read", is_read)?;
        load.go_on()?;
    }
    Ok(())
}

fn backends(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    for round in 0..rounds {
        let (name, port) = (&ground.replica(round).name, ground.replica(round).port);
        ground.tell(&format!("REMOVE BACKEND '{name}'"))?;
        load.go_on()?;
        ground.tell(&format!("ADD BACKEND '{name}' address = '127.0.0.1:{port}', role = replica"))?;
        ground.until_reading(round)?;
    }
    Ok(())
}

fn rules(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    for _ in 0..rounds {
        ground.tell("ADD RULE moved table = ['changed', 'sbtest1'], target = 'primary'")?;
        load.go_on()?;
        ground.tell("SET RULE moved match_pattern = 'SELECT', timeout_ms = 60000")?;
        let matched = "SELECT 1 FROM rules WHERE name = 'moved' AND hits > 0";
        until(LIMIT, "the rule to be used", || Ok(!ground.tell(matched)?.is_empty()))?;
        ground.tell("REMOVE RULE moved")?;
        load.go_on()?;
    }
    Ok(())
}

fn passwords(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    let (user, mut old) = (ground.stage.address.user.clone(), ground.stage.address.password.clone());
    let first = old.clone();
    for round in 0..rounds {
        let new = if round + 1 == rounds { first.clone() } else { format!("changed-{round}") };
        ground.tell(&format!("SET USER {user} secondary_password = '{new}'"))?;
        load.go_on()?;
        let primary = &ground.stage.cluster.servers[0];
        let account = primary.query(&format!(
            "SELECT CONCAT(user, '@''', host, '''') FROM mysql.user WHERE user = '{user}'"
        ))?;
        for account in account.lines() {
            primary.query(&format!("ALTER USER {account} IDENTIFIED BY '{new}'"))?;
        }
        // Backends are logged in to anew, with either of the two.
        ground.tell(&format!("RECONNECT USER {user}"))?;
        load.go_on()?;
        load.visitors.use_password(&new);
        load.go_on()?;
        ground.tell(&format!("SET USER {user} password = '{new}', secondary_password = DEFAULT"))?;
        ground.tell(&format!("RECONNECT USER {user}"))?;
        load.go_on()?;
        old = new;
    }
    ensure!(old == first, "the first password is the last one");
    Ok(())
}

fn pause(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    for _ in 0..rounds {
        ground.tell("PAUSE WAIT 30")?;
        let before = load.visitors.statements();
        std::thread::sleep(Duration::from_millis(200));
        let open = ground.tell("SELECT open_transactions FROM pauses")?;
        ensure!(open[0][0].as_deref() == Some("0"), "something runs in a pause: {open:?}");
        ensure!(load.visitors.statements() <= before + UNDER_WAY, "statements have run in a pause");
        ground.tell("RESUME")?;
        load.go_on()?;
    }
    Ok(())
}

fn primary(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    for _ in 0..rounds {
        let name = &ground.stage.cluster.servers[0].name;
        ground.tell(&format!("SET BACKEND '{name}' OFFLINE WAIT 30"))?;
        let open = ground.tell(&format!("SELECT connections FROM backends WHERE name = '{name}'"))?;
        ensure!(open[0][0].as_deref() == Some("0"), "{name} has connections: {open:?}");
        ground.tell(&format!("SET BACKEND '{name}' ONLINE"))?;
        load.go_on()?;
    }
    Ok(())
}

fn proxy(ground: &mut Ground, load: &Load, rounds: u32) -> Result<()> {
    for round in 0..rounds {
        let proxy = round as usize % 2;
        ground.tell_at(proxy, "SET PROXY OFFLINE")?;
        ground.until_empty(proxy)?;
        load.go_on()?;
        ground.tell_at(proxy, "SET PROXY ONLINE")?;
        load.go_on()?;
    }
    Ok(())
}
