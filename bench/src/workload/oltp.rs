//! The statements of sysbench's oltp tests.

use crate::load::{Expected, Pick, Random, Script, Statement, Value};

use super::{Protocol, TABLE_ROWS, VARIANTS, statement};

/// Rows of a range.
const RANGE: i64 = 100;
/// Rows that each connection writes: no other connection writes them, so that nobody waits for a lock.
const OWN_ROWS: usize = 16;
/// Steps of the index into the statements: ten point selects and the ranges, one after the other.
const READS: [usize; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];

/// The table that has all its rows at any time (sysbench's transactions write there, and each puts back the row that it deletes),
/// and the one that read_write works on: what a load that failed has left undone there must not fail the others.
const READ_TABLE: &str = "sbtest1";
const WRITE_TABLE: &str = "sbtest2";

pub(super) fn point_select(protocol: Protocol) -> Statement {
    point_select_from(READ_TABLE, protocol, Expected::rows(1..=1))
}

fn point_select_from(table: &str, protocol: Protocol, expected: Expected) -> Statement {
    let mut random = Random::new(1);
    let variants = (0..VARIANTS).map(|_| vec![Value::Int(any(&mut random, TABLE_ROWS))]).collect();
    statement(protocol, &format!("SELECT c FROM {table} WHERE id=?"), Pick::Any, expected, variants)
}

pub(super) fn read_only(protocol: Protocol) -> Script {
    Script { statements: reads(READ_TABLE, protocol), steps: READS.to_vec(), set_up: Vec::new() }
}

pub(super) fn read_write(protocol: Protocol, connections: usize) -> Script {
    let mut statements = reads(WRITE_TABLE, protocol);
    let first = statements.len();
    statements.extend(writes(protocol, connections));
    let mut steps = READS.to_vec();
    steps.extend(first..statements.len());
    Script { statements, steps, set_up: Vec::new() }
}

/// A point select and the four ranges. Where others write, a row may be absent: between its DELETE and its INSERT.
fn reads(table: &str, protocol: Protocol) -> Vec<Statement> {
    let others_write = table == WRITE_TABLE;
    let least = |rows: u64| if others_write { 0..=rows } else { rows..=rows };
    let point = point_select_from(table, protocol, Expected::rows(least(1)));
    let mut random = Random::new(2);
    let mut range = |what: &str, order: &str, expected: Expected| {
        let sql = format!("SELECT {what} FROM {table} WHERE id BETWEEN ? AND ?{order}");
        let between = |_| {
            let first = any(&mut random, TABLE_ROWS - RANGE + 1);
            vec![Value::Int(first), Value::Int(first + RANGE - 1)]
        };
        statement(protocol, &sql, Pick::Any, expected, (0..VARIANTS).map(between).collect())
    };
    let hundred = || Expected::rows(least(RANGE.cast_unsigned()));
    vec![
        point,
        range("c", "", hundred()),
        range("SUM(k)", "", Expected::rows(1..=1)),
        range("c", " ORDER BY c", hundred()),
        range("DISTINCT c", " ORDER BY c", Expected::rows(0..=RANGE.cast_unsigned())),
    ]
}

/// An update of the index, one beside it, a deletion, and the same row again.
fn writes(protocol: Protocol, connections: usize) -> Vec<Statement> {
    let mut random = Random::new(3);
    let count = connections * OWN_ROWS;
    // Spread over the table, each a row of its own.
    let distance = TABLE_ROWS / i64::try_from(count).unwrap_or(TABLE_ROWS).max(1);
    let id = |index: usize| Value::Int(i64::try_from(index).unwrap_or_default() * distance.max(1) + 1);
    let mut write = |sql: &str, expected: Expected, rest: &[fn(&mut Random) -> Value], id_first: bool| {
        let values = |index| {
            let mut values: Vec<Value> = rest.iter().map(|value| value(&mut random)).collect();
            values.insert(if id_first { 0 } else { rest.len() }, id(index));
            values
        };
        statement(protocol, sql, Pick::Own, expected, (0..count).map(values).collect())
    };
    let number: fn(&mut Random) -> Value = |random| Value::Int(any(random, TABLE_ROWS));
    let long: fn(&mut Random) -> Value = |random| Value::Text(digits(random, 10));
    let short: fn(&mut Random) -> Value = |random| Value::Text(digits(random, 5));
    vec![
        write("UPDATE sbtest2 SET k=k+1 WHERE id=?", Expected::affected(0..=1), &[], true),
        // The same text again changes nothing, and a load that failed may have left the row away.
        write("UPDATE sbtest2 SET c=? WHERE id=?", Expected::affected(0..=1), &[long], false),
        write("DELETE FROM sbtest2 WHERE id=?", Expected::affected(0..=1), &[], true),
        write(
            "INSERT INTO sbtest2 (id, k, c, pad) VALUES (?, ?, ?, ?)",
            Expected::affected(1..=1),
            &[number, long, short],
            true,
        ),
    ]
}

/// A number from 1 to `most`.
fn any(random: &mut Random, most: i64) -> i64 {
    (random.next() % most.cast_unsigned()).cast_signed() + 1
}

/// Groups of eleven digits, as sysbench fills its columns.
pub(super) fn digits(random: &mut Random, groups: usize) -> String {
    let group = |_| format!("{:011}", random.next() % 100_000_000_000);
    (0..groups).map(group).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_the_statements_of_sysbench() {
        let script = read_write(Protocol::Text, 64);
        assert_eq!(script.steps.len(), 18);
        assert_eq!(script.steps.iter().filter(|step| **step == 0).count(), 10);
        assert!(script.steps.iter().all(|step| *step < script.statements.len()));
        assert!(script.statements.iter().all(|statement| statement.prepare.is_none()));
        assert_eq!(read_only(Protocol::Prepared).steps.len(), 14);
    }

    #[test]
    fn every_connection_writes_rows_of_its_own() {
        for connections in [1, 8, 64] {
            let script = read_write(Protocol::Prepared, connections);
            let writes = script.statements.iter().filter(|statement| statement.pick == Pick::Own);
            assert_eq!(writes.clone().count(), 4);
            assert!(writes.clone().all(|statement| statement.variants() == connections * OWN_ROWS));
        }
        assert!(i64::try_from(64 * OWN_ROWS).unwrap() < TABLE_ROWS);
    }

    #[test]
    fn columns_are_as_long_as_those_of_sysbench() {
        assert_eq!(digits(&mut Random::new(0), 10).len(), 119);
        assert_eq!(digits(&mut Random::new(0), 5).len(), 59);
    }
}
