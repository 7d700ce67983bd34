//! What a hit cannot cost less than: a server on Delphinus's own runtime that logs clients in, and gives the same bytes to each command.
//! It reads no statement, and looks nothing up.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result};
use clap::Args;
use delphinus_net::rt::{self, Manner};
use delphinus_net::{Buffer, ListenAddress, Listener, PacketIo, Stream};
use delphinus_wire::handshake::{Greeting, Login};
use delphinus_wire::response::OkPacket;
use delphinus_wire::{Capabilities, HEADER_LEN, parse_header};

/// The largest login, in bytes.
const LARGEST: usize = 64 * 1024;
/// COM_QUIT.
const QUIT: u8 = 1;

/// `delphinus-bench echo`: the process that is measured.
#[derive(Debug, Args)]
pub struct EchoArgs {
    /// Where clients connect.
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// What each command is answered with.
    #[arg(long, value_name = "FILE")]
    answer: PathBuf,
}

/// Answers until it is killed.
pub fn echo(args: &EchoArgs) -> Result<()> {
    let answer = fs::read(&args.answer).with_context(|| format!("cannot read {}", args.answer.display()))?;
    let listen = ListenAddress::Tcp(args.listen);
    let serve = async move || -> Result<()> {
        let answer: Rc<[u8]> = answer.into();
        let listener = Listener::bind(&listen)?;
        loop {
            let stream = listener.accept().await?.into_stream()?;
            let answer = answer.clone();
            rt::spawn_local(async move {
                // It ends when its client goes.
                let _ = serve(stream, &answer).await;
            });
        }
    };
    // As the workers of the proxy.
    let manner = Manner { io_uring: true, gives_way: true };
    let main = move || async move {
        if let Err(error) = serve().await {
            eprintln!("error: {error:#}");
        }
    };
    let worker = rt::spawn_worker("echo".to_owned(), manner, main)?;
    worker.join().expect("invariant: the server does not panic")?;
    Ok(())
}

async fn serve(mut stream: Stream, answer: &[u8]) -> Result<()> {
    log_in(&mut stream).await?;
    let mut buffer = Buffer::with_capacity(16 * 1024);
    loop {
        while let Some(frame) = parse_header(buffer.data())
            && buffer.len() >= HEADER_LEN + frame.len
        {
            if buffer.data().get(HEADER_LEN) == Some(&QUIT) {
                return Ok(());
            }
            buffer.consume(HEADER_LEN + frame.len);
            if !stream.post(answer) {
                stream.write_bytes(answer).await?;
            }
        }
        stream.readable().await?;
        match stream.read_at_once(&mut buffer) {
            Some(Ok(0)) => return Ok(()),
            Some(Ok(_)) | None => {}
            Some(Err(error)) => return Err(error.into()),
        }
    }
}

async fn log_in(stream: &mut Stream) -> Result<()> {
    let mut buffer = Buffer::default();
    let greeting = Greeting {
        server_version: "8.0.36".to_owned(),
        connection_id: 1,
        nonce: *b"abcdefghijklmnopqrst",
        capabilities: Capabilities(0xdfff_ffff & !Capabilities::SSL.0),
        collation: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    };
    let mut io = PacketIo::new(stream, &mut buffer, 0);
    io.write(&greeting.encode()).await?;
    let agreed = Login::parse(&io.read(LARGEST).await?.payload)?.capabilities;
    let mut ok = Vec::new();
    OkPacket::default().put(&mut ok, 0, agreed);
    io.write(&ok).await?;
    Ok(())
}
