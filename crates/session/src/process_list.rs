//! SHOW PROCESSLIST: the sessions of this proxy, with the ids that their clients know. Servers would show their
//! connections instead, which are nobody's for long, and whose ids KILL does not take here.

use delphinus_clients::{Activity, Rank};
use delphinus_sql::Flavor;
use delphinus_wire::response::{Column, TextResult};

use crate::diagnostics::TextShape;
use crate::io::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;

/// How much of a statement is shown without FULL, in bytes.
const SHOWN: usize = 100;
/// Type codes.
const LONG: u8 = 3;
const FLOAT: u8 = 4;

fn columns(has_progress: bool, shape: TextShape) -> Vec<Column> {
    let text = |name: &[u8], chars, flags| Column {
        decimals: shape.decimals,
        flags,
        ..Column::text(name, chars, shape.collation)
    };
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

impl Session {
    /// Those of the same user, and for one with `connection_admin` all: what other rights a user has, only servers know.
    /// `Info` is known of this session alone.
    pub(crate) async fn show_process_list(&mut self, input: Input, sql: &[u8], shape: TextShape) -> Outcome {
        self.client.skip(input).await?;
        let is_full = sql.split(u8::is_ascii_whitespace).any(|word| word.eq_ignore_ascii_case(b"full"));
        let is_mariadb = self.state.lex.options(&self.state.want.vars).flavor == Flavor::MariaDb;
        let old_mode = self.state.want.vars.get("old_mode").map(|mode| String::from_utf8_lossy(mode));
        let has_progress = is_mariadb && !old_mode.is_some_and(|mode| mode.contains("NO_PROGRESS_INFO"));
        let now_s = self.worker.registry.clock_s();
        let sees_all = self.activity.rank() == Rank::ConnectionAdmin;
        let sessions = self.worker.registry.list();
        let rows = sessions.iter().filter(|info| sees_all || self.is_own(info));
        let rows = rows.map(|info| self.row(info, (now_s, has_progress), sql, is_full)).collect();
        self.worker.counters.routed_local.increment();
        self.held.memory.row_count.set(-1);
        self.note_own_answer();
        self.answer_rows(&TextResult { columns: columns(has_progress, shape), rows }).await?;
        Ok(Served::Answered)
    }

    fn row(
        &self,
        info: &Activity,
        (now_s, has_progress): (u32, bool),
        sql: &[u8],
        is_full: bool,
    ) -> Vec<Option<Vec<u8>>> {
        let is_own = info.id == self.activity.id;
        let runs = is_own || info.place().is_some();
        let text = |text: &str| Some(text.as_bytes().to_vec());
        let schema = info.schema();
        let statement = is_own.then(|| if is_full { sql } else { &sql[..sql.len().min(SHOWN)] }.to_vec());
        let mut row = vec![
            text(&info.id.0.to_string()),
            text(&info.user()),
            text(&info.host),
            schema.as_deref().and_then(text),
            text(if runs { "Query" } else { "Sleep" }),
            text(&info.since_s(now_s).to_string()),
            match info.pin() {
                Some(reason) => text(&format!("pinned: {}", reason.as_str())),
                None => text(if is_own { "starting" } else { "" }),
            },
            statement,
        ];
        if has_progress {
            row.push(text("0.000"));
        }
        row
    }
}
