//! etcd that asks for a user, and etcd that asks for a certificate and a user: a lease is taken and renewed, users change meanwhile, the
//! watch outlives its token, and `delphinus vip check` says what is wrong with a password or a certificate.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_e2e::{Authority, Etcd, Guard, Link, Pair, Proxy, proxy_binary, run, until};

const LIMIT: Duration = Duration::from_secs(40);
const TTL: &str = "3";
/// The key that the process holds by its lease.
const KEY: &str = "/delphinus/main/members/one";
/// What the process is let in by.
const USER: &str = "user = \"members\"\npassword = \"right\"\n";

#[test]
fn a_lease_is_kept_where_etcd_asks_for_a_user() {
    let mut etcd = with_tokens("5m");
    add_users(&mut etcd);
    let config = config(&etcd, "run", USER);
    assert_eq!(check(&config), (Some(0), String::new()));
    let process = start(&config);
    let held = is_renewed(&etcd, None);
    // Any change of users makes each token old that etcd has signed.
    etcd.ask(&["user", "add", "other:pw"]).unwrap();
    is_renewed(&etcd, Some(held));

    let refused = |name: &str, lines: &str, why: &str| {
        let (code, said) = check(&self::config(&etcd, name, lines));
        assert!(code == Some(3) && said.contains(why), "{name}: {code:?} {said}");
        assert!(said.contains("do: start etcd, and correct endpoints, certificates or the user"), "{said}");
    };
    let failed = "authentication failed, invalid user ID or password";
    refused("wrong-password", "user = \"members\"\npassword = \"wrong\"\n", failed);
    refused("no-such-user", "user = \"nobody\"\npassword = \"right\"\n", failed);
    refused("no-user", "", "user name is empty");
    refused("no-rights", "user = \"other\"\npassword = \"pw\"\n", "permission denied");

    // The password is changed while the process runs, and back again.
    let members = |password: &str| {
        etcd.ask(&["user", "delete", "members"]).unwrap();
        etcd.ask(&["user", "add", &format!("members:{password}")]).unwrap();
        etcd.ask(&["user", "grant-role", "members", "members"]).unwrap();
    };
    members("another");
    until(LIMIT, "the process to say so", || Ok(process.log().contains(failed))).unwrap();
    until(LIMIT, "the end of its lease", || Ok(entry(&etcd).is_none())).unwrap();
    members("right");
    until(LIMIT, "another lease", || Ok(entry(&etcd).is_some())).unwrap();
    assert!(process.log().contains("the lease store answers again"), "{}", process.log());
}

/// etcd ends a watch with an old token in a line behind the status 200, and leaves the stream open.
#[test]
fn changes_are_heard_again_after_a_token_has_expired() {
    let mut etcd = with_tokens("2s");
    add_users(&mut etcd);
    let port = etcd.endpoint.rsplit(':').next().unwrap().parse().unwrap();
    let link = Link::to("127.0.0.1", port).unwrap();
    let through_link = format!("http://127.0.0.1:{}", link.port);
    let _process = start(&config_to(&through_link, &etcd.folder().join("link"), USER));
    let has_watches = |count: u64| -> Result<bool> { Ok(watches(&etcd)? == count) };
    until(LIMIT, "a watch", || has_watches(1)).unwrap();
    // A lease lasts longer than a token. The watch itself goes on with an old one.
    outlast_a_lease(&etcd);
    let is_ended = || {
        link.reset_one();
        has_watches(0)
    };
    until(LIMIT, "the end of the watch", is_ended).unwrap();
    until(LIMIT, "another watch", || has_watches(1)).unwrap();
}

#[test]
fn a_lease_is_kept_where_etcd_asks_for_a_certificate_and_a_user() {
    let folder = Folder::new();
    let [ours, others] = ["ours", "others"].map(|name| Authority::new(&folder.0, name).unwrap());
    let certify = |by: &Authority, name: &str, common_name| {
        by.certify(&folder.0, (name, "127.0.0.1"), common_name).unwrap()
    };
    let server = certify(&ours, "server", Some("etcd"));
    let named = certify(&ours, "named", Some("one"));
    let client = certify(&ours, "client", None);
    let stranger = certify(&others, "stranger", None);
    let mut etcd = with_certificates(&ours, &server, &client);

    let lines = |user: &str, ca: &Authority, own: Option<&Pair>| {
        let ca = format!("tls_ca = \"{}\"\n", ca.file.display());
        let own = own.map(|own| {
            format!("tls_cert = \"{}\"\ntls_key = \"{}\"\n", own.cert.display(), own.key.display())
        });
        format!("{user}{ca}{}", own.unwrap_or_default())
    };
    // As long as there are no users, the certificate may have a name.
    let right = config(&etcd, "without-users", &lines("", &ours, Some(&named)));
    // The first answers of an etcd that has just started may take longer than the check waits.
    let is_right = |config: &Path| Ok(check(config) == (Some(0), String::new()));
    until(LIMIT, "a check that finds nothing", || is_right(&right)).unwrap();
    add_users(&mut etcd);
    let right = config(&etcd, "run", &lines(USER, &ours, Some(&client)));
    until(LIMIT, "a check that finds nothing", || is_right(&right)).unwrap();
    let _process = start(&right);
    is_renewed(&etcd, None);

    for (name, lines, why) in [
        ("no-certificate", lines(USER, &ours, None), "certificate"),
        ("certificate-of-others", lines(USER, &ours, Some(&stranger)), "certificate"),
        ("certificate-with-a-name", lines(USER, &ours, Some(&named)), "CommonName"),
        ("authority-of-others", lines(USER, &others, Some(&client)), "UnknownIssuer"),
    ] {
        let config = config(&etcd, name, &lines);
        let mut last = None;
        // A busy machine may take longer to check a password than the check waits. That is no word of etcd's.
        until(LIMIT, "a word of etcd's", || {
            let said = check(&config);
            let is_told = !said.1.contains("timeout: ");
            last = Some(said);
            Ok(is_told)
        })
        .unwrap();
        let (code, said) = last.unwrap();
        assert!(code == Some(3) && said.contains(why), "{name}: {code:?} {said}");
    }
}

/// It signs its tokens (JWT), which last so long.
fn with_tokens(ttl: &str) -> Etcd {
    let folder = Folder::new();
    let secret = folder.0.join("secret");
    fs::write(&secret, "a secret that signs tokens").unwrap();
    let tokens = format!("jwt,priv-key={},sign-method=HS256,ttl={ttl}", secret.display());
    let asks = vec!["--auth-token".to_owned(), tokens];
    Etcd::start_guarded(Guard { asks, ..Guard::default() }).unwrap()
}

/// It keeps its tokens.
fn with_certificates(ours: &Authority, server: &Pair, client: &Pair) -> Etcd {
    let option = |name: &str, file: &Path| [format!("--{name}"), file.display().to_string()];
    let asks = [
        option("cert-file", &server.cert),
        option("key-file", &server.key),
        option("trusted-ca-file", &ours.file),
    ];
    let asks = asks.into_iter().flatten().chain(["--client-cert-auth".to_owned()]).collect();
    let let_in =
        [option("cacert", &ours.file), option("cert", &client.cert), option("key", &client.key)].concat();
    Etcd::start_guarded(Guard { has_tls: true, asks, let_in }).unwrap()
}

/// etcd's own administrator, and a user with the right to the keys of the members alone.
fn add_users(etcd: &mut Etcd) {
    for words in [
        "user add root:administrator",
        "user grant-role root root",
        "role add members",
        "role grant-permission members --prefix=true readwrite /delphinus/",
        "user add members:right",
        "user grant-role members members",
        "auth enable",
    ] {
        etcd.ask(&words.split(' ').collect::<Vec<_>>()).unwrap();
    }
    etcd.let_in.extend(["--user".to_owned(), "root:administrator".to_owned()]);
}

/// The file of a process that holds a key by a lease and needs no server for that.
fn config(etcd: &Etcd, name: &str, lines: &str) -> PathBuf {
    config_to(&etcd.endpoint, &etcd.folder().join(name), lines)
}

/// The same with another way to etcd.
fn config_to(endpoint: &str, folder: &Path, lines: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let text = format!(
        "[proxy]\ndata_dir = \"{}\"\n[cluster]\n[[cluster.backend]]\nname = \"db\"\naddress = \"127.0.0.1:1\"\nrole = \"primary\"\n\
         [monitor]\nuser = \"monitor\"\npassword = \"pw\"\n\
         [lease]\nstore = \"etcd\"\nendpoints = [\"{endpoint}\"]\nmember = \"one\"\nlocal_backend = \"db\"\nttl_s = {TTL}\n{lines}",
        folder.display()
    );
    let file = folder.join("delphinus.toml");
    fs::write(&file, text).unwrap();
    file
}

fn start(config: &Path) -> Proxy {
    let words = ["agent".to_owned(), "--config".to_owned(), config.display().to_string()];
    Proxy::start_program(proxy_binary().unwrap(), words.into(), config.with_extension("log")).unwrap()
}

/// The exit code of `delphinus vip check`, and the lines of it that are not well.
fn check(config: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(proxy_binary().unwrap());
    command.args(["vip", "check", "--config"]).arg(config);
    let outcome = run(&mut command, LIMIT).unwrap();
    let lines = outcome.output.lines().filter(|line| !line.starts_with("ok "));
    (outcome.status.code(), lines.collect::<Vec<_>>().join("\n"))
}

/// The lease and the revision with which the process has taken its key, if it is there.
fn entry(etcd: &Etcd) -> Option<[u64; 2]> {
    let said = etcd.ask(&["get", KEY, "--write-out", "json"]).unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let found = said["kvs"].get(0)?;
    Some(["lease", "create_revision"].map(|name| found[name].as_u64().unwrap()))
}

/// How many watches etcd keeps.
fn watches(etcd: &Etcd) -> Result<u64> {
    const NAME: &str = "etcd_debugging_mvcc_watcher_total ";
    let mut stream = TcpStream::connect(etcd.endpoint.trim_start_matches("http://"))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let line = said.lines().find_map(|line| line.strip_prefix(NAME));
    Ok(line.context("etcd does not count its watches")?.trim().parse()?)
}

/// The process has its key for longer than a lease lasts that nobody renews; and since then, if it had it before.
fn is_renewed(etcd: &Etcd, before: Option<[u64; 2]>) -> [u64; 2] {
    until(LIMIT, "the key of the process", || Ok(entry(etcd).is_some())).unwrap();
    let held = entry(etcd).unwrap();
    outlast_a_lease(etcd);
    assert_eq!(entry(etcd), Some(held), "the lease of the process has ended");
    assert!(before.is_none_or(|before| before == held), "the process had to take another lease");
    held
}

/// Returns when a lease that nobody renews has come to its end.
fn outlast_a_lease(etcd: &Etcd) {
    let granted = etcd.ask(&["lease", "grant", TTL]).unwrap();
    let lease = granted.split(' ').nth(1).unwrap();
    etcd.ask(&["put", "/clock", "ticks", &format!("--lease={lease}")]).unwrap();
    let is_over = || Ok(etcd.ask(&["get", "/clock"])?.trim().is_empty());
    until(LIMIT, "the end of a lease that nobody renews", is_over).unwrap();
}

/// A folder that goes with its owner. etcd reads its files when it starts, and the certificates again for each connection.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("delphinus-guarded-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
