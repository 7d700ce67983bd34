//! The workloads: their names, their tables, and what each connection does.

mod data;
mod oltp;

use anyhow::{Result, bail};

use crate::load::{Expected, Pick, Script, Statement, Sysbench, Value};
use crate::system::debian_program;

pub(crate) use data::SCHEMA;
pub(crate) use data::{prepare, prepare_rows};

/// Rows of the table that the oltp statements work on.
pub(crate) const TABLE_ROWS: i64 = 10_000;
/// Rows and bytes of the table that is read as a whole, 10 MiB.
pub(crate) const BIG_ROWS: i64 = 10_240;
pub(crate) const BIG_ROW_BYTES: i64 = 1_024;
/// Variants of a statement that are encoded before the load begins.
const VARIANTS: i64 = 4_096;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// One row by its primary key.
    PointSelect(Protocol),
    /// sysbench's oltp_read_only without transactions: ten point selects and four ranges of 100 rows.
    ReadOnly(Protocol),
    /// sysbench's oltp_read_write without transactions: the same, and four writes.
    ReadWrite(Protocol),
    /// The same point selects, by sysbench itself.
    Sysbench(Protocol),
    /// sysbench's oltp_read_write as it comes, by sysbench itself: those 18 statements between BEGIN and COMMIT.
    Transactions(Protocol),
    /// Point selects on connections whose sessions differ in their variables.
    States(Hold),
    /// A result of 1,000 rows.
    Rows1000,
    /// A result of 10 MiB.
    Result10Mb,
    /// A point select on a connection of its own.
    Connect,
    /// Point selects on 50 connections before and beside 10,000 that do nothing.
    Idle10000,
}

/// How long a backend connection waits for its session after a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// As long as is the default.
    Default,
    /// Not at all: other systems have no such thing.
    None,
}

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// COM_QUERY.
    Text,
    /// COM_STMT_EXECUTE.
    Prepared,
}

impl Workload {
    /// All, in the order in which they are measured.
    pub const ALL: [Self; 16] = [
        Self::PointSelect(Protocol::Text),
        Self::PointSelect(Protocol::Prepared),
        Self::Sysbench(Protocol::Text),
        Self::Sysbench(Protocol::Prepared),
        Self::ReadOnly(Protocol::Text),
        Self::ReadOnly(Protocol::Prepared),
        Self::ReadWrite(Protocol::Text),
        Self::ReadWrite(Protocol::Prepared),
        Self::Transactions(Protocol::Text),
        Self::Transactions(Protocol::Prepared),
        Self::States(Hold::Default),
        Self::States(Hold::None),
        Self::Rows1000,
        Self::Result10Mb,
        Self::Connect,
        Self::Idle10000,
    ];

    /// The name on the command line and in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::PointSelect(Protocol::Text) => "point-select-text",
            Self::PointSelect(Protocol::Prepared) => "point-select-prepared",
            Self::Sysbench(Protocol::Text) => "sysbench-point-select-text",
            Self::Sysbench(Protocol::Prepared) => "sysbench-point-select-prepared",
            Self::Transactions(Protocol::Text) => "transactions-text",
            Self::Transactions(Protocol::Prepared) => "transactions-prepared",
            Self::ReadOnly(Protocol::Text) => "read-only-text",
            Self::ReadOnly(Protocol::Prepared) => "read-only-prepared",
            Self::ReadWrite(Protocol::Text) => "read-write-text",
            Self::ReadWrite(Protocol::Prepared) => "read-write-prepared",
            Self::States(Hold::Default) => "states",
            Self::States(Hold::None) => "states-hold-0",
            Self::Rows1000 => "rows-1000",
            Self::Result10Mb => "result-10mb",
            Self::Connect => "connect",
            Self::Idle10000 => "idle-10000",
        }
    }

    /// The workloads whose names begin with one of these; all without any.
    pub fn chosen(prefixes: &[String]) -> Result<Vec<Self>> {
        if let Some(unknown) = prefixes.iter().find(|prefix| !Self::ALL.iter().any(|one| one.has(prefix))) {
            let names = Self::ALL.map(Self::name).join(", ");
            bail!("no workload is called or begins with {unknown:?}; there are: {names}");
        }
        let is_chosen = |one: &Self| prefixes.is_empty() || prefixes.iter().any(|prefix| one.has(prefix));
        Ok(Self::ALL.into_iter().filter(is_chosen).collect())
    }

    fn has(self, prefix: &str) -> bool {
        self.name().starts_with(prefix)
    }

    /// How many connections are busy; one measurement for each number.
    pub fn connections(self) -> &'static [usize] {
        match self {
            Self::PointSelect(_) | Self::Sysbench(_) => &[64, 8],
            Self::Transactions(_) => &[64, 16],
            Self::ReadOnly(_) | Self::ReadWrite(_) | Self::States(_) => &[64],
            Self::Rows1000 | Self::Connect => &[16],
            Self::Result10Mb => &[4],
            Self::Idle10000 => &[50],
        }
    }

    /// The test of sysbench that makes the load, where it is not this process; brings the program.
    pub(crate) fn sysbench(self) -> Result<Option<Sysbench>> {
        let (protocol, test) = match self {
            Self::Sysbench(protocol) => (protocol, "oltp_point_select"),
            Self::Transactions(protocol) => (protocol, "oltp_read_write"),
            _ => return Ok(None),
        };
        let ps_mode = if protocol == Protocol::Text { "disable" } else { "auto" };
        let program = debian_program("sysbench")?;
        let can_deadlock = self.writes();
        Ok(Some(Sysbench { program, test, ps_mode, rows: TABLE_ROWS, can_deadlock }))
    }

    /// True if sysbench makes the load.
    pub(crate) fn is_by_sysbench(self) -> bool {
        matches!(self, Self::Sysbench(_) | Self::Transactions(_))
    }

    /// True if a part of the statements changes rows.
    pub fn writes(self) -> bool {
        matches!(self, Self::ReadWrite(_) | Self::Transactions(_))
    }

    /// True if the workload says something about systems without a hold, too.
    pub(crate) fn is_for_all(self) -> bool {
        self != Self::States(Hold::None)
    }

    /// What each of so many connections does.
    pub fn script(self, connections: usize) -> Script {
        match self {
            Self::PointSelect(protocol) | Self::Sysbench(protocol) => {
                Script::of(oltp::point_select(protocol))
            }
            Self::ReadOnly(protocol) => oltp::read_only(protocol),
            // Those of the transactions are sysbench's own.
            Self::ReadWrite(protocol) | Self::Transactions(protocol) => {
                oltp::read_write(protocol, connections)
            }
            Self::States(_) => {
                Script { set_up: states(connections), ..Script::of(oltp::point_select(Protocol::Text)) }
            }
            Self::Rows1000 => Script::of(rows_1000()),
            Self::Result10Mb => Script::of(result_10mb()),
            Self::Connect | Self::Idle10000 => Script::of(oltp::point_select(Protocol::Text)),
        }
    }
}

/// A state of its own for each connection; what is set changes nothing about the statements.
fn states(connections: usize) -> Vec<String> {
    let state = |number: usize| format!("SET SESSION group_concat_max_len = {}", 2_048 + number);
    (0..connections).map(state).collect()
}

fn rows_1000() -> Statement {
    let sql = |number: i64| {
        let first = number % (TABLE_ROWS - 999) + 1;
        format!("SELECT id, k, c, pad FROM sbtest1 WHERE id BETWEEN {first} AND {}", first + 999)
    };
    Statement::text(Pick::Any, Expected::rows(1000..=1000), (0..VARIANTS).map(sql))
}

fn result_10mb() -> Statement {
    let rows = BIG_ROWS.cast_unsigned();
    let sql = "SELECT payload FROM bench_big".to_owned();
    Statement::text(Pick::Any, Expected::rows(rows..=rows), [sql])
}

/// A statement in either protocol: `?` stands for each parameter.
fn statement(
    protocol: Protocol,
    sql: &str,
    pick: Pick,
    expected: Expected,
    variants: Vec<Vec<Value>>,
) -> Statement {
    match protocol {
        Protocol::Prepared => Statement::prepared(sql, pick, expected, variants),
        Protocol::Text => {
            let texts = variants.iter().map(|values| with_values(sql, values));
            Statement::text(pick, expected, texts)
        }
    }
}

fn with_values(sql: &str, values: &[Value]) -> String {
    let mut values = values.iter();
    let mut text = String::with_capacity(sql.len() + 16);
    for part in sql.split_inclusive('?') {
        let (before, has_value) = part.strip_suffix('?').map_or((part, false), |before| (before, true));
        text.push_str(before);
        match values.next().filter(|_| has_value) {
            Some(Value::Int(number)) => text.push_str(&number.to_string()),
            Some(Value::Text(string)) => text.extend(["'", string, "'"]),
            None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_chosen_by_name_or_prefix() {
        let chosen = |prefixes: &[&str]| {
            let prefixes: Vec<String> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
            Workload::chosen(&prefixes).map(|found| found.into_iter().map(Workload::name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap().len(), Workload::ALL.len());
        assert_eq!(
            chosen(&["connect", "point"]).unwrap(),
            ["point-select-text", "point-select-prepared", "connect"]
        );
        let error = chosen(&["point", "pint"]).unwrap_err().to_string();
        assert!(error.contains("\"pint\"") && error.contains("rows-1000"), "{error}");
    }

    #[test]
    fn values_are_put_where_the_question_marks_are() {
        let values = [Value::Int(-5), Value::Text("ab".to_owned())];
        assert_eq!(
            with_values("UPDATE t SET a=?, b=? WHERE 1", &values),
            "UPDATE t SET a=-5, b='ab' WHERE 1"
        );
        assert_eq!(with_values("SELECT 1", &[]), "SELECT 1");
    }
}
