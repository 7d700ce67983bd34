//! What the proxy does with statements beside passing them on, for the sums: answers that are kept, files and arrays that come with a
//! statement, refusals, other texts, copies. None of it may be counted twice, or nowhere.

use anyhow::{Result, bail, ensure};
use delphinus_sandbox::{APP2, Cluster, Flavor, NOPW};
use delphinus_testkit::{Client, Login};
use delphinus_wire::command::Code;
use delphinus_wire::{Capabilities, HEADER_LEN, response};

use super::Ground;
use super::sums::{Counted, note, note_one};
use crate::stage::Address;

/// One user is refused by a filter, and another one by a limit, most of the time.
pub(super) fn sections(cluster: &Cluster) -> String {
    let (filtered, limited, mirror) = (APP2.user, NOPW.user, &cluster.servers[2]);
    format!(
        "[[filter]]\nname = \"no_ddl\"\nstatement = [\"ddl\"]\nuser = [\"{filtered}\"]\n\
         [[limit]]\nname = \"few\"\nuser = [\"{limited}\"]\nstatements_per_second = 1\nqueue = 0\n\
         [[mirror]]\ngroup = \"shadow\"\naddress = \"{}:{}\"\n\
         [[rule]]\nname = \"copies\"\nmatch_pattern = \"copied\"\nmirror_group = \"shadow\"\n\
         [[rule]]\nname = \"other\"\nmatch_pattern = \"asked\"\nreplace_pattern = \"given\"\n",
        mirror.host, mirror.port
    )
}

/// One client of each kind, in turns.
pub(super) fn work(address: &Address, flavor: Flavor, rounds: u64, counted: &Counted) -> Result<()> {
    let login = |user: &str, password: &str| {
        Login::new(&address.socket, user, password).schema(&address.database).connect()
    };
    let (mut filtered, mut limited) = (login(APP2.user, APP2.password)?, login(NOPW.user, NOPW.password)?);
    let mut client = address.login().with(Capabilities::LOCAL_FILES).connect()?;
    for table in ["beside", "kept"] {
        let made = client.query(format!("CREATE TABLE IF NOT EXISTS {table} (note VARCHAR(100))"))?;
        note(&made, counted);
    }
    // It writes nothing, and so may be given what is older.
    let mut reader = address.login().connect()?;
    for _ in 0..rounds {
        let kept = "/*+ delphinus(primary, cache_ttl=600000) */ SELECT COUNT(*) FROM kept";
        note(&reader.query(kept)?, counted);
        load(&mut client, counted)?;
        note(&client.query("SELECT 'copied'")?, counted);
        note(&client.query("SELECT 'asked', 1")?, counted);
        note(&filtered.query("CREATE TABLE nothing (a INT)")?, counted);
        note(&limited.query("SELECT 'limited', 1, 2")?, counted);
    }
    if flavor == Flavor::MariaDb {
        bulk(address, rounds, counted)?;
    }
    Ok(())
}

/// A file of two rows comes with a statement.
fn load(client: &mut Client, counted: &Counted) -> Result<()> {
    let answer = client.capture_query("LOAD DATA LOCAL INFILE 'a' INTO TABLE beside", Some(b"one\ntwo\n"))?;
    // Behind the question for the file.
    let asked = answer.first().map_or(0, |len| usize::from(*len)) + HEADER_LEN;
    note_one(answer.get(asked + HEADER_LEN) != Some(&response::OK), counted);
    Ok(())
}

/// COM_STMT_BULK_EXECUTE of two rows. Source: <https://mariadb.com/kb/en/com_stmt_bulk_execute/>
fn bulk(address: &Address, rounds: u64, counted: &Counted) -> Result<()> {
    /// Types are sent; they are those of a string.
    const HEAD: [u8; 4] = [128, 0, 0xfe, 0];
    let mut client = address.login().connect()?;
    let Ok(prepared) = client.prepare("INSERT INTO beside VALUES (?)")? else {
        bail!("it cannot be prepared")
    };
    let mut payload = vec![Code::StmtBulkExecute as u8];
    payload.extend(prepared.id.to_le_bytes());
    payload.extend(HEAD.iter().chain(b"\0\x03one\0\x03two"));
    for _ in 0..rounds {
        client.send(&payload)?;
        note(&client.read_replies()?, counted);
    }
    Ok(())
}

/// An error if something of it has not been.
pub(super) fn was_there(ground: &mut Ground) -> Result<()> {
    for (what, sql) in [
        (
            "an answer from the cache",
            "SELECT value FROM status WHERE variable_name LIKE 'delphinus_cache_lookups_total%\"hit\"%'",
        ),
        ("rows of a file", "SELECT sum(rows_affected) FROM digests WHERE digest_text LIKE 'LOAD DATA%'"),
        (
            "a refusal by the filter",
            "SELECT sum(errors) FROM digests WHERE digest_text LIKE 'CREATE TABLE nothing%'",
        ),
        ("a refusal by the limit", "SELECT errors FROM digests WHERE digest_text LIKE 'SELECT ?, ...'"),
        ("a copy", "SELECT mirrored FROM rules WHERE name = 'copies'"),
        ("another text", "SELECT hits FROM rules WHERE name = 'other'"),
    ] {
        ensure!(ground.number(sql)? > 0, "there was not {what}");
    }
    Ok(())
}
