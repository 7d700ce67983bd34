//! Clients that are slow, huge, many or wrong: each gets a clear error or is closed, within bounds of time and memory, and neither
//! operators nor other programs notice. No servers are needed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use delphinus_e2e::{Client, HttpDoor, Login, Operators, Proxy, bearer, until};
use serde_json::json;

use super::LIMIT;

/// What clients have for a request, and for taking an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many places there are.
const PLACES: u32 = 20;

struct Alone {
    proxy: Proxy,
    door: HttpDoor,
    operators: Operators,
    folder: PathBuf,
}

impl Alone {
    /// A proxy whose only backend is not there.
    fn start() -> Self {
        let (operators, door) = (Operators::default(), HttpDoor::new().unwrap());
        let limits = format!("timeout_ms = {}\nmax_connections = {PLACES}\n", TIMEOUT.as_millis());
        let folder = std::env::temp_dir().join(format!("delphinus-http-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "[proxy]\ndata_dir = \"{0}\"\n[[listener]]\naddress = \"unix:{0}/clients\"\n[[user]]\nname = \"a\"\npassword = \"b\"\n\
             [cluster]\n[[cluster.backend]]\nname = \"db\"\nrole = \"primary\"\naddress = \"127.0.0.1:1\"\n\
             [monitor]\nuser = \"m\"\npassword = \"p\"\n{1}{2}",
            folder.display(),
            operators.section(),
            door.section(&limits),
        );
        let file = folder.join("delphinus.toml");
        std::fs::write(&file, text).unwrap();
        let proxy = Proxy::start(&file).unwrap();
        until(LIMIT, "the door opens", || Ok(door.connect().is_ok())).unwrap();
        Self { proxy, door, operators, folder }
    }

    fn operator(&self) -> Client {
        let nobody = delphinus_e2e::Address {
            host: String::new(),
            port: 0,
            socket: PathBuf::new(),
            user: String::new(),
            password: String::new(),
            database: String::new(),
        };
        Client::connect(&Login::new(&self.operators.address(&nobody))).unwrap()
    }

    /// A good request beside the bad ones.
    fn others_are_well(&self) {
        assert_eq!(self.door.get("/v1/tables/backends").unwrap().status, 200);
        assert_eq!(self.operator().value("SELECT count(*) FROM backends").unwrap(), "1");
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn hostile_clients_harm_nobody() {
    let alone = Alone::start();
    // Whatever a thread needs once is there.
    alone.others_are_well();
    let before = alone.proxy.resident_kib().unwrap();
    requests_that_are_none(&alone.door);
    bodies_that_are_none(&alone.door);
    slow_clients_are_closed(&alone.door);
    many_in_one_go_are_answered(&alone.door);
    answers_that_nobody_takes(&alone);
    many_connections_make_way(&alone);
    wrong_logins_wait_and_right_ones_do_not(&alone.door);
    alone.others_are_well();
    let grown = alone.proxy.resident_kib().unwrap().saturating_sub(before);
    assert!(grown < 128 << 10, "{grown} KiB more than before");
    let log = alone.proxy.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
}

fn requests_that_are_none(door: &HttpDoor) {
    let long = "a".repeat(100_000);
    let many = (0..500).map(|n| format!("X-{n}: a\r\n")).collect::<Vec<_>>().concat();
    let token = bearer(HttpDoor::token("admin"));
    let head = format!("Host: a\r\nConnection: close\r\n{token}\r\n");
    for (request, status) in [
        ("\0\u{1}\r\n\r\n".to_owned(), "400"),
        ("GET\r\n\r\n".to_owned(), "400"),
        (format!("GET /healthz HTTP/1.1\r\nX: {long}\r\n\r\n"), "431"),
        (format!("GET /healthz HTTP/1.1\r\n{many}\r\n"), "431"),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), "431"),
        (format!("DELETE /metrics HTTP/1.1\r\n{head}\r\n"), "405"),
        (format!("GET /v1/statements HTTP/1.1\r\n{head}\r\n"), "405"),
        (format!("OPTIONS /v1/tables HTTP/1.1\r\n{head}\r\n"), "405"),
        (format!("CONNECT a:1 HTTP/1.1\r\n{head}\r\n"), "404"),
        (format!("GET /v1/tables/../../metrics HTTP/1.1\r\n{head}\r\n"), "404"),
        (format!("GET //metrics HTTP/1.1\r\n{head}\r\n"), "404"),
        (format!("GET /v1/tables/%2e%2e%2fetc%2fpasswd HTTP/1.1\r\n{head}\r\n"), "404"),
        (format!("GET /v1/tables/backends%00 HTTP/1.1\r\n{head}\r\n"), "404"),
        (format!("GET /v1/tables/backends?name=%ff HTTP/1.1\r\n{head}\r\n"), "200"),
        (format!("GET /v1/tables/backends?{} HTTP/1.1\r\n{head}\r\n", "name=a&".repeat(1000)), "200"),
        (format!("GET /v1/tables HTTP/1.1\r\nConnection: close\r\n{token}\r\n{token}\r\n\r\n"), "400"),
        (
            format!(
                "GET /v1/tables HTTP/1.1\r\nConnection: close\r\nAuthorization: Basic {}\r\n\r\n",
                "A".repeat(9000)
            ),
            "401",
        ),
        ("GET /healthz HTTP/1.0\r\n\r\n".to_owned(), "200"),
    ] {
        let answer = door.raw(request.as_bytes()).unwrap();
        let got = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(got, status, "{}: {answer}", &request[..request.len().min(80)]);
    }
    let head = door.send("HEAD", "/healthz", &[], "").unwrap();
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

fn bodies_that_are_none(door: &HttpDoor) {
    let (token, json_type) = (bearer(HttpDoor::token("admin")), "Content-Type: application/json");
    let post = |headers: &[&str], body: &str| door.send("POST", "/v1/statements", headers, body).unwrap();
    let nested = "[".repeat(200_000);
    let inside = format!("{{\"statement\": \"SELECT 1\", \"parameters\": {nested}");
    let long = json!({ "statement": format!("SELECT '{}'", "x".repeat(100_000)) }).to_string();
    let big = json!({ "statement": "x".repeat(300_000) }).to_string();
    for (body, status) in [
        ("", 400),
        ("{\"statement\": ", 400),
        ("\u{feff}{}", 400),
        ("{\"statement\": \"\\ud800\"}", 400),
        (&nested, 400),
        (&inside, 400),
        (&long, 413),
        (&big, 413),
    ] {
        let reply = post(&[&token, json_type], body);
        assert_eq!(reply.status, status, "{}: {}", &body[..body.len().min(60)], reply.body);
        assert!(reply.json().unwrap()["error"]["message"].is_string());
    }
    assert_eq!(post(&[&token], "{\"statement\": \"SELECT 1\"}").status, 415);
    assert_eq!(post(&[&token, "Content-Type: text/plain"], "{}").status, 415);
    // Who has not logged in need not be listened to.
    assert_eq!(post(&[json_type], &nested).status, 401);
    let begin = format!("POST /v1/statements HTTP/1.1\r\nConnection: close\r\n{token}\r\n{json_type}\r\n");
    let told = door.raw(format!("{begin}Content-Length: 99999999999\r\n\r\n").as_bytes()).unwrap();
    assert!(told.starts_with("HTTP/1.1 413"), "{told}");
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
    let chunked = format!("{begin}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(5));
    let told = door.raw(chunked.as_bytes()).unwrap();
    assert!(told.starts_with("HTTP/1.1 413"), "{told}");
    let told = door.raw(format!("{begin}Transfer-Encoding: chunked\r\n\r\nzz\r\n").as_bytes()).unwrap();
    assert!(told.starts_with("HTTP/1.1 400"), "{told}");
}

/// Closed after their time, and not much later.
fn slow_clients_are_closed(door: &HttpDoor) {
    let token = bearer(HttpDoor::token("admin"));
    let begin = format!("POST /v1/statements HTTP/1.1\r\n{token}\r\nContent-Type: application/json\r\n");
    for (sent, answer) in [
        ("", ""),
        ("GET /healthz HTTP/1.1\r\nX-slow: ", ""),
        ("\u{16}\u{3}\u{1}\u{2}", ""),
        (&format!("{begin}Content-Length: 100\r\n\r\n{{"), "HTTP/1.1 408"),
        (&format!("{begin}Transfer-Encoding: chunked\r\n\r\n5\r\n{{"), "HTTP/1.1 408"),
    ] {
        let begun = Instant::now();
        let told = door.raw(sent.as_bytes()).unwrap_or_default();
        let took = begun.elapsed();
        assert!(told.starts_with(answer) && (!answer.is_empty() || told.is_empty()), "{sent:?}: {told}");
        assert!(took >= TIMEOUT / 2 && took < TIMEOUT * 5, "{sent:?}: {took:?}");
    }
    // One that was used is closed, too, when nothing comes any more.
    let mut stream = door.connect().unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn many_in_one_go_are_answered(door: &HttpDoor) {
    let mut requests = "GET /healthz HTTP/1.1\r\n\r\n".repeat(499);
    requests += "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n";
    let answer = door.raw(requests.as_bytes()).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 500);
}

/// An answer of many megabytes, of which nothing is read: its memory is free again after its time.
fn answers_that_nobody_takes(alone: &Alone) {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) \
               SELECT i, printf('%.*c', 500, 'x') FROM n";
    let body = json!({ "statement": sql }).to_string();
    let token = bearer(HttpDoor::token("admin"));
    let request = format!(
        "POST /v1/statements HTTP/1.1\r\n{token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut operator = alone.operator();
    let used = |operator: &mut Client| -> u64 {
        operator.value("SELECT bytes FROM memory WHERE owner = 'buffers'").unwrap().parse().unwrap()
    };
    let mut stream = alone.door.connect().unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    until(LIMIT, "the answer is there", || Ok(used(&mut operator) > 10 << 20)).unwrap();
    alone.others_are_well();
    until(LIMIT, "its memory is free again", || Ok(used(&mut operator) < 1 << 20)).unwrap();
    // A client that takes it gets all of it.
    let rows = alone.door.rows(sql).unwrap();
    assert_eq!((rows.len(), rows[39_999][1].as_str().unwrap().len()), (40_000, 500));
}

/// Silent connections take no place from those who log in.
fn many_connections_make_way(alone: &Alone) {
    let mut kept = alone.door.connect().unwrap();
    let request = format!("GET /v1/tables/version HTTP/1.1\r\n{}\r\n\r\n", bearer(HttpDoor::token("viewer")));
    let ask = |stream: &mut TcpStream| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        let mut rest = vec![0; 65_536];
        // The rest of it is short, and comes with it.
        let _ = stream.read(&mut rest).unwrap();
    };
    ask(&mut kept);
    let strangers: Vec<_> = (0..300).map(|_| alone.door.connect().unwrap()).collect();
    alone.others_are_well();
    let open = alone.door.metrics().unwrap();
    let open = open.iter().find(|(name, _)| name == "delphinus_http_connections").unwrap().1;
    assert!(open <= f64::from(PLACES), "{open}");
    assert!(alone.proxy.open_files().unwrap() < 200);
    ask(&mut kept);
    drop(strangers);
}

fn wrong_logins_wait_and_right_ones_do_not(door: &HttpDoor) {
    let status = |token: &str| door.send("GET", "/v1/tables", &[&bearer(token)], "").unwrap().status;
    let begun = Instant::now();
    let threads: Vec<_> = (0..8).map(|n| format!("wrong-token-{n}")).collect();
    std::thread::scope(|scope| {
        for token in &threads {
            scope.spawn(|| assert_eq!(status(token), 401));
        }
        assert_eq!(status(HttpDoor::token("viewer")), 200);
    });
    assert_eq!(status("wrong-token"), 401);
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
}
