//! How often all that a session does with one command reads its text, in the whole proxy.

use delphinus_sql::bytes_read;
use delphinus_testkit::{Client, Login};

/// So often at most: it is classified, and what it does is looked up by name, in one reading. Most are read once or twice. Others stand
/// beside that: for the tables in it, for columns that have to keep their names, for the words of a change of code.
const TIMES: u64 = 4;
/// Several statements that are read more often, and how often. Before they run, they are looked through for the code that they change:
/// each of them may do that. That asks for other names than the session has to remember.
const MORE: [(&str, u64); 4] = [
    // Whether each call of GET_LOCK is run once is looked at in a reading of its own.
    ("DO 1; DO GET_LOCK('a', 0)", 6),
    ("SELECT ROW_COUNT(), GET_LOCK('a', 0)", 6),
    ("DO 1; GRANT a TO b", 5),
    // What EXECUTE runs is not known: words about accounts are looked for, too, and literals that spell KILL.
    ("DO 1; EXECUTE IMMEDIATE 'SELECT 1'", 7),
];
/// Bytes that are read of a text once more, to see how it begins.
const BEGINNING: u64 = 256;
/// How long the texts are, more or less.
const LEN: usize = 48 * 1024;

/// Text that is repeated between a beginning and an end.
const TEXTS: [(&str, &str, &str); 39] = [
    ("SELECT 1", " + 1", ""),
    ("SELECT 1 FROM point WHERE id IN (1", ", 1", ")"),
    ("SELECT 1", " /* a */", ""),
    ("/*+ delphinus(a=1", ", a=1", ") */ SELECT 1"),
    ("SET @a = 1", ", @a = 1", ""),
    ("SET @a = 1", ", sort_buffer_size = 100000", ""),
    ("SET NAMES utf8mb4", ", NAMES utf8mb4", ""),
    ("SET @a = 1", "; SET @a = 1", ""),
    ("DO 1", "; DO 1", ""),
    ("DO 1", "; DO GET_LOCK('a', 0)", ""),
    ("DO 1", "; SAVEPOINT a", ""),
    ("DO 1", "; BEGIN; COMMIT", ""),
    ("DO RELEASE_LOCK('a')", " + CONNECTION_ID()", ""),
    ("PREPARE s FROM 'SELECT 1", " + 1", "'"),
    ("EXECUTE IMMEDIATE 'SELECT 1", " + 1", "'"),
    ("CREATE PROCEDURE p()", " IF", ""),
    ("CREATE PROCEDURE p() BEGIN", " SET @a = 1;", " END"),
    ("CREATE OR REPLACE VIEW v AS SELECT 1", " + 1", " AS a"),
    ("SELECT CONNECTION_ID(), 1", ", 1", " FROM point"),
    ("SELECT @a := CONNECTION_ID()", ", @a := CONNECTION_ID()", ""),
    ("SET @a = CONNECTION_ID()", ", @a = 1", ""),
    ("SELECT FOUND_ROWS()", " + FOUND_ROWS()", ""),
    ("SELECT ROW_COUNT()", ", GET_LOCK('a', 0)", ""),
    ("DO 1; SELECT CONNECTION_ID()", "; SET @a = CONNECTION_ID()", ""),
    ("USE app; SET @a = CONNECTION_ID()", "; SET @a = (SELECT 1 FROM point)", ""),
    ("DO 1; GRANT a TO b", "; SET @a = 1", ""),
    ("DO 1; CREATE TABLE nothing LIKE nothing", "; SET @a = 1", ""),
    ("DO 1; EXECUTE IMMEDIATE 'SELECT 1'", "; SET @a = 1", ""),
    ("BEGIN NOT ATOMIC SET @a = 1", "; SET @a = 1", "; END"),
    ("CALL nothing(1", ", 1", ")"),
    ("EXECUTE s USING @a", ", @a", ""),
    ("EXPLAIN SELECT 1", " + 1", ""),
    ("SHOW VARIABLES WHERE 1", " + 1", ""),
    ("DROP TEMPORARY TABLE IF EXISTS a", ", a", ""),
    ("CREATE TEMPORARY TABLE nothing SELECT 1", " + 1", " AS a"),
    ("INSERT INTO nothing VALUES (1)", ", (1)", ""),
    ("SET STATEMENT sort_buffer_size = 100000", ", sort_buffer_size = 100000", " FOR SELECT 1"),
    ("SET @@delphinus.trace = 0", ", @@delphinus.trace = 0", ""),
    ("KILL 1", " + 1", ""),
];

/// How often a text is tried: the monitor reads texts, too, such as those of new code in the database.
const TRIES: u32 = 4;

/// Adds the texts that are read too often.
pub(crate) fn note_readings(login: &Login, wrong: &mut Vec<String>) {
    for (head, unit, tail) in TEXTS {
        let text = format!("{head}{}{tail}", unit.repeat(LEN / unit.len()));
        for is_prepared in [false, true] {
            let times =
                MORE.iter().find(|(more, _)| text.starts_with(more)).map_or(TIMES, |(_, times)| *times);
            let most = times * text.len() as u64 + BEGINNING;
            let mut read = u64::MAX;
            for _ in 0..TRIES {
                read = read.min(bytes_read_of(login, &text, is_prepared));
                if read <= most {
                    break;
                }
            }
            let tenths = read * 10 / text.len() as u64;
            let times = format!("{}.{}", tenths / 10, tenths % 10);
            if std::env::var_os("SHOW_READINGS").is_some() {
                eprintln!("{times:>5} {is_prepared:>5} {head}{unit}");
            }
            if read > most {
                wrong.push(format!("read {times} times, prepared: {is_prepared}: {head}{unit}.."));
            }
        }
    }
}

/// What one command reads; it leaves no code in the database.
fn bytes_read_of(login: &Login, text: &str, is_prepared: bool) -> u64 {
    let mut client: Client = login.connect().unwrap();
    client.set_multi_statements(true).unwrap();
    let before = bytes_read();
    // What the server makes of it does not matter: one that fails has to be looked at, too.
    if is_prepared {
        let _ = client.prepare(text);
    } else {
        let _ = client.query(text);
    }
    let read = bytes_read() - before;
    if text.contains("CREATE") {
        let _ = client.query("DROP PROCEDURE IF EXISTS p; DROP VIEW IF EXISTS v");
    }
    let _ = client.quit();
    read
}
