//! A session takes the connection that it left in its seat, and puts it back: what every statement does in the
//! steady state. The backend is scripted and runs on the same thread; nothing is sent while is counted.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, ensure};
use delphinus_memory::Account;
use delphinus_net::rt::{self, Notify};
use delphinus_net::{Address, Buffer, ListenAddress, Listener, PacketIo, Place, Stream};
use delphinus_pool::{BackendLimits, Budget, Identity, Keys, Memory, Pool, Request, Settings, Target};
use delphinus_state::SessionState;
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{BackendSecret, Password};
use delphinus_wire::handshake::client::Trust;
use delphinus_wire::handshake::{Greeting, Login};
use delphinus_wire::response::OkPacket;

use crate::measure;

const BACKEND: BackendId = BackendId(0);

fn settings() -> Settings {
    Settings {
        hold_ms: 1_000,
        checkout_timeout_ms: 10_000,
        connect_timeout_ms: 10_000,
        idle_timeout_s: 0,
        max_lifetime_s: 0,
        statements_per_connection: 100,
        kills_abandoned: true,
        passed_attributes: Vec::new(),
        kept_open: Vec::new(),
        memory: Account::unlimited(),
    }
}

pub(crate) fn run() -> Result<()> {
    rt::block_on(take_and_put_back())?
}

async fn take_and_put_back() -> Result<()> {
    let pool = pool()?;
    let keys = Arc::new(Keys::listed([BackendSecret::Plain(Password::new(b"secret"))]));
    let identity = pool.identity(Identity::new("app".to_owned(), Capabilities::default(), &keys));
    let memory = Rc::new(Memory::default());
    let want = SessionState::default();
    let request = Request {
        backend: BACKEND,
        identity: &identity,
        rights: keys.epoch(),
        want: &want,
        memory: &memory,
        waits_for_room: true,
    };
    let mut seat = pool.checkout(request).await?.give_back();
    let mut is_right = true;
    measure(|| {
        let found = seat.take().and_then(|seat| pool.retake(BACKEND, seat, &memory));
        match found {
            Some(checkout) => {
                is_right &= checkout.is_ready(&want, &memory);
                seat = checkout.give_back();
            }
            None => is_right = false,
        }
    });
    ensure!(is_right && pool.size(BACKEND) == (1, 1), "the connection was not found again");
    Ok(())
}

fn pool() -> Result<Rc<Pool>> {
    let listener = Listener::bind(&ListenAddress::Tcp("127.0.0.1:0".parse()?))?;
    let ListenAddress::Tcp(address) = listener.local_address()? else { anyhow::bail!("not TCP") };
    let address = Address::Tcp(address.ip().to_string(), address.port());
    rt::spawn_local(async move {
        while let Ok(accepted) = listener.accept().await {
            if let Ok(stream) = accepted.into_stream() {
                rt::spawn_local(async move {
                    // It ends when the pool goes.
                    let _ = serve(stream).await;
                });
            }
        }
    });
    let bell = Arc::new(Notify::new());
    let target = Target {
        place: Place::of("b".into(), address),
        tls: None,
        compression: None,
        proxy_protocol: None,
        trust: Trust::default(),
    };
    let budget = Budget::new(BackendLimits { max: 10, ..BackendLimits::default() }, vec![bell.clone()]);
    Ok(Pool::new(settings(), vec![(target, budget)], bell, Arc::default()))
}

/// A backend that takes any login and answers every command with OK.
async fn serve(mut stream: Stream) -> Result<()> {
    let mut buffer = Buffer::default();
    let greeting = Greeting {
        server_version: "8.0.36".to_owned(),
        connection_id: 1,
        nonce: *b"abcdefghijklmnopqrst",
        capabilities: Capabilities(0xdfff_ffff).without(Capabilities::SSL),
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
    loop {
        let mut io = PacketIo::new(&mut stream, &mut buffer, 0);
        io.read(65_536).await?;
        io.write(&ok).await?;
    }
}
