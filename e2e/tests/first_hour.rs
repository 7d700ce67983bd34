//! What goes wrong when somebody sets the proxy up for the first time is said, and says what to do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Login, Proxy, ServerError, Stage, until};
use delphinus_sandbox::Flavor;

/// How long the proxy may take to notice something.
const NOTICE: Duration = Duration::from_secs(20);
/// What a login may take that is refused at once, on a busy machine; one that waits takes 8 s.
const AT_ONCE: Duration = Duration::from_secs(4);

#[test]
fn wrong_passwords_are_said_and_traffic_goes_on_where_it_can() {
    let users = vec![("ghost".to_owned(), "ghost".to_owned())];
    let mut stage = Stage::with(Flavor::MariaDb, &ConfigFile { users, ..ConfigFile::default() }).unwrap();
    let (mut other, address) = with_wrong_monitor_password(&stage);
    until(NOTICE, "the second proxy to say it", || Ok(other.log().contains("not ready"))).unwrap();
    let begun = Instant::now();
    let error = Client::connect(&Login::new(&address)).unwrap_err();
    let waited = begun.elapsed();
    let message = &error.downcast_ref::<ServerError>().unwrap().message;
    assert!(waited < AT_ONCE && message.contains("monitor's user"), "{waited:?} {message}");
    let log = other.log();
    assert!(!log.contains("backend is up") && log.contains("cannot log in"), "{log}");

    // Now its password is right, and that of the first proxy is wrong.
    stage.cluster.servers[0].query("ALTER USER monitor@'%' IDENTIFIED BY 'wrong'").unwrap();
    until(NOTICE, "the second proxy to serve", || Ok(address.connect()?.value("SELECT 1")? == "1")).unwrap();
    let ready = |log: &str| log.lines().any(|line| line.contains(" ready") && !line.contains("not ready"));
    until(NOTICE, "the second proxy to be ready", || Ok(ready(&other.log()))).unwrap();
    for server in &stage.cluster.servers {
        server.query("KILL USER monitor").unwrap();
    }
    let first = stage.proxy.as_ref().unwrap();
    until(NOTICE, "the fault", || Ok(first.log().matches("denied").count() >= 3)).unwrap();
    assert_eq!(stage.address.connect().unwrap().value("SELECT 1").unwrap(), "1");
    other.stop(NOTICE).unwrap();
    a_refused_user_is_said(&mut stage);
}

/// A copy of the first proxy before the same servers.
fn with_wrong_monitor_password(stage: &Stage) -> (Proxy, Address) {
    let own = stage.address.socket.parent().unwrap();
    let folder = own.join("other");
    fs::create_dir(&folder).unwrap();
    let text = fs::read_to_string(own.join("delphinus.toml")).unwrap();
    let text = text
        .replace(&own.display().to_string(), &folder.display().to_string())
        .replace(&format!("127.0.0.1:{}\"", stage.address.port), "127.0.0.1:0\"")
        .replace("monitorpw", "wrong");
    let file = folder.join("delphinus.toml");
    fs::write(&file, text).unwrap();
    (Proxy::start(&file).unwrap(), Address { socket: folder.join("sock"), ..stage.address.clone() })
}

/// One that the proxy knows and the servers do not.
fn a_refused_user_is_said(stage: &mut Stage) {
    let ghost = Address { user: "ghost".to_owned(), password: "ghost".to_owned(), ..stage.address.clone() };
    for _ in 0..10 {
        let asked = ghost.connect().and_then(|mut client| client.value("SELECT 1 FROM app.answered_by"));
        assert!(asked.is_err(), "nobody lets it in: {asked:?}");
    }
    let log = stage.proxy().unwrap().log();
    let lines = log.lines().filter(|line| line.contains("refuses the user's password")).count();
    assert!((1..=3).contains(&lines), "one for each backend that was asked: {lines}\n{log}");
}
