//! Finds where a response ends and what it changed, while its bytes pass through: packet headers are walked in
//! the buffer, rows are never copied or parsed.
//!
//! What ends a response depends on what was asked, and never on a flag alone: servers leave flags of one result in the
//! packets of the next. docs/protocol-notes.md ("Where a response ends") has each rule; `e2e/tests/responses.rs` checks
//! them against real answers.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>

mod response;

use delphinus_wire::response::{self as packets, EofPacket, ErrPacket, OkPacket, PeerAge, PrepareOk, Status};
use delphinus_wire::{Capabilities, HEADER_LEN, Malformed, error_code, parse_header};

pub use response::{Ages, Changed, Earlier, OfServer, Response};

/// What kind of answer a command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// OK, ERR, or result sets: COM_QUERY, COM_STMT_EXECUTE.
    Results,
    /// The same, and columns whose rows stay at the server: COM_STMT_EXECUTE that asks for a cursor.
    Cursor,
    /// Definitions of parameters and columns; the id in the first packet is replaced by the given one.
    Prepared(u32),
    /// Rows without columns before them: COM_STMT_FETCH, COM_FIELD_LIST.
    Rows,
    /// One packet: OK, EOF or ERR.
    Single,
    /// One packet of text: COM_STATISTICS.
    Text,
}

/// The kinds of cursors, in the flags of a COM_STMT_EXECUTE.
const CURSOR_FLAGS: u8 = 0x07;

impl Shape {
    /// The answer to a COM_STMT_EXECUTE with these flags.
    #[inline]
    pub fn of_execution(flags: u8) -> Self {
        if flags & CURSOR_FLAGS == 0 { Self::Results } else { Self::Cursor }
    }
}

/// How far `advance` came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The first `n` bytes can go to the client; more is to come.
    More(usize),
    /// The first `n` bytes can go to the client; they end the response.
    Done(usize),
    /// The first `n` bytes can go to the client; they end a result, and another one follows. Only for clients that
    /// compress: packets are numbered anew there.
    ResultEnd(usize),
    /// The first `n` bytes can go to the client; then comes an OK packet of `len` bytes (header included)
    /// that has to be written anew for this client. `advance` goes on after it.
    Rewrite(usize, usize),
    /// The first `n` bytes can go to the client, and the `len` after them: the last packet of the response, out of
    /// which something was taken. What follows in the buffer is to be dropped.
    Shortened(usize, usize),
    /// The first `n` bytes can go to the client, which then sends a file.
    LocalInfile(usize),
}

impl Progress {
    /// The same when the first bytes have been taken away.
    #[must_use]
    pub fn behind(self, taken: usize) -> Self {
        match self {
            Self::More(n) => Self::More(n - taken),
            Self::Done(n) => Self::Done(n - taken),
            Self::ResultEnd(n) => Self::ResultEnd(n - taken),
            Self::Rewrite(n, len) => Self::Rewrite(n - taken, len),
            Self::Shortened(n, len) => Self::Shortened(n - taken, len),
            Self::LocalInfile(n) => Self::LocalInfile(n - taken),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    First,
    Columns(u64),
    ColumnsEof,
    Rows,
    Params(u16, u16),
    ParamsEof(u16),
    Definitions(u16),
    DefinitionsEof,
    Done,
}

/// The state of one response.
#[derive(Debug)]
pub struct ResponseTracker {
    shape: Shape,
    phase: Phase,
    /// Bytes of a packet already recognised that have not passed yet.
    skip: usize,
    /// The packet that passes is continued by the next one.
    continued: bool,
    /// The rows are a procedure's OUT parameters.
    has_out_params: bool,
    /// The sequence id of the last packet recognised.
    seq: u8,
    backend: Capabilities,
    client: Capabilities,
    ages: Ages,
    response: Response,
}

/// The number of what looks like an error and is MariaDB's report of how far a statement has come.
const PROGRESS: u16 = 0xffff;

/// The longest packet held back until it is whole: OK, ERR and EOF.
const MAX_HELD: usize = 1 << 20;

/// Rows and definitions of columns that are not longer than this pass whole, so that an error can follow what has passed if
/// the rest never comes. Longer ones pass as they come.
const MAX_HELD_ROW: usize = 16 * 1024;

/// What a packet means for the response.
enum Meaning {
    /// Passes, whole or in parts.
    Pass,
    /// Passes and ends the response.
    End,
    /// Passes and ends a result, which the client has to see.
    EndOfResult,
    /// An OK packet that this client must see in another form; true if it ends the response.
    Rewrite,
    /// An OK packet of which this client must not see the changes.
    Strip,
    /// A request for a file.
    File,
}

impl ResponseTracker {
    /// For a response of `shape` on a connection with `backend`'s capabilities, for a client with its own.
    #[inline]
    pub fn new(shape: Shape, backend: Capabilities, client: Capabilities) -> Self {
        let phase = if shape == Shape::Rows { Phase::Rows } else { Phase::First };
        let response = Response::default();
        Self {
            shape,
            phase,
            skip: 0,
            continued: false,
            has_out_params: false,
            seq: 0,
            backend,
            client,
            ages: Ages::Hidden,
            response,
        }
    }

    /// Whether the client is told ages.
    #[inline]
    pub fn tell_ages(&mut self, ages: Ages) {
        self.ages = ages;
    }

    /// The sequence id of an error in the place of what is missing, if everything recognised has passed; `None` in the
    /// middle of a packet, where nothing can follow.
    pub fn error_seq(&self) -> Option<u8> {
        (self.skip == 0 && !self.continued).then(|| self.seq.wrapping_add(1))
    }

    /// True if an error can stand here, and the client knows what follows: in the place of a row, or of a result.
    pub fn takes_error(&self) -> bool {
        self.error_seq().is_some() && matches!(self.phase, Phase::Rows | Phase::First)
    }

    /// After how many bytes an error can stand in the place of the next row, and its sequence id.
    pub fn next_place_for_error(&self) -> Option<(usize, u8)> {
        let is_there = !self.continued && matches!(self.phase, Phase::Rows | Phase::First);
        is_there.then(|| (self.skip, self.seq.wrapping_add(1)))
    }

    /// What follows is numbered behind this sequence id: that of the last packet of the command, or of a file that the client
    /// has sent.
    pub fn follow(&mut self, seq: u8) {
        self.seq = seq;
    }

    /// What has been learnt so far; complete once `advance` has returned `Done`.
    pub fn response(&self) -> &Response {
        &self.response
    }

    /// The proxy has ended the statement, and tells its client so by this error: in the place of the server's, if that came.
    pub fn was_ended(&mut self, code: u16) {
        if self.response.error == Some(error_code::ER_QUERY_INTERRUPTED) {
            self.response.error = Some(code);
        }
    }

    /// Takes what has been learnt.
    pub fn into_response(self) -> Response {
        self.response
    }

    /// How many bytes of a packet that has begun to pass are still to come.
    pub fn outstanding(&self) -> usize {
        self.skip
    }

    /// True at the end.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Looks at the bytes that follow those already passed. The ids of prepared statements are replaced in
    /// place.
    pub fn advance(&mut self, bytes: &mut [u8]) -> Result<Progress, Malformed> {
        let mut at = 0;
        loop {
            if self.skip > 0 {
                let n = self.skip.min(bytes.len() - at);
                self.skip -= n;
                at += n;
                if self.skip > 0 {
                    return Ok(Progress::More(at));
                }
            }
            if self.phase == Phase::Rows && !self.continued {
                at = self.pass_rows(bytes, at);
            }
            let Some(frame) = parse_header(&bytes[at..]) else { return Ok(Progress::More(at)) };
            if self.continued {
                self.continued = frame.is_continued();
                self.seq = frame.seq;
                self.skip = HEADER_LEN + frame.len;
                continue;
            }
            let available = bytes.len() - at - HEADER_LEN;
            if available == 0 {
                return Ok(Progress::More(at));
            }
            let whole = available >= frame.len;
            if !whole && self.needs_whole(frame.len, bytes[at + HEADER_LEN])? {
                return Ok(Progress::More(at));
            }
            let end = (at + HEADER_LEN + frame.len).min(bytes.len());
            let total = HEADER_LEN + frame.len;
            let meaning = self.packet(frame.len, &mut bytes[at + HEADER_LEN..end])?;
            self.seq = frame.seq;
            match meaning {
                Meaning::Pass if whole => {
                    at = end;
                    self.continued = frame.is_continued();
                }
                Meaning::Pass => {
                    self.skip = total;
                    self.continued = frame.is_continued();
                }
                Meaning::End => return Ok(Progress::Done(at + total)),
                Meaning::EndOfResult => return Ok(Progress::ResultEnd(at + total)),
                Meaning::Strip if self.is_done() && end == bytes.len() => {
                    let kept = OkPacket::strip_changes(&mut bytes[at + HEADER_LEN..end])?;
                    bytes[at..at + HEADER_LEN].copy_from_slice(&delphinus_wire::header(kept, frame.seq));
                    return Ok(Progress::Shortened(at, HEADER_LEN + kept));
                }
                Meaning::Rewrite | Meaning::Strip => return Ok(Progress::Rewrite(at, total)),
                Meaning::File => return Ok(Progress::LocalInfile(at + total)),
            }
        }
    }

    /// Passes whole rows as long as there are any: the loop that large results spend their time in.
    #[inline]
    fn pass_rows(&mut self, bytes: &[u8], mut at: usize) -> usize {
        let mut last = None;
        while let Some(&[a, b, c, seq, first]) = bytes[at..].first_chunk::<5>() {
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            if first >= packets::EOF
                || len == delphinus_wire::MAX_PAYLOAD
                || bytes.len() - at < HEADER_LEN + len
            {
                break;
            }
            self.response.rows += 1;
            at += HEADER_LEN + len;
            last = Some(seq);
        }
        self.seq = last.unwrap_or(self.seq);
        at
    }

    /// True if a packet may not be recognised before all of it is there.
    fn needs_whole(&self, len: usize, first: u8) -> Result<bool, Malformed> {
        let held = match self.phase {
            Phase::Columns(_) => len <= MAX_HELD_ROW || first == packets::ERR,
            Phase::Rows => len <= MAX_HELD_ROW || first == packets::ERR || self.ends_rows(len, first),
            // First packets, and the ends of lists. Definitions of a prepared statement are small, and the last one may end the response.
            _ => true,
        };
        if held && len > MAX_HELD {
            return Err(Malformed("control packet too large"));
        }
        Ok(held)
    }

    fn ends_rows(&self, len: usize, first: u8) -> bool {
        // A row may start with 0xFE too: the length prefix of a value of 16 MiB and more.
        let limit = if self.deprecate_eof() { delphinus_wire::MAX_PAYLOAD } else { 9 };
        first == packets::EOF && len < limit
    }

    fn deprecate_eof(&self) -> bool {
        self.backend.contains(Capabilities::DEPRECATE_EOF)
    }

    fn packet(&mut self, len: usize, payload: &mut [u8]) -> Result<Meaning, Malformed> {
        if len == 0 {
            return Err(Malformed("empty packet in a response"));
        }
        let first = payload[0];
        match self.phase {
            Phase::Done => Err(Malformed("bytes after the end of a response")),
            // No definition and no row begins like that: an error may stand in the place of any packet.
            _ if first == packets::ERR => self.error(payload),
            Phase::First => self.first(payload),
            Phase::Columns(left) => {
                self.phase = match left {
                    1 if self.deprecate_eof() => Phase::Rows,
                    1 => Phase::ColumnsEof,
                    _ => Phase::Columns(left - 1),
                };
                Ok(Meaning::Pass)
            }
            Phase::ColumnsEof => self.end_of_columns(payload),
            Phase::Rows if self.ends_rows(len, first) => self.end_of_rows(len, payload),
            Phase::Rows => {
                self.response.rows += 1;
                Ok(Meaning::Pass)
            }
            Phase::Params(..) | Phase::ParamsEof(_) | Phase::Definitions(_) | Phase::DefinitionsEof => {
                Ok(self.definition())
            }
        }
    }

    /// What follows the columns where EOF packets are not deprecated.
    fn end_of_columns(&mut self, payload: &[u8]) -> Result<Meaning, Malformed> {
        if self.shape == Shape::Cursor && payload[0] != packets::EOF {
            // MariaDB begins ANALYZE of a SELECT with the SELECT's columns, and thinks better of it.
            return self.columns(payload);
        }
        let eof = EofPacket::parse(payload)?;
        self.phase = Phase::Rows;
        if self.has_opened_cursor(eof.status) {
            return Ok(self.eof(eof));
        }
        self.has_out_params = eof.status.contains(Status::PS_OUT_PARAMS);
        Ok(Meaning::Pass)
    }

    /// True if a result with this status is one whose rows stay at the server. A procedure's results may have the flag of a
    /// cursor of its own, and say that more results follow, as no cursor does that a client has asked for.
    fn has_opened_cursor(&self, status: Status) -> bool {
        self.shape == Shape::Cursor
            && status.contains(Status::CURSOR_EXISTS)
            && !status.contains(Status::MORE_RESULTS)
    }

    fn first(&mut self, payload: &mut [u8]) -> Result<Meaning, Malformed> {
        match (self.shape, payload[0]) {
            (Shape::Text, _) => Ok(self.end()),
            (Shape::Prepared(id), packets::OK) => self.prepared(id, payload),
            (Shape::Single, packets::EOF) => self.end_of_rows(payload.len(), payload),
            (Shape::Single | Shape::Results | Shape::Cursor, packets::OK | packets::EOF) => self.ok(payload),
            (Shape::Results | Shape::Cursor, packets::LOCAL_INFILE) => self.file(),
            (Shape::Results | Shape::Cursor, _) => self.columns(payload),
            _ => Err(Malformed("unexpected first packet")),
        }
    }

    fn file(&self) -> Result<Meaning, Malformed> {
        if !self.client.contains(Capabilities::LOCAL_FILES) {
            return Err(Malformed("the server asks for a file, and the client has agreed to send none"));
        }
        Ok(Meaning::File)
    }

    /// The number of columns: a result set begins.
    fn columns(&mut self, payload: &[u8]) -> Result<Meaning, Malformed> {
        let columns = delphinus_wire::Reader::new(payload).lenenc_int()?;
        if columns == 0 {
            // One byte of zero is OK; a longer zero is a backend's nonsense.
            return Err(Malformed("a result set without columns"));
        }
        self.response.begin_result_set();
        self.phase = Phase::Columns(columns);
        Ok(Meaning::Pass)
    }

    fn prepared(&mut self, id: u32, payload: &mut [u8]) -> Result<Meaning, Malformed> {
        let Some(ok) = PrepareOk::parse(payload)? else {
            // Its status is not the session's: it is 0 in a transaction, too.
            return Ok(self.end());
        };
        payload[delphinus_wire::command::STMT_ID_AT].copy_from_slice(&id.to_le_bytes());
        self.response.prepared = Some(Box::new(ok));
        self.response.warnings = ok.warnings;
        self.phase = match (ok.params, ok.columns) {
            (0, 0) => return Ok(self.end()),
            (0, columns) => Phase::Definitions(columns),
            (params, columns) => Phase::Params(params, columns),
        };
        Ok(Meaning::Pass)
    }

    /// One definition of a parameter or column of a prepared statement, or the EOF after a list of them.
    fn definition(&mut self) -> Meaning {
        let eof = !self.deprecate_eof();
        self.phase = match self.phase {
            Phase::Params(1, columns) if eof => Phase::ParamsEof(columns),
            Phase::Params(1, 0) | Phase::ParamsEof(0) => return self.end(),
            Phase::Params(1, columns) | Phase::ParamsEof(columns) => Phase::Definitions(columns),
            Phase::Params(params, columns) => Phase::Params(params - 1, columns),
            Phase::Definitions(1) if eof => Phase::DefinitionsEof,
            Phase::Definitions(left) if left > 1 => Phase::Definitions(left - 1),
            _ => return self.end(),
        };
        Meaning::Pass
    }

    fn end_of_rows(&mut self, len: usize, payload: &mut [u8]) -> Result<Meaning, Malformed> {
        if !self.deprecate_eof() || len < 7 {
            return Ok(self.eof(EofPacket::parse(payload)?));
        }
        self.ok(payload)
    }

    fn ok(&mut self, payload: &mut [u8]) -> Result<Meaning, Malformed> {
        let ok = OkPacket::parse(payload, self.backend)?;
        let is_result_set = payload[0] == packets::EOF;
        self.response.see_ok(&ok, is_result_set);
        self.response.has_cursor = is_result_set && self.has_opened_cursor(ok.status);
        let meaning = self.end_result(ok.status);
        if !ok.changes.bytes().is_empty() {
            let is_for_proxy = ok.changes.is_statement_id() || self.response.age.is_some();
            if let Some(told) = self.response.age
                && self.ages != Ages::Hidden
                && self.is_done()
            {
                if told.is_current && self.ages == Ages::Told {
                    PeerAge::forget_current(payload);
                }
                return Ok(meaning);
            }
            let is_told = self.client.contains(Capabilities::SESSION_TRACK) && !is_for_proxy;
            return Ok(if is_told { Meaning::Rewrite } else { Meaning::Strip });
        }
        Ok(meaning)
    }

    fn eof(&mut self, eof: EofPacket) -> Meaning {
        self.response.see_eof(eof);
        self.response.has_cursor = self.has_opened_cursor(eof.status);
        self.end_result(eof.status)
    }

    fn end_result(&mut self, status: Status) -> Meaning {
        let has_several = matches!(self.shape, Shape::Results | Shape::Cursor);
        // MySQL says of OUT parameters in their first EOF alone that the CALL's own OK follows.
        let more = std::mem::take(&mut self.has_out_params) || status.contains(Status::MORE_RESULTS);
        let more = has_several && more;
        if !more {
            return self.end();
        }
        self.phase = Phase::First;
        self.between()
    }

    fn error(&mut self, payload: &[u8]) -> Result<Meaning, Malformed> {
        let error = ErrPacket::parse(payload)?;
        if error.code == PROGRESS && self.backend.contains(Capabilities::MARIADB_PROGRESS) {
            return Ok(self.between());
        }
        self.response.see_error(&error);
        Ok(self.end())
    }

    /// Where a server flushes what it has written, and more follows.
    fn between(&self) -> Meaning {
        let compresses = self.client.contains(Capabilities::COMPRESS)
            || self.client.contains(Capabilities::ZSTD_COMPRESSION);
        if compresses { Meaning::EndOfResult } else { Meaning::Pass }
    }

    fn end(&mut self) -> Meaning {
        self.phase = Phase::Done;
        Meaning::End
    }
}

#[cfg(test)]
mod tests;
