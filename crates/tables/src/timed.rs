//! Functions of SQLite that take long on long values, made anew. SQLite asks whether time is up between functions, and not within one:
//! where its own need the product of two lengths, a few calls take minutes. These need the sum, or look at the clock.
//! Must not know tables and statements.

use std::borrow::Cow;
use std::time::Instant;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result, ffi};

use crate::bounds::{MAX_PATTERN_BYTES, MAX_VALUE_BYTES};
use crate::cell::Cell;
use crate::pattern::Pattern;

/// The value for arguments of which none is NULL; an error once time is up.
type Run = fn(&[Cow<'_, str>], Instant) -> Result<Cell>;

/// Their names, how many arguments they have, and what they do.
const FUNCTIONS: [(&str, i32, Run); 8] = [
    ("instr", 2, |texts, _| Ok(place(&texts[0], &texts[1]))),
    ("replace", 3, |texts, _| replaced(&texts[0], &texts[1], &texts[2])),
    ("trim", 2, |texts, _| Ok(texts[0].trim_matches(one_of(&texts[1])).into())),
    ("ltrim", 2, |texts, _| Ok(texts[0].trim_start_matches(one_of(&texts[1])).into())),
    ("rtrim", 2, |texts, _| Ok(texts[0].trim_end_matches(one_of(&texts[1])).into())),
    // The pattern comes first: `x LIKE y` is like(y, x).
    ("like", 2, |texts, end| fits(Pattern::like(short(&texts[0])?, None), texts, end)),
    ("like", 3, |texts, end| fits(Pattern::like(short(&texts[0])?, Some(single(&texts[2])?)), texts, end)),
    ("glob", 2, |texts, end| fits(Pattern::glob(short(&texts[0])?), texts, end)),
];

/// Puts them in the place of SQLite's, for what has to end by then.
pub(crate) fn register(database: &Connection, end: Instant) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, arguments, run) in FUNCTIONS {
        let call = move |context: &mut Context<'_>| -> Result<Cell> {
            in_time(end)?;
            let context: &Context<'_> = context;
            let texts: Option<Vec<_>> = (0..context.len()).map(|at| text(context.get_raw(at))).collect();
            texts.map_or(Ok(Cell::Null), |texts| run(&texts, end))
        };
        database.create_scalar_function(name, arguments, flags, call)?;
    }
    Ok(())
}

/// An error once time is up: the one by which SQLite itself ends a statement.
fn in_time(end: Instant) -> Result<()> {
    if Instant::now() > end { Err(failure(ffi::SQLITE_INTERRUPT, None)) } else { Ok(()) }
}

fn failure(code: i32, text: Option<&str>) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), text.map(str::to_owned))
}

/// A value as a text; `None` is NULL.
fn text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Integer(value) => value.to_string().into(),
        ValueRef::Real(value) => format!("{value:?}").into(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes),
    })
}

/// At which character the part begins, from 1 on; 0: it is not there.
fn place(text: &str, part: &str) -> Cell {
    let at = text.find(part).map_or(0, |at| text[..at].chars().count() + 1);
    Cell::Integer(i64::try_from(at).unwrap_or(i64::MAX))
}

fn replaced(text: &str, part: &str, by: &str) -> Result<Cell> {
    if part.is_empty() {
        return Ok(text.into());
    }
    // It is not made before it is known to have room.
    let longer = text.matches(part).count() * by.len().saturating_sub(part.len());
    if text.len() + longer > MAX_VALUE_BYTES {
        return Err(failure(ffi::SQLITE_TOOBIG, None));
    }
    Ok(text.replace(part, by).into())
}

/// True for the characters of a text.
fn one_of(text: &str) -> impl Fn(char) -> bool {
    let mut all: Vec<char> = text.chars().collect();
    all.sort_unstable();
    move |one| all.binary_search(&one).is_ok()
}

/// The character of ESCAPE.
fn single(text: &str) -> Result<char> {
    let mut chars = text.chars();
    let no_character = || failure(ffi::SQLITE_ERROR, Some("ESCAPE needs a single character"));
    chars.next().filter(|_| chars.next().is_none()).ok_or_else(no_character)
}

/// The pattern, if it is not too long.
fn short(pattern: &str) -> Result<&str> {
    let too_long = || failure(ffi::SQLITE_ERROR, Some("the pattern of LIKE or GLOB is too long"));
    (pattern.len() <= MAX_PATTERN_BYTES).then_some(pattern).ok_or_else(too_long)
}

/// Whether the second text fits the pattern, which was read from the first one; none: nothing does.
fn fits(pattern: Option<Pattern>, texts: &[Cow<'_, str>], end: Instant) -> Result<Cell> {
    let fits = pattern.map_or(Ok(false), |pattern| pattern.fits(&texts[1], || in_time(end)))?;
    Ok(Cell::Integer(fits.into()))
}
