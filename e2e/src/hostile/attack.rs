//! The attacks: bounded programs. Each gives what it holds on to.

mod places;
mod rogue;

use std::any::Any;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use delphinus_sandbox::Flavor;
use delphinus_testkit as testkit;
use delphinus_wire::compression::{Algorithm, Codec, CompressedLink, Side};

use super::arena::Arena;
use super::until_so;
use crate::client::packet::Wire;
use crate::client::{Client, Login};
use crate::stage::Stage;

/// What an attack holds on to until it ends.
pub(super) type Held = Vec<Box<dyn Any>>;

/// An attack.
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// What its clients do.
    pub what: &'static str,
    /// How many clients it has in a full run.
    pub clients: usize,
    /// How many in a short one.
    pub few: usize,
    /// Does it.
    pub(super) run: fn(&Arena, usize) -> Result<Held>,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// All of them.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "long_variables",
        what: "`SET @b0 = REPEAT('x', 8388608)`, `@b1`, ..: 60 of them in each session",
        clients: 2,
        few: 1,
        run: |arena, clients| long_variables(&arena.stage, clients),
    },
    Attack {
        name: "many_variables",
        what: "3,000 user variables of 100 bytes in each session",
        clients: 100,
        few: 20,
        run: |arena, clients| many_variables(&arena.stage, clients),
    },
    Attack {
        name: "long_prepares",
        what: "20 prepared texts of 15 MiB in each session",
        clients: 2,
        few: 1,
        run: |arena, clients| prepares(&arena.stage, clients, (20, 15 * MIB)),
    },
    Attack {
        name: "made_texts",
        what: "`EXECUTE IMMEDIATE REPEAT('(', 16000000)`, or `PREPARE s FROM @b` of such a value, again and again",
        clients: 20,
        few: 10,
        run: |arena, clients| made_texts(&arena.stage, clients),
    },
    Attack {
        name: "many_prepares",
        what: "200 prepared texts of 200 KiB in each session",
        clients: 20,
        few: 10,
        run: |arena, clients| prepares(&arena.stage, clients, (200, 200 * KIB)),
    },
    Attack {
        name: "sql_prepares",
        what: "100 `PREPARE` of 15 KiB in each session",
        clients: 100,
        few: 30,
        run: |arena, clients| sql_prepares(&arena.stage, clients),
    },
    Attack {
        name: "unfinished_prepares",
        what: "COM_STMT_PREPARE of 16 MiB, all but the last byte",
        clients: 60,
        few: 20,
        run: |arena, clients| unfinished(&arena.stage, clients, (0x16, 16 * MIB - 2, 16 * MIB - 100)),
    },
    Attack {
        name: "half_headers",
        what: "the header of a command of 256 KiB, and 10 bytes of it",
        clients: 10_000,
        few: 1_000,
        run: |arena, clients| unfinished(&arena.stage, clients, (3, 256 * KIB - 10, 10)),
    },
    Attack {
        name: "half_commands",
        what: "200 KiB of a command of 256 KiB",
        clients: 10_000,
        few: 1_000,
        run: |arena, clients| unfinished(&arena.stage, clients, (3, 256 * KIB - 10, 200 * KIB)),
    },
    Attack {
        name: "warnings",
        what: "`max_error_count = 65535` and a statement with as many warnings",
        clients: 25,
        few: 25,
        run: |arena, clients| warnings(&arena.stage, clients),
    },
    Attack {
        name: "stored_code",
        what: "procedures of 1.8 MB and of 200 KB, full of names",
        clients: 20,
        few: 10,
        run: |arena, clients| stored_code(&arena.stage, clients),
    },
    Attack {
        name: "compressed",
        what: "16 KiB that unpack to 15 MiB, of a command whose end is missing",
        clients: 200,
        few: 30,
        run: |arena, clients| compressed(&arena.stage, clients),
    },
    Attack {
        name: "deaf_readers",
        what: "a result of 48 MB of which nothing is read",
        clients: 60,
        few: 20,
        run: |arena, clients| deaf_readers(&arena.stage, clients),
    },
    Attack {
        name: "words",
        what: "COM_STMT_PREPARE of `CREATE PROCEDURE p() IF IF IF ..`, 4 MB",
        clients: 4,
        few: 4,
        run: |arena, clients| words(&arena.stage, clients),
    },
    Attack {
        name: "tokens",
        what: "60 causality tokens of 16 KiB in each session, each with other parts",
        clients: 200,
        few: 40,
        run: |arena, clients| tokens(&arena.stage, clients),
    },
    Attack {
        name: "half_logins",
        what: "a login of 60 KiB, all but the last byte",
        clients: 10_000,
        few: 1_000,
        run: places::half_logins,
    },
    Attack {
        name: "half_handshakes",
        what: "a request for TLS, and all but a byte of a record of 16 KiB",
        clients: 10_000,
        few: 1_000,
        run: places::half_handshakes,
    },
    Attack {
        name: "half_open_operators",
        what: "connections to the admin listener that say nothing, by TCP and on its Unix socket; operators get in",
        clients: 1_000,
        few: 100,
        run: places::half_open_operators,
    },
    Attack {
        name: "stalled_loads",
        what: "LOAD DATA LOCAL of one user whose files do not come; another user writes",
        clients: 100,
        few: 100,
        run: places::stalled_loads,
    },
    Attack {
        name: "rogue_files",
        what: "a server asks for files of clients that did not agree to that, or sent no LOAD DATA LOCAL",
        clients: 400,
        few: 40,
        run: rogue::files,
    },
    Attack {
        name: "rogue_answers",
        what: "a server answers what the proxy asks by rows, columns or a packet without end",
        clients: 200,
        few: 32,
        run: |arena, clients| Ok(rogue::answers(arena, clients)),
    },
    Attack {
        name: "rogue_probes",
        what: "a server answers what the monitor asks by rows without end, for 5 s",
        clients: 1,
        few: 1,
        run: |arena, _| Ok(rogue::probes(arena)),
    },
    Attack {
        name: "failed_logins",
        what: "wrong passwords by TCP, of clients and of operators; others get in on Unix sockets",
        clients: 200,
        few: 50,
        run: places::failed_logins,
    },
];

fn session(stage: &Stage) -> Result<testkit::Client> {
    stage.address.login().patience(Duration::from_mins(2)).connect()
}

/// An error is an answer as good as another.
fn ask(client: &mut testkit::Client, sql: &str) -> Result<()> {
    client.query(sql).map(drop)
}

fn in_each(
    stage: &Stage,
    clients: usize,
    mut work: impl FnMut(&mut testkit::Client) -> Result<()>,
) -> Result<Held> {
    let mut held: Held = Vec::new();
    for _ in 0..clients {
        let mut client = session(stage)?;
        work(&mut client)?;
        held.push(Box::new(client));
    }
    Ok(held)
}

fn long_variables(stage: &Stage, clients: usize) -> Result<Held> {
    in_each(stage, clients, |client| {
        for number in 0..60 {
            ask(client, &format!("SET @b{number} = REPEAT('x', 8388608)"))?;
            ask(client, "SELECT 1")?;
        }
        Ok(())
    })
}

fn many_variables(stage: &Stage, clients: usize) -> Result<Held> {
    in_each(stage, clients, |client| {
        for part in 0..10 {
            let set = |number| format!("@v{number} = REPEAT('x', 100)");
            let list: Vec<String> = (part * 300..part * 300 + 300).map(set).collect();
            ask(client, &format!("SET {}", list.join(", ")))?;
        }
        Ok(())
    })
}

fn prepares(stage: &Stage, clients: usize, (count, len): (usize, usize)) -> Result<Held> {
    in_each(stage, clients, |client| {
        for number in 0..count {
            let text = format!("SELECT {number}, '{}'", "x".repeat(len));
            let _ = client.prepare(&text)?;
        }
        Ok(())
    })
}

/// The server makes the texts, and refuses them.
fn made_texts(stage: &Stage, clients: usize) -> Result<Held> {
    let large = "REPEAT('(', 16000000)";
    let (set, prepare) = (format!("SET @b = {large}"), "PREPARE s FROM @b".to_owned());
    let texts = if stage.cluster.flavor == Flavor::MariaDb {
        vec![format!("EXECUTE IMMEDIATE {large}"), set, prepare]
    } else {
        vec![set, prepare]
    };
    let mut sessions: Vec<_> = (0..clients).map(|_| session(stage)).collect::<Result<_>>()?;
    thread::scope(|scope| {
        let working: Vec<_> = sessions
            .iter_mut()
            .map(|client| scope.spawn(|| texts.iter().try_for_each(|text| ask(client, text))))
            .collect();
        working.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| bail!("a client has panicked")))
    })?;
    Ok(sessions.into_iter().map(|client| -> Box<dyn Any> { Box::new(client) }).collect())
}

fn sql_prepares(stage: &Stage, clients: usize) -> Result<Held> {
    let text = "x".repeat(15 * KIB);
    in_each(stage, clients, |client| {
        (0..100).try_for_each(|number| ask(client, &format!("PREPARE p{number} FROM 'SELECT \"{text}\"'")))
    })
}

/// Sends so much of a command of this length.
fn unfinished(stage: &Stage, clients: usize, (number, len, sent): (u8, usize, usize)) -> Result<Held> {
    let mut bytes = len.to_le_bytes()[..3].to_vec();
    bytes.extend([0, number]);
    bytes.resize(4 + sent, b' ');
    let mut held: Held = Vec::new();
    for _ in 0..clients {
        let mut wire = Client::connect(&Login::new(&stage.address))?.into_wire();
        wire.set_limit(Duration::from_millis(500))?;
        // One that is not read to the end has been refused, or waits.
        let _ = wire.write_all(&bytes);
        held.push(Box::new(wire));
    }
    Ok(held)
}

fn tokens(stage: &Stage, clients: usize) -> Result<Held> {
    let is_mariadb = stage.cluster.flavor == Flavor::MariaDb;
    let part = |number: usize| {
        if is_mariadb {
            format!("{number}-1-5")
        } else {
            format!("{number:08x}-0000-0000-0000-000000000000:1-5")
        }
    };
    let parts = if is_mariadb { 1_000 } else { 350 };
    in_each(stage, clients, |client| {
        for turn in 0..60 {
            let list: Vec<_> = (turn * parts..(turn + 1) * parts).map(part).collect();
            ask(client, &format!("SET @@delphinus.causality_token = '{}'", list.join(",")))?;
        }
        Ok(())
    })
}

fn warnings(stage: &Stage, clients: usize) -> Result<Held> {
    let rows = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
                UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let text = "x".repeat(200);
    let many = format!(
        "SELECT SUM(CAST(CONCAT(a.n, '{text}', b.n, c.n, d.n, e.n) AS SIGNED)) \
         FROM {rows} a, {rows} b, {rows} c, {rows} d, {rows} e"
    );
    let held = in_each(stage, clients, |client| {
        ask(client, "SET max_error_count = 65535")?;
        ask(client, &many)
    })?;
    // Others take the connections, and what is there is saved.
    for _ in 0..2 {
        let mut others = in_each(stage, 30, |client| ask(client, "SET @a = 1"))?;
        others.clear();
    }
    Ok(held)
}

fn stored_code(stage: &Stage, clients: usize) -> Result<Held> {
    let body = |count: usize| {
        let list: Vec<String> = (0..count).map(|number| format!("@variable{number} = {number}")).collect();
        format!("SET {}", list.join(", "))
    };
    let held = in_each(stage, clients, |client| {
        let number = client.connection_id();
        ask(client, &format!("CREATE PROCEDURE app.small{number}() {}", body(7_000)))?;
        ask(client, &format!("CREATE PROCEDURE app.large{number}() {}", body(60_000)))
    })?;
    thread::sleep(Duration::from_secs(2));
    let mut client = session(stage)?;
    for _ in 0..3 {
        ask(&mut client, "CREATE OR REPLACE VIEW app.hostile AS SELECT 1")?;
    }
    Ok(held)
}

/// A login that compresses is one of the testkit's, whose stream cannot be had: what it sends is packed here.
fn compressed(stage: &Stage, clients: usize) -> Result<Held> {
    const COMPRESS: u32 = 32;
    let mut payload = (15 * MIB).to_le_bytes()[..3].to_vec();
    payload.extend([0, 3]);
    payload.resize(15 * MIB - 10, b' ');
    let mut frame = Vec::new();
    Packed::default().put(&payload, &mut frame);
    ensure!(frame.len() < MIB, "{} bytes", frame.len());
    let mut held: Held = Vec::new();
    for _ in 0..clients {
        let login = Login { more_capabilities: COMPRESS, ..Login::new(&stage.address) };
        let mut wire: Wire = Client::connect(&login)?.into_wire();
        wire.set_limit(Duration::from_millis(500))?;
        let _ = wire.write_all(&frame);
        held.push(Box::new(wire));
    }
    Ok(held)
}

/// Packs in one frame, which clients of the kit do not.
#[derive(Default)]
struct Packed(Codec);

impl Packed {
    fn put(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let mut link = CompressedLink::new(Algorithm::Zlib, Side::Client);
        link.encode(&mut self.0, payload, out);
    }
}

fn deaf_readers(stage: &Stage, clients: usize) -> Result<Held> {
    let sql = b"SELECT REPEAT('x', 16000000) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) t";
    let mut held: Held = Vec::new();
    for _ in 0..clients {
        let mut client = Client::connect(&Login::new(&stage.address).over_tcp(&stage.address))?;
        client.send(3, sql)?;
        held.push(Box::new(client));
    }
    Ok(held)
}

fn words(stage: &Stage, clients: usize) -> Result<Held> {
    let text = format!("CREATE PROCEDURE p() {}", "IF ".repeat(4 * MIB / 3));
    let mut held: Held = Vec::new();
    for _ in 0..clients {
        let mut client = session(stage)?;
        client.send(&[b"\x16", text.as_bytes()].concat())?;
        held.push(Box::new(client));
    }
    let mut client = session(stage)?;
    until_so("the proxy to answer", || Ok(client.ping().is_ok()))?;
    Ok(held)
}
