//! A backend that takes any login and answers from memory, on a thread of its own. It knows BEGIN, and nothing that ends it.

use std::net::TcpListener;

use anyhow::{Result, anyhow};
use delphinus_net::rt;
use delphinus_net::{Address, Buffer, ListenAddress, Listener, PacketIo, Stream};
use delphinus_wire::command::Code;
use delphinus_wire::handshake::{Greeting, Login};
use delphinus_wire::response::{Column, OkPacket, Status, TextResult};
use delphinus_wire::{Capabilities, Put, put_packet};

/// What it calls itself.
pub(crate) const VERSION: &str = "8.0.36";

/// As MySQL 8 has them, but for TLS.
pub(crate) const CAPABILITIES: Capabilities = Capabilities(0xdfff_ffff & !Capabilities::SSL.0);

/// Starts it; it ends with the process.
pub(crate) fn start() -> Result<Address> {
    // Found by a socket that is closed again: a listener belongs to the runtime of its thread.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("backend".to_owned()).spawn(move || {
        let served = rt::block_on(async move {
            let listener = Listener::bind(&ListenAddress::Tcp(address))?;
            // The other end has gone with the process.
            let _ = ready.send(());
            loop {
                let stream = listener.accept().await?.into_stream()?;
                rt::spawn_local(async move {
                    // It ends when the pool goes.
                    let _ = serve(stream).await;
                });
            }
            #[expect(unreachable_code, reason = "it says what is returned")]
            anyhow::Ok(())
        });
        drop(served);
    })?;
    is_ready.recv().map_err(|_| anyhow!("the backend has not begun"))?;
    Ok(Address::Tcp(address.ip().to_string(), address.port()))
}

/// A column of 120 characters, as sysbench's tables have it.
fn row() -> TextResult {
    let value = b"68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-28203206787-41238978918-19503783441".to_vec();
    TextResult { columns: vec![Column::text(b"c", 120, 45)], rows: vec![vec![Some(value)]] }
}

/// What it answers, as it is sent.
struct Answers {
    ok: Vec<u8>,
    text: Vec<u8>,
    binary: Vec<u8>,
    prepared: Vec<u8>,
}

impl Answers {
    fn new(agreed: Capabilities, status: Status) -> Self {
        let mut answers = Self { ok: Vec::new(), text: Vec::new(), binary: Vec::new(), prepared: Vec::new() };
        let mut ok = Vec::new();
        OkPacket { status, ..OkPacket::default() }.put(&mut ok, 0, agreed);
        put_packet(&mut answers.ok, 1, &ok);
        row().put(&mut answers.text, 1, status, agreed);
        row().put_binary(&mut answers.binary, 1, status, agreed);
        // Its id, one column, one parameter, no warnings; then the parameter and the column.
        let mut head = vec![0];
        head.put_u32(1);
        head.put_u16(1);
        head.put_u16(1);
        head.put_u8(0);
        head.put_u16(0);
        put_packet(&mut answers.prepared, 1, &head);
        for (seq, name) in [(2, b"?"), (3, b"c")] {
            let mut column = Vec::new();
            Column::text(name, 120, 45).put(&mut column, agreed);
            put_packet(&mut answers.prepared, seq, &column);
        }
        answers
    }

    fn to(&self, command: &[u8]) -> &[u8] {
        let is = |code: Code| command.first() == Some(&(code as u8));
        let selects = command.windows(6).any(|word| word == b"sbtest");
        match () {
            () if is(Code::StmtClose) => &[],
            () if is(Code::StmtPrepare) => &self.prepared,
            () if is(Code::StmtExecute) => &self.binary,
            () if is(Code::Query) && selects => &self.text,
            () => &self.ok,
        }
    }
}

async fn serve(mut stream: Stream) -> Result<()> {
    let mut buffer = Buffer::default();
    let greeting = Greeting {
        server_version: VERSION.to_owned(),
        connection_id: 1,
        nonce: *b"abcdefghijklmnopqrst",
        capabilities: CAPABILITIES,
        collation: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    };
    let mut io = PacketIo::new(&mut stream, &mut buffer, 0);
    io.write(&greeting.encode()).await?;
    let agreed = Login::parse(&io.read(65_536).await?.payload)?.capabilities;
    let mut ok = Vec::new();
    OkPacket::default().put(&mut ok, 0, agreed);
    io.write(&ok).await?;
    let begun = Status(Status::AUTOCOMMIT.0 | Status::IN_TRANS.0);
    let mut answers = Answers::new(agreed, Status::AUTOCOMMIT);
    loop {
        let command = PacketIo::new(&mut stream, &mut buffer, 0).read(65_536).await?;
        if command.payload.ends_with(b"BEGIN") {
            answers = Answers::new(agreed, begun);
        }
        stream.write_bytes(answers.to(&command.payload)).await?;
    }
}
