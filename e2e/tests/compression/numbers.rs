//! A client with compression that looks at the numbers of frames and of the packets in them.

use std::collections::VecDeque;
use std::io::{Read, Write};

use delphinus_e2e::{Address, Client, Login, Wire};
use flate2::read::ZlibDecoder;

const COMPRESS: u32 = 1 << 5;
const LOCAL_FILES: u32 = 1 << 7;
const SESSION_TRACK: u32 = 1 << 23;
/// No EOF after columns, and an OK in its place after rows.
const DEPRECATE_EOF: u32 = 1 << 24;
const MORE_RESULTS: u8 = 8;

/// What a packet has: the number of the frame that it begins in, and its own.
pub(crate) type Numbers = (u8, u8);

/// The packets of each result of an answer.
pub(crate) type Results = Vec<Vec<Numbers>>;

struct Session {
    wire: Wire,
    /// Packets that end a list of columns.
    ends_of_columns: u16,
    /// The number that the next frame must have.
    frame: u8,
    /// What has been unpacked, and the number of the frame in which each byte was.
    unpacked: VecDeque<(u8, u8)>,
}

impl Session {
    fn begin(address: &Address, more_capabilities: u32) -> Self {
        let more_capabilities = more_capabilities | COMPRESS | LOCAL_FILES;
        let mut login = Login::new(address);
        (login.allows_multi_statements, login.more_capabilities) = (true, more_capabilities);
        let wire = Client::connect(&login).unwrap().into_wire();
        let ends_of_columns = u16::from(more_capabilities & DEPRECATE_EOF == 0);
        Self { wire, ends_of_columns, frame: 0, unpacked: VecDeque::new() }
    }

    /// Sends a command in this many frames.
    fn command(&mut self, payload: &[u8], frames: usize) {
        self.frame = 0;
        let packet = packet(payload, 0);
        for piece in packet.chunks(packet.len().div_ceil(frames)) {
            self.send(piece);
        }
    }

    fn send(&mut self, piece: &[u8]) {
        let mut frame = piece.len().to_le_bytes()[..3].to_vec();
        frame.extend([self.frame, 0, 0, 0]);
        frame.extend(piece);
        self.wire.write_all(&frame).unwrap();
        self.frame = self.frame.wrapping_add(1);
    }

    fn byte(&mut self) -> (u8, u8) {
        while self.unpacked.is_empty() {
            let mut header = [0; 7];
            self.wire.read_exact(&mut header).unwrap();
            assert_eq!(header[3], self.frame, "the number of a frame");
            let mut body = vec![0; length(&header)];
            self.wire.read_exact(&mut body).unwrap();
            if length(&header[4..]) > 0 {
                let packed = std::mem::take(&mut body);
                ZlibDecoder::new(&packed[..]).read_to_end(&mut body).unwrap();
            }
            self.unpacked.extend(body.into_iter().map(|byte| (byte, self.frame)));
            self.frame = self.frame.wrapping_add(1);
        }
        self.unpacked.pop_front().unwrap()
    }

    fn packet(&mut self) -> (Numbers, Vec<u8>) {
        let header = [self.byte(), self.byte(), self.byte(), self.byte()];
        let length = length(&header.map(|(byte, _)| byte));
        ((header[0].1, header[3].0), (0..length).map(|_| self.byte().0).collect())
    }

    /// The next packets, whatever is in them.
    fn packets(&mut self, count: u16) -> Vec<Numbers> {
        (0..count).map(|_| self.packet().0).collect()
    }

    /// All results of an answer; who asks for a file gets one of two packets.
    fn results(&mut self) -> Results {
        let mut results = Vec::new();
        loop {
            let (numbers, first) = self.packet();
            let mut result = vec![numbers];
            let goes_on = match first[0] {
                0xff => false,
                0xfb => {
                    self.send(&[packet(b"1001\n1002\n", self.frame), packet(b"1003\n", self.frame)].concat());
                    self.send(&packet(b"", self.frame));
                    true
                }
                // OK: counts of one byte, then the status.
                0 => first[3] & MORE_RESULTS != 0,
                columns => {
                    result.extend(self.packets(u16::from(columns) + self.ends_of_columns));
                    let (more, goes_on) = self.rows();
                    result.extend(more);
                    goes_on
                }
            };
            results.push(result);
            if !goes_on {
                assert!(self.unpacked.is_empty(), "bytes after an answer");
                return results;
            }
        }
    }

    fn rows(&mut self) -> (Vec<Numbers>, bool) {
        let mut rows = Vec::new();
        loop {
            let (numbers, row) = self.packet();
            rows.push(numbers);
            match row[0] {
                0xff => return (rows, false),
                // No row here begins so. The status has the same place in EOF as in OK.
                0xfe => return (rows, row[3] & MORE_RESULTS != 0),
                _ => {}
            }
        }
    }

    fn query(&mut self, text: &str, frames: usize) -> Results {
        self.command(&[b"\x03", text.as_bytes()].concat(), frames);
        self.results()
    }

    /// Prepares a statement: its id, and the packets of the answer.
    fn prepare(&mut self, text: &str) -> (u32, Vec<Numbers>) {
        self.command(&[b"\x16", text.as_bytes()].concat(), 1);
        let (numbers, ok) = self.packet();
        assert_eq!(ok[0], 0, "{ok:?}");
        let mut all = vec![numbers];
        for at in [7, 5] {
            let count = u16::from_le_bytes([ok[at], ok[at + 1]]);
            all.extend(self.packets(if count > 0 { count + self.ends_of_columns } else { 0 }));
        }
        (u32::from_le_bytes([ok[1], ok[2], ok[3], ok[4]]), all)
    }
}

fn length(header: &[u8]) -> usize {
    usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16
}

fn packet(payload: &[u8], number: u8) -> Vec<u8> {
    [&payload.len().to_le_bytes()[..3], &[number], payload].concat()
}

/// Every kind of answer whose results fit into a frame each. The last one is of a prepared CALL.
pub(crate) fn of_small_results(address: &Address) -> Vec<Results> {
    let several = "SELECT 1; SELECT 2; DO 3; DO 4; SELECT 5";
    let procedure = "DROP PROCEDURE IF EXISTS numbered; CREATE PROCEDURE numbered() BEGIN SELECT 1; SELECT 2, 3; DO 4; END";
    let broken = "DROP PROCEDURE IF EXISTS broken; CREATE PROCEDURE broken() BEGIN SELECT 1; SELECT * FROM nowhere; END";
    let file = "CREATE TEMPORARY TABLE filled (a INT); LOAD DATA LOCAL INFILE 'x' INTO TABLE filled; \
                SELECT COUNT(*) FROM filled; DROP TEMPORARY TABLE filled";
    let texts = [
        ("SELECT 1", 1),
        ("SELECT 1", 3),
        ("DO 1", 3),
        ("SELECT * FROM nowhere", 4),
        (several, 1),
        (several, 5),
        ("SELECT 1; DO 2; SELECT * FROM nowhere; SELECT 3", 1),
        // Answers that the proxy writes anew, in whole or in part.
        (
            "SET @a = 1; SELECT @a; SET SESSION sql_mode = 'ANSI'; USE app; SELECT 2; SET SESSION sql_mode = ''",
            2,
        ),
        (procedure, 1),
        (broken, 1),
        ("CALL numbered()", 1),
        ("CALL numbered(); SELECT 5; CALL numbered()", 1),
        ("SELECT 1; CALL broken(); SELECT 2", 1),
        (file, 1),
    ];
    let mut all = Vec::new();
    for capabilities in [0, SESSION_TRACK, DEPRECATE_EOF, DEPRECATE_EOF | SESSION_TRACK] {
        let mut session = Session::begin(address, capabilities);
        all.extend(texts.map(|(text, frames)| session.query(text, frames)));
        all.push(vec![session.prepare("SELECT ?, 1").1]);
        let (call, numbers) = session.prepare("CALL numbered()");
        all.push(vec![numbers]);
        session.command(&[&b"\x17"[..], &call.to_le_bytes(), &[0, 1, 0, 0, 0]].concat(), 1);
        all.push(session.results());
    }
    all
}

/// Where results begin frames is the same for all; how many frames they take is not.
pub(crate) fn check_large_results(address: &Address) {
    let rows = "SELECT a.id, REPEAT('z', 900) FROM customers a, customers b LIMIT 700";
    let text = format!(
        "SELECT REPEAT('x', 100000); SELECT 2; {rows}; DO 3; SELECT REPEAT('y', 3000000), 1; SELECT 4; SELECT * FROM nowhere"
    );
    let mut session = Session::begin(address, 0);
    for frames in [1, 2] {
        let results = session.query(&text, frames);
        assert_eq!(results.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 705, 1, 6, 5, 1]);
        assert_eq!(usize::from(results[0][0].0), frames);
        for result in &results {
            assert_eq!(result[0].0, result[0].1, "the first packet of a result: {result:?}");
            assert!(result.windows(2).all(|two| two[0].1.wrapping_add(1) == two[1].1), "{result:?}");
        }
        for two in results.windows(2) {
            assert_ne!(two[0].last().map(|last| last.0), Some(two[1][0].0), "a frame of two results");
        }
    }
}
