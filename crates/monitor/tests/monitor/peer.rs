//! A scripted backend on a loopback socket: greets, takes any login, answers the monitor's queries, and has
//! moods. It counts how connections end, as a server does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use delphinus_net::rt::{self, Either, Notify, watch};
use delphinus_net::{Address, Buffer, ListenAddress, Listener, NetError, PacketIo, Stream};
use delphinus_wire::Capabilities;
use delphinus_wire::command::Code;
use delphinus_wire::handshake::{Greeting, Login};
use delphinus_wire::response::{Column, ErrPacket, OkPacket, Status, TextResult};

/// How the backend behaves from now on, towards old connections too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Answers.
    Well,
    /// Accepts, and says nothing until the mood changes: a stopped process.
    Hung,
    /// As `Hung`, but only towards its first connections, this many: those are lost in the network.
    HungUpTo(u32),
    /// Refuses connections with this error instead of a greeting.
    Refuses(u16, &'static str),
    /// Refuses logins with this error.
    Denies(u16, &'static str),
    /// Answers queries with this error.
    Fails(u16, &'static str),
    /// Answers the question for the status of its replication with this error.
    Hides(u16, &'static str),
    /// Sends these bytes instead of a greeting.
    Babbles(Vec<u8>),
    /// Sends these bytes instead of the answer to a query.
    BabblesLater(Vec<u8>),
    /// Closes every connection at its next step.
    Closes,
}

/// What a peer says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Character {
    pub(crate) version: &'static str,
    pub(crate) comment: &'static str,
    pub(crate) collation: &'static str,
    pub(crate) read_only: &'static str,
    pub(crate) capabilities: Capabilities,
    /// What it has executed, and the word for whether it logs what it does.
    pub(crate) position: [&'static str; 2],
    /// Names and values of the status of its replication; none: it replicates from no server.
    pub(crate) replication: Vec<(&'static str, Option<&'static str>)>,
    /// name, character set, id, default
    pub(crate) collations: Vec<[Option<&'static str>; 4]>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: Cell<u32>,
    pub(crate) probes: Cell<u32>,
    pub(crate) quits: Cell<u32>,
    /// Questions for the status of the replication.
    pub(crate) statuses: Cell<u32>,
    /// Connections that were logged in and ended without COM_QUIT.
    pub(crate) aborted: Cell<u32>,
    /// All SQL that was not the probe query.
    pub(crate) questions: RefCell<Vec<String>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: ListenAddress,
    pub(crate) counters: Rc<Counters>,
    pub(crate) character: Rc<RefCell<Character>>,
    mood: Rc<watch::Sender<Mood>>,
    listening: Rc<watch::Sender<bool>>,
    killed: Rc<Notify>,
}

pub(crate) fn mysql() -> Character {
    Character {
        version: "8.0.36",
        comment: "MySQL Community Server - GPL",
        collation: "utf8mb4_0900_ai_ci",
        read_only: "0",
        capabilities: Capabilities(0xdfff_ffff).without(Capabilities::SSL),
        position: ["01234567-89ab-cdef-0123-456789abcdef:1-5", "ON"],
        replication: Vec::new(),
        collations: vec![
            [Some("utf8mb4_0900_ai_ci"), Some("utf8mb4"), Some("255"), Some("Yes")],
            [Some("utf8mb4_general_ci"), Some("utf8mb4"), Some("45"), Some("")],
        ],
    }
}

pub(crate) fn mariadb() -> Character {
    let without = Capabilities::SSL | Capabilities::LONG_PASSWORD | Capabilities::DEPRECATE_EOF;
    Character {
        version: "10.11.6-MariaDB",
        comment: "mariadb.org binary distribution",
        collation: "utf8mb4_uca1400_ai_ci",
        capabilities: (Capabilities(0xdfff_ffff) | Capabilities::MARIADB_STMT_BULK).without(without),
        position: ["0-1-5", "1"],
        collations: vec![
            [Some("utf8mb4_uca1400_ai_ci"), Some("utf8mb4"), Some("2304"), Some("Yes")],
            [Some("uca1400_ai_ci"), None, None, None],
        ],
        ..mysql()
    }
}

impl Peer {
    pub(crate) fn start(character: Character) -> Self {
        Self::start_at("127.0.0.1:0", character)
    }

    pub(crate) fn start_at(address: &str, character: Character) -> Self {
        let listener = Listener::bind(&ListenAddress::Tcp(address.parse().unwrap())).unwrap();
        let peer = Self {
            address: listener.local_address().unwrap(),
            counters: Rc::default(),
            character: Rc::new(RefCell::new(character)),
            mood: Rc::new(watch::channel(Mood::Well).0),
            listening: Rc::new(watch::channel(true).0),
            killed: Rc::default(),
        };
        rt::spawn_local(peer.clone().accept(listener));
        peer
    }

    pub(crate) fn dial_address(&self) -> Address {
        match &self.address {
            ListenAddress::Tcp(address) | ListenAddress::Virtual(address) => {
                Address::Tcp(address.ip().to_string(), address.port())
            }
            ListenAddress::Unix(path, _) => Address::Unix(path.clone()),
        }
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Closes the listening socket and all connections, as a process that is killed.
    pub(crate) fn die(&self) {
        self.listening.send_replace(false);
        self.set_mood(Mood::Closes);
    }

    /// Closes all connections and goes on listening.
    pub(crate) fn kill_connections(&self) {
        self.killed.notify_waiters();
    }

    /// Listens again on the same port, as soon as it is free.
    pub(crate) async fn come_back(&self, mood: Mood) {
        let mut listener = Listener::bind(&self.address);
        while listener.is_err() {
            rt::yield_now().await;
            listener = Listener::bind(&self.address);
        }
        let listener = listener.unwrap();
        self.set_mood(mood);
        self.listening.send_replace(true);
        rt::spawn_local(self.clone().accept(listener));
    }

    async fn accept(self, listener: Listener) {
        let mut listening = self.listening.subscribe();
        loop {
            let stopped = listening.wait_for(|is_listening| !is_listening);
            let Either::Second(accepted) = rt::either(stopped, listener.accept()).await else { return };
            let stream = accepted.unwrap().into_stream().unwrap();
            add(&self.counters.connections);
            let number = self.counters.connections.get();
            rt::spawn_local(self.clone().serve(stream, number));
        }
    }

    async fn serve(self, mut stream: Stream, number: u32) {
        let mut buffer = Buffer::default();
        let mut io = PacketIo::new(&mut stream, &mut buffer, 0);
        let Some(agreed) = self.log_in(&mut io, number).await else { return stream.close().await };
        while self
            .serve_command(&mut stream, &mut buffer, (agreed, number))
            .await
            .is_ok_and(|goes_on| goes_on)
        {}
        stream.close().await;
    }

    /// Waits while hung towards this connection; what the mood is then.
    async fn mood(&self, number: u32) -> Mood {
        let is_hung = |mood: &Mood| match mood {
            Mood::Hung => true,
            Mood::HungUpTo(last) => number <= *last,
            _ => false,
        };
        self.mood.subscribe().wait_for(|mood| !is_hung(mood)).await.unwrap().clone()
    }

    async fn log_in(&self, io: &mut PacketIo<'_>, number: u32) -> Option<Capabilities> {
        match self.mood(number).await {
            Mood::Closes => return None,
            Mood::Babbles(bytes) => {
                io.stream().write_bytes(&bytes).await.ok()?;
                return None;
            }
            Mood::Refuses(code, text) => {
                write_err(io, code, text, Capabilities::default()).await.ok()?;
                return None;
            }
            _ => {}
        }
        let offered = self.character.borrow().capabilities;
        let greeting = Greeting {
            server_version: format!("5.5.5-{}", self.character.borrow().version),
            connection_id: 1,
            nonce: *b"abcdefghijklmnopqrst",
            capabilities: offered,
            collation: 45,
            status: 2,
            plugin: "mysql_native_password".into(),
        };
        io.write(&greeting.encode()).await.ok()?;
        let login = Login::parse(&io.read(65_536).await.ok()?.payload).ok()?;
        assert_eq!(login.user, b"probe");
        match self.mood(number).await {
            Mood::Closes => return None,
            Mood::Denies(code, text) => {
                write_err(io, code, text, login.capabilities).await.ok()?;
                return None;
            }
            _ => {}
        }
        let mut out = Vec::new();
        OkPacket::default().put(&mut out, 0, login.capabilities);
        io.write(&out).await.ok()?;
        Some(login.capabilities & offered)
    }

    /// One command; false after COM_QUIT.
    async fn serve_command(
        &self,
        stream: &mut Stream,
        buffer: &mut Buffer,
        (agreed, number): (Capabilities, u32),
    ) -> Result<bool, NetError> {
        let mut io = PacketIo::new(stream, buffer, 0);
        let mut mood = self.mood.subscribe();
        let closes = rt::either(mood.wait_for(|mood| *mood == Mood::Closes), self.killed.notified());
        let Either::Second(read) = rt::either(closes, io.read(65_536)).await else { return Ok(false) };
        let command = read.inspect_err(|_| add(&self.counters.aborted))?.payload;
        if command == [Code::Quit as u8] {
            add(&self.counters.quits);
            return Ok(false);
        }
        assert_eq!(command[0], Code::Query as u8);
        match self.mood(number).await {
            Mood::Closes => return Ok(false),
            Mood::BabblesLater(bytes) => {
                io.stream().write_bytes(&bytes).await?;
                return Ok(true);
            }
            Mood::Fails(code, text) => {
                write_err(&mut io, code, text, agreed).await?;
                return Ok(true);
            }
            _ => {}
        }
        let sql = String::from_utf8_lossy(&command[1..]).into_owned();
        if let Mood::Hides(code, text) = self.mood(number).await
            && sql.starts_with("SHOW ")
        {
            write_err(&mut io, code, text, agreed).await?;
            return Ok(true);
        }
        let mut out = Vec::new();
        if sql.starts_with("SET ") {
            self.character.borrow_mut().read_only = "1";
            self.counters.questions.borrow_mut().push(sql);
            OkPacket::default().put(&mut out, 0, agreed);
            io.write(&out).await?;
            return Ok(true);
        }
        self.answer(&sql).put(&mut out, 1, Status(2), agreed);
        io.stream().write_bytes(&out).await?;
        Ok(true)
    }

    fn answer(&self, sql: &str) -> TextResult {
        let character = self.character.borrow();
        let to_row = |row: &[Option<&str>]| -> Vec<_> {
            row.iter().map(|value| value.map(|text| text.as_bytes().to_vec())).collect()
        };
        let position = character.position.map(Some);
        let rows = if sql.contains("@@global.read_only") {
            add(&self.counters.probes);
            let Character { read_only, version, comment, collation, .. } = *character;
            let mut row = vec![Some(read_only), Some(version), Some(comment), Some(collation)];
            row.extend(["151", "0", "28800", "28800", ""].map(Some));
            if sql.contains("_isolation") {
                row.push(Some("REPEATABLE-READ"));
            }
            if sql.contains("@@global.gtid") {
                row.extend(position);
            }
            vec![to_row(&row)]
        } else if sql.contains("@@global.gtid") {
            vec![to_row(&position)]
        } else if sql.starts_with("SHOW ") {
            add(&self.counters.statuses);
            let names: Vec<_> = character.replication.iter().map(|(name, _)| *name).collect();
            let values: Vec<_> = character.replication.iter().map(|(_, value)| *value).collect();
            return status(&names, to_row(&values));
        } else {
            self.counters.questions.borrow_mut().push(sql.to_owned());
            character.collations.iter().map(|row| to_row(row)).collect()
        };
        let width = rows.first().map_or(0, Vec::len);
        let columns = (0..width).map(|_| Column::text(b"c", 64, 45)).collect();
        TextResult { columns, rows }
    }
}

/// A server that follows no server names the columns all the same, and gives no row.
fn status(names: &[&str], values: Vec<Option<Vec<u8>>>) -> TextResult {
    let column = |name: &&str| Column::text(name.as_bytes(), 64, 45);
    if names.is_empty() {
        return TextResult { columns: vec![column(&"Slave_IO_State")], rows: Vec::new() };
    }
    TextResult { columns: names.iter().map(column).collect(), rows: vec![values] }
}

async fn write_err(
    io: &mut PacketIo<'_>,
    code: u16,
    text: &str,
    capabilities: Capabilities,
) -> Result<(), NetError> {
    let mut out = Vec::new();
    ErrPacket { code, state: *b"HY000", message: text.into() }.put(&mut out, capabilities);
    io.write(&out).await
}

fn add(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}
