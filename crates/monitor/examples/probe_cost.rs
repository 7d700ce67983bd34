//! What it costs to probe many backends: `cargo run --release -p delphinus-monitor --example probe_cost [backends] [kind]`.
//! The backends are one cheap program that runs beside it, so that only the monitor's own time counts. Needs `ulimit -n`
//! of two and a half times the backends.

#![expect(clippy::print_stdout, reason = "what it measures is for whoever runs it")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use delphinus_monitor::{BackendSpec, Monitor, Settings, Tuning};
use delphinus_net::{Address, Buffer, ListenAddress, Listener, NetError, PacketIo, Place, Reach, Stream, rt};
use delphinus_topology::{Kind, Role};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::Password;
use delphinus_wire::command::Code;
use delphinus_wire::handshake::{Greeting, Login};
use delphinus_wire::response::{Column, OkPacket, Status, TextResult};

/// How long it is measured, after everybody was seen.
const MEASURED: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "serve") {
        rt::block_on(serve()).expect("a runtime");
        return;
    }
    let count = arguments.first().map_or(2_000, |count| count.parse().expect("a number of backends"));
    let kind = match arguments.get(1).map(String::as_str) {
        None | Some("static") => Kind::Static,
        Some("read_only") => Kind::ReadOnly,
        Some("group_replication") => Kind::GroupReplication,
        Some(other) => panic!("no such kind: {other}"),
    };
    let program = std::env::current_exe().expect("the path of this program");
    let mut child =
        Command::new(program).arg("serve").stdout(Stdio::piped()).spawn().expect("a second process");
    let mut port = String::new();
    let said = child.stdout.take().expect("a pipe");
    BufReader::new(said).read_line(&mut port).expect("a line");
    rt::block_on(measure(count, kind, port.trim().parse().expect("a port"))).expect("a runtime");
    child.kill().and_then(|()| child.wait()).expect("the end of the second process");
}

async fn measure(count: usize, kind: Kind, port: u16) {
    let spec = |index: usize| BackendSpec {
        place: Place::of(
            format!("b{index}").into(),
            Address::Tcp("127.0.0.1".to_owned(), port),
            Reach::default(),
        ),
        role: if index == 0 { Role::Primary } else { Role::Replica },
        weight: 100,
    };
    let backends = (0..count).map(spec).collect();
    let settings = Settings {
        backends,
        kind,
        ..Settings::new(Tuning::new("probe".to_owned(), Password::new("secret")))
    };
    let (monitor, mut reader) = Monitor::new(settings);
    let (stop, stopped) = rt::oneshot::channel::<()>();
    let running = rt::spawn_local(monitor.run(async {
        let _ = stopped.await;
    }));
    let begun = Instant::now();
    reader.wait_for(|snapshot| snapshot.settled).await.expect("the monitor runs");
    println!("{count} backends, {kind:?}: all seen after {:?}, with {:?} of CPU", begun.elapsed(), cpu());
    rt::sleep(Duration::from_secs(3)).await;
    let (before, begun) = (cpu(), Instant::now());
    let generation = reader.load().generation;
    rt::sleep(MEASURED).await;
    let (used, elapsed) = (cpu().saturating_sub(before), begun.elapsed());
    let up = reader.load().backends.iter().filter(|backend| backend.is_up()).count();
    println!(
        "{:.2} % of one core over {elapsed:.1?}; {:.1} us for each probe of an interval; {up} up; {} snapshots",
        used.as_secs_f64() / elapsed.as_secs_f64() * 100.0,
        used.as_secs_f64() * 1e6 / (elapsed.as_secs_f64() * f64::from(u32::try_from(count).expect("few"))),
        reader.load().generation - generation
    );
    let _ = stop.send(());
    let _ = running.await;
}

/// User and system time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    // Fields 14 and 15 of the line, in hundredths of a second.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

async fn serve() {
    let any = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind(&ListenAddress::Tcp(any)).expect("a free port");
    let ListenAddress::Tcp(address) = listener.local_address().expect("an address") else { return };
    println!("{}", address.port());
    let mut number = 0;
    loop {
        let Ok(stream) = listener.accept().await.and_then(delphinus_net::Peer::into_stream) else {
            return;
        };
        number += 1;
        rt::spawn_local(async move {
            let _ = serve_one(stream, number).await;
        });
    }
}

async fn serve_one(mut stream: Stream, number: u32) -> Result<(), NetError> {
    let mut buffer = Buffer::default();
    let mut io = PacketIo::new(&mut stream, &mut buffer, 0);
    let offered = Capabilities(0xdfff_ffff).without(Capabilities::SSL);
    let greeting = Greeting {
        server_version: "8.0.36".to_owned(),
        connection_id: number,
        nonce: *b"abcdefghijklmnopqrst",
        capabilities: offered,
        collation: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    };
    io.write(&greeting.encode()).await?;
    let login = Login::parse(&io.read(65_536).await?.payload).expect("a login");
    let mut out = Vec::new();
    OkPacket::default().put(&mut out, 0, login.capabilities);
    io.write(&out).await?;
    let agreed = login.capabilities & offered;
    loop {
        let mut io = PacketIo::new(&mut stream, &mut buffer, 0);
        let command = io.read(65_536).await?.payload;
        if command.first() != Some(&(Code::Query as u8)) {
            return Ok(());
        }
        let mut out = Vec::new();
        answer(&String::from_utf8_lossy(&command[1..])).put(&mut out, 1, Status(2), agreed);
        io.stream().write_bytes(&out).await?;
    }
}

fn answer(sql: &str) -> TextResult {
    let row = |values: &[&str]| values.iter().map(|text| Some(text.as_bytes().to_vec())).collect::<Vec<_>>();
    let (names, values): (Vec<&str>, Vec<&str>) = if sql.starts_with("SHOW ") {
        let known = [
            ("Replica_IO_Running", "Yes"),
            ("Replica_SQL_Running", "Yes"),
            ("Seconds_Behind_Source", "0"),
            ("Last_IO_Errno", "0"),
            ("Last_IO_Error", ""),
            ("Last_SQL_Error", ""),
            ("Channel_Name", ""),
        ];
        // As many columns as a server has.
        known.iter().copied().chain((0..53).map(|_| ("Some_Other_Column", "some value"))).unzip()
    } else if sql.contains("@@global.read_only") {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef:1-5";
        let limits = ["151", "0", "28800", "28800"];
        let all: Vec<_> = ["1", "8.0.36", "MySQL Community Server - GPL", "utf8mb4_0900_ai_ci"]
            .into_iter()
            .chain(limits)
            .chain([uuid, "ON"])
            .collect();
        let some = if sql.contains("gtid") { &all[..] } else { &all[..8] };
        some.iter().map(|value| ("c", *value)).unzip()
    } else if sql.contains("gtid") {
        (vec!["c", "c"], vec!["01234567-89ab-cdef-0123-456789abcdef:1-5", "ON"])
    } else {
        (vec!["c"; 4], vec!["utf8mb4_0900_ai_ci", "utf8mb4", "255", "Yes"])
    };
    let columns = names.iter().map(|name| Column::text(name.as_bytes(), 64, 45)).collect();
    TextResult { columns, rows: vec![row(&values)] }
}
