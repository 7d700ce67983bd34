//! The programs that the sandbox's tests start as processes of their own.
//!
//! `owner FLAVOR` owns a cluster until it is killed; `demo FLAVOR ARGUMENTS` runs the demo with this very
//! program in the proxy's place; `run --config=FILE` is that stand-in: it relays bytes between the
//! listener and the first backend, which is all that the demo's own logic can tell from a proxy.

use std::io::{Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, bail};
use delphinus_sandbox::{Cluster, ClusterSpec, DemoOptions, Silent, run_demo};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["owner", flavor] => own(flavor),
        ["demo", flavor, rest @ ..] => std::process::exit(demo(flavor, rest)?),
        ["run", option] => relay(option.strip_prefix("--config=").context("run --config=FILE")?),
        _ => bail!("unknown arguments {words:?}"),
    }
}

fn own(flavor: &str) -> Result<()> {
    let spec = ClusterSpec { flavor: flavor.parse()?, ..ClusterSpec::default() };
    let cluster = Cluster::start(&spec, &Silent)?;
    let told = serde_json::json!({ "dir": cluster.dir(), "backends": cluster.backends_json() });
    writeln!(std::io::stdout(), "{told}")?;
    loop {
        thread::park();
    }
}

fn demo(flavor: &str, rest: &[&str]) -> Result<i32> {
    let mut options = DemoOptions::new(flavor.parse()?, std::env::current_exe()?);
    options.replicas = 1;
    for argument in rest {
        match argument.split_once('=') {
            Some(("--exec", text)) => options.exec = Some(text.to_owned()),
            Some(("--config", file)) => options.config_overlay = Some(file.into()),
            Some(("--proxy", file)) => options.proxy_binary = file.into(),
            _ => bail!("unknown argument {argument}"),
        }
    }
    run_demo(options)
}

fn relay(file: &str) -> Result<()> {
    let table: toml::Table = std::fs::read_to_string(file)?.parse()?;
    let address = |list: &toml::Value| {
        list.get(0).and_then(|entry| entry.get("address")).and_then(toml::Value::as_str).map(str::to_owned)
    };
    let listen = table.get("listener").and_then(address).context("no listener")?;
    let backend = table.get("cluster").and_then(|cluster| cluster.get("backend")).and_then(address);
    let backend = backend.context("no backend")?;
    for client in TcpListener::bind(listen)?.incoming() {
        let (client, backend) = (client?, TcpStream::connect(&backend)?);
        pass(client.try_clone()?, backend.try_clone()?);
        pass(backend, client);
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
