//! The attacks: bounded programs. Each gives what it holds on to.

use std::any::Any;
use std::io::Write as _;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use delphinus_testkit as testkit;
use delphinus_wire::compression::{Algorithm, Codec, CompressedLink, Side};

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
    pub(super) run: fn(&Stage, usize) -> Result<Held>,
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
        run: long_variables,
    },
    Attack {
        name: "many_variables",
        what: "3,000 user variables of 100 bytes in each session",
        clients: 100,
        few: 20,
        run: many_variables,
    },
    Attack {
        name: "long_prepares",
        what: "20 prepared texts of 15 MiB in each session",
        clients: 2,
        few: 1,
        run: |stage, clients| prepares(stage, clients, (20, 15 * MIB)),
    },
    Attack {
        name: "many_prepares",
        what: "200 prepared texts of 200 KiB in each session",
        clients: 20,
        few: 10,
        run: |stage, clients| prepares(stage, clients, (200, 200 * KIB)),
    },
    Attack {
        name: "sql_prepares",
        what: "100 `PREPARE` of 15 KiB in each session",
        clients: 100,
        few: 30,
        run: sql_prepares,
    },
    Attack {
        name: "unfinished_prepares",
        what: "COM_STMT_PREPARE of 16 MiB, all but the last byte",
        clients: 60,
        few: 20,
        run: |stage, clients| unfinished(stage, clients, (0x16, 16 * MIB - 2, 16 * MIB - 100)),
    },
    Attack {
        name: "half_headers",
        what: "the header of a command of 256 KiB, and 10 bytes of it",
        clients: 10_000,
        few: 1_000,
        run: |stage, clients| unfinished(stage, clients, (3, 256 * KIB - 10, 10)),
    },
    Attack {
        name: "half_commands",
        what: "200 KiB of a command of 256 KiB",
        clients: 10_000,
        few: 1_000,
        run: |stage, clients| unfinished(stage, clients, (3, 256 * KIB - 10, 200 * KIB)),
    },
    Attack {
        name: "warnings",
        what: "`max_error_count = 65535` and a statement with as many warnings",
        clients: 25,
        few: 25,
        run: warnings,
    },
    Attack {
        name: "stored_code",
        what: "procedures of 1.8 MB and of 200 KB, full of names",
        clients: 20,
        few: 10,
        run: stored_code,
    },
    Attack {
        name: "compressed",
        what: "16 KiB that unpack to 15 MiB, of a command whose end is missing",
        clients: 200,
        few: 100,
        run: compressed,
    },
    Attack {
        name: "deaf_readers",
        what: "a result of 48 MB of which nothing is read",
        clients: 60,
        few: 20,
        run: deaf_readers,
    },
    Attack {
        name: "words",
        what: "COM_STMT_PREPARE of `CREATE PROCEDURE p() IF IF IF ..`, 4 MB",
        clients: 4,
        few: 4,
        run: words,
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
