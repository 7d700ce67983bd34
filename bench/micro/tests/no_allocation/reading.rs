//! How often all that a session does with one command reads its text, in the whole proxy.

use delphinus_sql::bytes_read;
use delphinus_testkit::{Client, Login};

/// So often at most: it is classified, and what it does is looked up by name. Most are read once or twice; several statements in one
/// text are read as one and one by one.
const TIMES: u64 = 7;
/// How long the texts are, more or less.
const LEN: usize = 48 * 1024;

/// Text that is repeated between a beginning and an end.
const TEXTS: [(&str, &str, &str); 18] = [
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
];

/// Adds the texts that are read too often.
pub(crate) fn note_readings(login: &Login, wrong: &mut Vec<String>) {
    for (head, unit, tail) in TEXTS {
        let text = format!("{head}{}{tail}", unit.repeat(LEN / unit.len()));
        for is_prepared in [false, true] {
            let mut client: Client = login.connect().unwrap();
            client.set_multi_statements(true).unwrap();
            let before = bytes_read();
            // What the server makes of it does not matter: one that fails has to be looked at, too.
            if is_prepared {
                let _ = client.prepare(&text);
            } else {
                let _ = client.query(text.clone());
            }
            let times = (bytes_read() - before) / text.len() as u64;
            if std::env::var_os("SHOW_READINGS").is_some() {
                eprintln!("{times:>3} {is_prepared:>5} {head}{unit}");
            }
            if times > TIMES {
                wrong.push(format!("read {times} times: {head}{unit}.."));
            }
            let _ = client.quit();
        }
    }
}
