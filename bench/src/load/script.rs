//! What every connection does over and over: statements with many variants, encoded before the load begins.

use std::ops::RangeInclusive;

use delphinus_wire::command::Code;
use delphinus_wire::{Put, put_packet};

use super::finder::Answer;

/// Where the statement's id stands in an encoded COM_STMT_EXECUTE: behind header and command.
const STATEMENT_ID_AT: usize = 5;

/// A parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// BIGINT.
    Int(i64),
    /// A string.
    Text(String),
}

/// Which variant of a statement a connection takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// Any, anew each time.
    Any,
    /// One of its own, the same for a whole round of the script: connections never write the same rows, and what one
    /// statement deletes the next inserts.
    Own,
    /// The next of those that no other connection takes, once: a connection ends when it has asked for all of its own.
    Once,
}

/// What a right answer has; anything else is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Rows of the result.
    pub rows: RangeInclusive<u64>,
    /// Rows changed.
    pub affected_rows: RangeInclusive<u64>,
}

impl Expected {
    /// A result of so many rows.
    pub fn rows(rows: RangeInclusive<u64>) -> Self {
        Self { rows, affected_rows: 0..=0 }
    }

    /// So many changed rows and no result.
    pub fn affected(affected_rows: RangeInclusive<u64>) -> Self {
        Self { rows: 0..=0, affected_rows }
    }

    /// True if the answer is a right one.
    pub fn is_met_by(&self, answer: Answer) -> bool {
        self.rows.contains(&answer.rows) && self.affected_rows.contains(&answer.affected_rows)
    }
}

/// Packets of one kind, end to end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Packets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packets {
    fn push(&mut self, payload: &[u8]) {
        put_packet(&mut self.bytes, 0, payload);
        self.ends.push(self.bytes.len());
    }

    fn at(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }
}

/// One statement of a script.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The text to prepare; `None` for the text protocol.
    pub prepare: Option<String>,
    /// Which variant is taken.
    pub pick: Pick,
    /// What a right answer has.
    pub expected: Expected,
    packets: Packets,
    /// Executions after the first of a connection: the types of the parameters are not sent again.
    typeless: Packets,
}

impl Statement {
    /// A statement in the text protocol, with these variants.
    pub fn text(pick: Pick, expected: Expected, variants: impl IntoIterator<Item = String>) -> Self {
        let mut packets = Packets::default();
        for sql in variants {
            packets.push(&[&[Code::Query as u8], sql.as_bytes()].concat());
        }
        Self { prepare: None, pick, expected, packets, typeless: Packets::default() }
    }

    /// A prepared statement, with the parameters of each variant.
    pub fn prepared(
        sql: &str,
        pick: Pick,
        expected: Expected,
        variants: impl IntoIterator<Item = Vec<Value>>,
    ) -> Self {
        let (mut packets, mut typeless) = (Packets::default(), Packets::default());
        for values in variants {
            packets.push(&execution(&values, true));
            typeless.push(&execution(&values, false));
        }
        Self { prepare: Some(sql.to_owned()), pick, expected, packets, typeless }
    }

    /// How many variants there are.
    pub fn variants(&self) -> usize {
        self.packets.ends.len()
    }

    /// Writes the packet of a variant into `out`; of a prepared statement with its id on this connection, and with the
    /// types of the parameters if they were not sent yet.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>, variant: usize, prepared: Option<(u32, bool)>) {
        out.clear();
        match prepared {
            None => out.extend_from_slice(self.packets.at(variant)),
            Some((id, is_bound)) => {
                let packets = if is_bound { &self.typeless } else { &self.packets };
                out.extend_from_slice(packets.at(variant));
                out[STATEMENT_ID_AT..STATEMENT_ID_AT + 4].copy_from_slice(&id.to_le_bytes());
            }
        }
    }
}

/// A COM_STMT_EXECUTE for the statement 0.
fn execution(values: &[Value], with_types: bool) -> Vec<u8> {
    let mut payload = vec![Code::StmtExecute as u8];
    payload.put_u32(0);
    payload.put_u8(0);
    payload.put_u32(1);
    if values.is_empty() {
        return payload;
    }
    payload.extend(std::iter::repeat_n(0, values.len().div_ceil(8)));
    payload.put_u8(u8::from(with_types));
    if with_types {
        for value in values {
            let code = if matches!(value, Value::Int(_)) { 8 } else { 253 };
            payload.extend_from_slice(&[code, 0]);
        }
    }
    for value in values {
        match value {
            Value::Int(number) => payload.extend_from_slice(&number.to_le_bytes()),
            Value::Text(text) => payload.put_lenenc_bytes(text.as_bytes()),
        }
    }
    payload
}

/// Statements, and their order in one round.
#[derive(Debug, Clone)]
pub struct Script {
    /// The statements.
    pub statements: Vec<Statement>,
    /// One round: indices into `statements`.
    pub steps: Vec<usize>,
    /// What each connection runs before the load begins, by its place; nothing, if there is none.
    pub set_up: Vec<String>,
}

impl Script {
    /// One statement, again and again.
    pub fn of(statement: Statement) -> Self {
        Self { statements: vec![statement], steps: vec![0], set_up: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Statement {
        let variants = [7, 8].map(|id| vec![Value::Int(id), Value::Text("ab".to_owned())]);
        Statement::prepared("SELECT ?, ?", Pick::Any, Expected::rows(1..=1), variants)
    }

    #[test]
    fn a_text_is_a_query_packet() {
        let statement =
            Statement::text(Pick::Any, Expected::rows(1..=1), ["DO 1".to_owned(), "DO 10".to_owned()]);
        let mut out = vec![9];
        statement.put(&mut out, 0, None);
        assert_eq!(out, b"\x05\0\0\0\x03DO 1");
        statement.put(&mut out, 1, None);
        assert_eq!(out, b"\x06\0\0\0\x03DO 10");
        assert_eq!(statement.variants(), 2);
    }

    #[test]
    fn an_execution_has_the_id_and_the_types_once() {
        let mut out = Vec::new();
        point().put(&mut out, 1, Some((0x0102_0304, false)));
        let values = [8, 0, 0, 0, 0, 0, 0, 0, 2, b'a', b'b'];
        let head = [0x17, 4, 3, 2, 1, 0, 1, 0, 0, 0, 0];
        assert_eq!(out[4..], [&head[..], &[1, 8, 0, 253, 0], &values].concat());
        point().put(&mut out, 1, Some((0x0102_0304, true)));
        assert_eq!(out[4..], [&head[..], &[0], &values].concat());
    }

    #[test]
    fn only_what_is_expected_is_right() {
        let answer = |rows, affected_rows| Answer { rows, affected_rows };
        let expected = Expected::rows(1..=2);
        assert!(expected.is_met_by(answer(2, 0)));
        assert!(!expected.is_met_by(answer(3, 0)));
        assert!(!expected.is_met_by(answer(0, 0)));
        assert!(!Expected::affected(1..=1).is_met_by(answer(0, 0)));
        assert!(Expected::affected(1..=1).is_met_by(answer(0, 1)));
    }
}
