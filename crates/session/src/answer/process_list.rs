//! SHOW PROCESSLIST: the sessions of this proxy, with the ids that their clients know. Servers would show their
//! connections instead, which are nobody's for long, and whose ids KILL does not take here.

use delphinus_clients::Activity;
use delphinus_sql::{Flavor, SqlText, shows_whole_statements};
use delphinus_state::Vars;
use delphinus_wire::response::{Column, TextResult};

use super::{Answer, Sessions, TextShape};

/// How much of a statement is shown without FULL, in bytes.
const SHOWN: usize = 100;
/// Type codes.
const LONG: u8 = 3;
const FLOAT: u8 = 4;

fn columns(has_progress: bool, shape: TextShape) -> Vec<Column> {
    let text = |name: &[u8], chars, flags| Column { flags, ..shape.column(name, chars) };
    let id = Column { flags: 0xa1, ..Column::integer(b"Id") };
    let seconds = Column { length: 7, kind: LONG, flags: 0x81, ..Column::integer(b"Time") };
    let mut list = vec![
        id,
        text(b"User", 32, 1),
        text(b"Host", 64, 1),
        text(b"db", 64, 0),
        text(b"Command", 16, 1),
        seconds,
        text(b"State", 30, 0),
        text(b"Info", 100, 0),
    ];
    if has_progress {
        list.push(Column {
            length: 7,
            kind: FLOAT,
            flags: 0x81,
            decimals: 3,
            ..Column::integer(b"Progress")
        });
    }
    list
}

/// The sessions that the asker may see. `Info` is known of its own alone: that is the text.
pub(crate) fn process_list(
    sessions: &Sessions<'_>,
    text: &SqlText<'_>,
    vars: &Vars,
    shape: TextShape,
) -> Answer {
    let SqlText { sql, lex, .. } = *text;
    let info = if shows_whole_statements(sql, lex) { sql } else { &sql[..sql.len().min(SHOWN)] };
    let old_mode = vars.get("old_mode").map(|mode| String::from_utf8_lossy(mode));
    let has_progress =
        lex.flavor == Flavor::MariaDb && !old_mode.is_some_and(|mode| mode.contains("NO_PROGRESS_INFO"));
    let now_s = sessions.registry.clock_s();
    let mut rows = Vec::new();
    for one in sessions.seen() {
        let mut row = row(&one, (one.id == sessions.own.id).then_some(info), now_s);
        row.extend(has_progress.then(|| Some(b"0.000".to_vec())));
        rows.push(row);
    }
    Answer::rows(TextResult { columns: columns(has_progress, shape), rows })
}

/// A session; `info`: what it runs, of the asker's own.
fn row(one: &Activity, info: Option<&[u8]>, now_s: u32) -> Vec<Option<Vec<u8>>> {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let is_own = info.is_some();
    let runs = is_own || one.place().is_some() || one.is_waiting();
    vec![
        text(&one.id.0.to_string()),
        text(&one.user()),
        text(&one.host),
        one.schema().as_deref().and_then(text),
        text(if runs { "Query" } else { "Sleep" }),
        text(&one.since_s(now_s).to_string()),
        match one.pin() {
            Some(pin) => text(&format!("pinned: {}", pin.label())),
            None => text(if is_own { "starting" } else { "" }),
        },
        info.map(<[u8]>::to_vec),
    ]
}
