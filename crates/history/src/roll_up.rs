//! How many rows become few: those of a span are added up by what they have in common; the largest sums have a row each, and all others
//! are in rows of the rest, by what the sessions did and waited for. So totals agree.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::{Result, params, params_from_iter, types::Value};

use crate::database::Database;
use crate::series::Kind;

/// How much there is of something.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    samples: i64,
    longest_us: i64,
}

/// The sum of rows that are alike.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    is_rest: bool,
    /// User, cluster, schema, state, class, backend: as `Kind::named` of what it goes into.
    names: [Option<String>; 6],
    digest: Option<i64>,
    text: Option<String>,
    amount: Amount,
}

/// Adds up the rows of a span. What is in more than `most` groups is in the rest.
pub(crate) fn add_up(from: &Database, kind: Kind, span: &Range<i64>, most: usize) -> Result<Vec<Sum>> {
    let Kind { weight, longest, is_rest, .. } = kind;
    let sql = format!(
        "SELECT user, cluster, schema, state, class, backend, digest, {is_rest}, sum({weight}), max({longest}) FROM rows \
         WHERE moment >= ? AND moment < ? GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 9 DESC, 10 DESC, 7, 1"
    );
    let mut statement = from.connection.prepare(&sql)?;
    let mut rows = statement.query(params![span.start, span.end])?;
    let (mut sums, mut rest) = (Vec::new(), BTreeMap::<(Option<i64>, Option<i64>), Amount>::new());
    while let Some(row) = rows.next()? {
        let amount = Amount { samples: row.get(8)?, longest_us: row.get(9)? };
        if row.get(7)? || sums.len() >= most {
            let sum = rest.entry((row.get(3)?, row.get(4)?)).or_default();
            sum.samples += amount.samples;
            sum.longest_us = sum.longest_us.max(amount.longest_us);
            continue;
        }
        let mut names = <[Option<String>; 6]>::default();
        for (at, name) in names.iter_mut().enumerate() {
            *name = from.name_of(row.get(at)?)?;
        }
        let digest: Option<i64> = row.get(6)?;
        let text = digest.map(|digest| from.text_of(digest.cast_unsigned())).transpose()?.flatten();
        sums.push(Sum { is_rest: false, names, digest, text, amount });
    }
    for ((state, class), amount) in rest {
        let names = [None, None, None, from.name_of(state)?, from.name_of(class)?, None];
        sums.push(Sum { is_rest: true, names, amount, ..Sum::default() });
    }
    Ok(sums)
}

/// Puts the sums of a span in the place of what is there of it, under its beginning. The span is marked as added up.
pub(crate) fn write(into: &mut Database, span: &Range<i64>, sums: &[Sum]) -> Result<()> {
    into.in_transaction(|into| {
        for sql in [
            "DELETE FROM rows WHERE moment >= ? AND moment < ?",
            "DELETE FROM moments WHERE id >= ? AND id < ?",
        ] {
            into.connection.execute(sql, params![span.start, span.end])?;
        }
        if !sums.is_empty() {
            into.moment(span.start)?;
        }
        for (n, sum) in (0..).zip(sums) {
            write_one(into, (span.start, n), sum)?;
        }
        into.set_mark(span.end)
    })
}

fn write_one(into: &mut Database, (at, n): (i64, i64), sum: &Sum) -> Result<()> {
    if let (Some(digest), Some(text)) = (sum.digest, &sum.text) {
        into.text(digest.cast_unsigned(), || Some(text.as_str().into()))?;
    }
    let mut values: Vec<Value> =
        [at, n, sum.is_rest.into(), sum.amount.samples, sum.amount.longest_us].map(Value::from).into();
    values.push(sum.digest.into());
    for name in &sum.names {
        values.push(into.name(name.as_deref())?.into());
    }
    into.connection.execute(
        "INSERT INTO rows(moment, n, rest, samples, longest_us, digest, user, cluster, schema, state, class, backend) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params_from_iter(values),
    )?;
    Ok(())
}
