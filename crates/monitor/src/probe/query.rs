//! Runs a query by the text protocol and collects its rows, which are few.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html>

use std::borrow::Cow;

use delphinus_net::{NetError, PacketIo};
use delphinus_wire::command::Code;
use delphinus_wire::response::{EOF, ERR, ErrPacket, LOCAL_INFILE, OK};
use delphinus_wire::{Capabilities, Reader, put_packet};

use super::connection::Connection;
use super::error::ProbeError;

/// The values of a row; `None` is NULL.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// Longest packet that is accepted, in bytes: whoever sends more is not a server that was asked this. Sets of GTIDs with
/// many sources and gaps are long.
const LONGEST: usize = 4 * 1024 * 1024;

/// Longest answer that is kept, in bytes: 20,000 collations have 2 MB.
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

/// Longest answer whose rows are looked at one by one: all routines, triggers and views of a server.
const LONGEST_LIST: usize = 1024 * 1024 * 1024;

/// What a row takes beside its bytes.
const OVERHEAD: usize = 64;

/// Most columns that are accepted. The status of a replica has about 60.
const MOST_COLUMNS: u64 = 256;

/// Rows and the names of their columns, which differ from version to version; as they came, since few of many are wanted.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// One behind the other, and where each ends.
    names: Vec<u8>,
    ends: Vec<usize>,
    rows: Vec<Vec<u8>>,
}

impl Named {
    /// Values by the names of their columns.
    pub(crate) fn rows(&self) -> impl Iterator<Item = NamedRow<'_>> {
        self.rows.iter().map(|payload| NamedRow { named: self, payload })
    }

    fn position(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).position(|(start, end)| is_it(&self.names[start..*end]))
    }
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedRow<'a> {
    named: &'a Named,
    payload: &'a [u8],
}

impl<'a> NamedRow<'a> {
    /// All that are not NULL, by the names of their columns in small letters.
    pub(crate) fn cells(self) -> impl Iterator<Item = (String, String)> + 'a {
        let named = self.named;
        let starts = std::iter::once(0).chain(named.ends.iter().copied());
        let mut reader = Reader::new(self.payload);
        starts.zip(&named.ends).filter_map(move |(start, end)| {
            let value = reader.text_value().ok()??;
            let name = String::from_utf8_lossy(&named.names[start..*end]).to_ascii_lowercase();
            Some((name, String::from_utf8_lossy(value).into_owned()))
        })
    }

    /// The text in the first column that `is_it`; `None` if there is none, or it is NULL.
    pub(crate) fn text(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<Cow<'a, str>> {
        let at = self.named.position(is_it)?;
        let mut reader = Reader::new(self.payload);
        for _ in 0..at {
            reader.text_value().ok()?;
        }
        reader.text_value().ok().flatten().map(String::from_utf8_lossy)
    }
}

/// Runs `sql`. More rows than `most_rows` are an error.
pub(crate) async fn query(
    connection: &mut Connection,
    sql: &str,
    most_rows: usize,
) -> Result<Vec<Row>, ProbeError> {
    send(connection, &[sql]).await?;
    receive(connection, most_rows).await
}

/// Sends statements in one piece; each one's answer has to be received. Servers take one after the other from what has
/// arrived, and a round trip is most of what a probe costs.
pub(crate) async fn send(connection: &mut Connection, statements: &[&str]) -> Result<(), ProbeError> {
    let mut bytes = Vec::new();
    for sql in statements {
        let mut command = vec![Code::Query as u8];
        command.extend_from_slice(sql.as_bytes());
        put_packet(&mut bytes, 0, &command);
    }
    let mut io = connection.packets();
    Ok(io.stream().write_bytes(&bytes).await.map_err(NetError::from)?)
}

/// The same; shows one row after the other, since there may be many long ones.
pub(crate) async fn query_each(
    connection: &mut Connection,
    sql: &str,
    most_rows: usize,
    mut see: impl FnMut(&[Option<&[u8]>]),
) -> Result<(), ProbeError> {
    send(connection, &[sql]).await?;
    let see_row = |payload: &[u8], columns: usize| {
        let mut reader = Reader::new(payload);
        let row = (0..columns).map(|_| reader.text_value()).collect::<Result<Vec<_>, _>>()?;
        see(&row);
        Ok(())
    };
    read_answer(connection, (most_rows, LONGEST_LIST), |_| Ok(()), see_row).await
}

/// The rows of a statement that was sent.
pub(crate) async fn receive(connection: &mut Connection, most_rows: usize) -> Result<Vec<Row>, ProbeError> {
    let mut rows = Vec::new();
    let see_row = |payload: &[u8], columns: usize| {
        let mut reader = Reader::new(payload);
        let value = |_| reader.text_value().map(|value| value.map(<[u8]>::to_vec));
        rows.push((0..columns).map(value).collect::<Result<Row, _>>()?);
        Ok(())
    };
    read_answer(connection, (most_rows, LONGEST_ANSWER), |_| Ok(()), see_row).await?;
    Ok(rows)
}

/// The same with the names of the columns.
pub(crate) async fn receive_named(
    connection: &mut Connection,
    most_rows: usize,
) -> Result<Named, ProbeError> {
    let Named { mut names, mut ends, mut rows } = Named::default();
    let see_column = |definition: &[u8]| {
        names.extend_from_slice(name_of(definition)?);
        ends.push(names.len());
        Ok(())
    };
    let see_row = |payload: &[u8], _| {
        rows.push(payload.to_vec());
        Ok(())
    };
    read_answer(connection, (most_rows, LONGEST_ANSWER), see_column, see_row).await?;
    Ok(Named { names, ends, rows })
}

/// Runs a statement that gives no rows.
pub(crate) async fn execute(connection: &mut Connection, sql: &str) -> Result<(), ProbeError> {
    send(connection, &[sql]).await?;
    receive_done(connection).await
}

/// The end of a statement that was sent and gives no rows.
pub(crate) async fn receive_done(connection: &mut Connection) -> Result<(), ProbeError> {
    let mut io = connection.packets();
    match read(&mut io).await?.first() {
        Some(&OK) => Ok(()),
        _ => Err(ProbeError::Nonsense("rows where none were asked for")),
    }
}

/// Shows each column's definition, then each row with the number of its columns.
async fn read_answer(
    connection: &mut Connection,
    (most_rows, most_bytes): (usize, usize),
    mut see_column: impl FnMut(&[u8]) -> Result<(), ProbeError>,
    mut see_row: impl FnMut(&[u8], usize) -> Result<(), ProbeError>,
) -> Result<(), ProbeError> {
    let ends_without_eof = connection.agreed().contains(Capabilities::DEPRECATE_EOF);
    let mut io = connection.packets();
    let columns = read_column_count(&mut io).await?;
    let mut payload = Vec::new();
    for _ in 0..columns {
        read_into(&mut io, &mut payload).await?;
        see_column(&payload)?;
    }
    if !ends_without_eof && !is_eof(&read(&mut io).await?) {
        return Err(ProbeError::Nonsense("no end of the column definitions"));
    }
    let mut left = most_bytes;
    for number in 0.. {
        read_into(&mut io, &mut payload).await?;
        if is_eof(&payload) {
            break;
        }
        if number == most_rows {
            return Err(ProbeError::Nonsense("too many rows"));
        }
        left = left
            .checked_sub(payload.len() + OVERHEAD * columns)
            .ok_or(ProbeError::Nonsense("too many bytes in rows"))?;
        see_row(&payload, columns)?;
    }
    Ok(())
}

/// Catalogue, schema, table and its original name come first.
fn name_of(definition: &[u8]) -> Result<&[u8], ProbeError> {
    let mut reader = Reader::new(definition);
    for _ in 0..4 {
        reader.lenenc_bytes()?;
    }
    Ok(reader.lenenc_bytes()?)
}

async fn read_column_count(io: &mut PacketIo<'_>) -> Result<usize, ProbeError> {
    let first = read(io).await?;
    if matches!(first.first(), Some(&OK | &LOCAL_INFILE) | None) {
        return Err(ProbeError::Nonsense("no result set"));
    }
    match Reader::new(&first).lenenc_int()? {
        count @ 1..=MOST_COLUMNS => Ok(count as usize),
        _ => Err(ProbeError::Nonsense("too many columns")),
    }
}

/// True for both kinds of last packet. A row that starts with 0xFE has a value of 16 MiB, which is not read here.
fn is_eof(payload: &[u8]) -> bool {
    payload.first() == Some(&EOF)
}

/// Reads a packet; an ERR is an error wherever it comes.
async fn read(io: &mut PacketIo<'_>) -> Result<Vec<u8>, ProbeError> {
    let mut payload = Vec::new();
    read_into(io, &mut payload).await?;
    Ok(payload)
}

async fn read_into(io: &mut PacketIo<'_>, payload: &mut Vec<u8>) -> Result<(), ProbeError> {
    io.read_into(LONGEST, payload).await?;
    match payload.first() {
        Some(&ERR) => Err(ProbeError::Answer(ErrPacket::parse(payload)?)),
        _ => Ok(()),
    }
}
