//! `delphinus ctl`: a command for the admin listener of a running proxy, once or again and again; its answer: `ctl/answer.rs`; the
//! same over HTTP: `ctl/http.rs`.
//!
//! It has to work when the proxy needs mending: the configuration file may have mistakes, and only what it says of operators counts.

mod answer;
mod http;

use std::cell::Cell;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use delphinus_admin::{AskError, Asked, Place, Question, ask, watch};
use delphinus_config::{AdminAccess, AdminRole, AdminUser, Credential, ListenAddress};
use delphinus_http::Inquiry;

use crate::args::CtlArgs;
use crate::load::{NOT_HERE, admin_access};
use crate::output::{print, print_on};
use answer::Look;

/// The password, for those who do not want it in a file.
const VARIABLE: &str = "DELPHINUS_ADMIN_PASSWORD";
/// Terminals show the next text at the top, and nothing of the one before.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(crate) fn ctl(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let (command, look) = command(args);
    let way = match &args.url {
        Some(url) => Way::Http(http::inquiry(args, url, command.clone())?),
        None => Way::Admin(question(args, command.clone())?),
    };
    let limit = args.timeout.map(Duration::from_secs);
    match args.watch {
        Some(seconds) => watch_on(&way, &command, (limit, seconds), look)?,
        None => print(&look.text(&way.ask(limit)?)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How the proxy is asked.
enum Way {
    /// The admin listener.
    Admin(Question),
    /// The HTTP door.
    Http(Inquiry),
}

impl Way {
    fn ask(&self, limit: Option<Duration>) -> anyhow::Result<Asked> {
        Ok(match self {
            Self::Admin(question) => ask(question, limit)?,
            Self::Http(inquiry) => delphinus_http::ask(inquiry, limit)?,
        })
    }

    /// Again and again. True if the connection was lost, for this reason.
    fn watch(
        &self,
        limit: Option<Duration>,
        pause: Duration,
        told: impl FnMut(Asked) -> ControlFlow<()>,
    ) -> Result<(), (bool, anyhow::Error)> {
        match self {
            Self::Admin(question) => watch(question, limit, pause, told)
                .map_err(|error| (matches!(error, AskError::Net(_)), error.into())),
            Self::Http(inquiry) => delphinus_http::watch(inquiry, limit, pause, told)
                .map_err(|error| (error.is_about_the_way(), error.into())),
        }
    }
}

/// The command without its end, and how its answer is to look.
fn command(args: &CtlArgs) -> (String, Look) {
    let text = args.command.join(" ");
    let text = text.trim();
    let (text, is_vertical) = match text.strip_suffix("\\G") {
        Some(before) => (before.trim_end(), true),
        None => (text.strip_suffix("\\g").unwrap_or(text), args.vertical),
    };
    let look = match (args.json, is_vertical) {
        (true, _) if args.watch.is_some() => Look::JsonLine,
        (true, _) => Look::Json,
        (false, true) => Look::Vertical,
        (false, false) => Look::Table,
    };
    (text.to_owned(), look)
}

/// Until Ctrl-C, an error, or the end of who reads. A connection that is lost is made again.
fn watch_on(
    way: &Way,
    command: &str,
    (limit, seconds): (Option<Duration>, u64),
    look: Look,
) -> anyhow::Result<()> {
    let pause = Duration::from_secs(seconds);
    let head = match (look, std::io::stdout().is_terminal()) {
        (Look::JsonLine, _) => String::new(),
        (_, true) => format!("{CLEAR}every {seconds} s: {command}\n\n"),
        (_, false) => "\n".to_owned(),
    };
    let (is_first, failed) = (Cell::new(true), Cell::new(None));
    let told = |asked: Asked| {
        let head = if is_first.replace(false) && !head.starts_with(CLEAR) { "" } else { &head };
        match look.text(&asked).and_then(|text| print_on(&format!("{head}{text}"))) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                failed.set(Some(error));
                ControlFlow::Break(())
            }
        }
    };
    loop {
        match way.watch(limit, pause, told) {
            Ok(()) => return failed.take().map_or(Ok(()), Err),
            Err((true, error)) if !is_first.get() => {
                eprintln!("delphinus: {error}; trying again");
            }
            // It never had an answer, or never will have another.
            Err((_, error)) => return Err(error),
        }
        std::thread::sleep(pause);
    }
}

/// What is asked, of whom, and as whom. The file counts only for what the options do not say.
fn question(args: &CtlArgs, command: String) -> anyhow::Result<Question> {
    let given = given_password(args)?;
    let access = match (&args.address, &args.user, &given) {
        (Some(_), Some(_), Some(_)) => AdminAccess::default(),
        _ => admin_access(&args.config)?,
    };
    let (name, known) = choose_user(args, &access)?;
    let Some(password) = given.or(known) else {
        bail!("there is no password for {name:?} here: set {VARIABLE}, or use --password-file");
    };
    let place = choose_place(args, &access)?;
    Ok(Question::new(place, name, password.as_bytes(), command).trusting(args.tls_ca.clone()))
}

fn given_password(args: &CtlArgs) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.password_file else { return Ok(std::env::var(VARIABLE).ok()) };
    Ok(Some(line_of(path)?))
}

/// What a file holds, without the line end that editors add.
fn line_of(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// The user, with the password where the configuration has it.
fn choose_user(args: &CtlArgs, access: &AdminAccess) -> anyhow::Result<(String, Option<String>)> {
    let users = &access.users;
    let most = || AdminRole::ALL.iter().rev().find_map(|role| users.iter().find(|user| user.role == *role));
    let named = |name: &String| users.iter().find(|user| user.name == *name);
    let chosen = args.user.as_ref().map_or_else(most, named);
    match (chosen, &args.user) {
        (Some(user), _) => Ok((user.name.clone(), password_of(user))),
        // Perhaps of a configuration that is not this one.
        (None, Some(name)) => Ok((name.clone(), None)),
        (None, None) => bail!(
            "{} has no [[admin.user]] that can be read: use --user, and --password-file or {VARIABLE}",
            args.config.display()
        ),
    }
}

fn password_of(user: &AdminUser) -> Option<String> {
    match &user.credential {
        Credential::Password(password) if password.expose() != NOT_HERE => Some(password.expose().to_owned()),
        _ => None,
    }
}

/// Where to ask: a Unix socket before a port, which may have been taken by somebody else.
fn choose_place(args: &CtlArgs, access: &AdminAccess) -> anyhow::Result<Place> {
    let written = |text: &String| {
        text.parse::<ListenAddress>().map_err(|instead| anyhow::anyhow!("--address {text}: {instead}"))
    };
    if let Some(text) = &args.address {
        return Ok(place(&written(text)?));
    }
    let addresses = &access.addresses;
    let is_socket = |address: &&ListenAddress| matches!(address, ListenAddress::Unix(_));
    let address = addresses.iter().find(is_socket).or_else(|| addresses.first());
    let missing =
        || format!("{} has no addresses in [admin] that can be read: use --address", args.config.display());
    match address.with_context(missing)? {
        ListenAddress::Tcp(address) if address.port() == 0 => {
            bail!("the admin listener is on a port that the kernel chose: write it with --address")
        }
        address => Ok(place(address)),
    }
}

/// A listener on all addresses is reached over loopback.
fn place(address: &ListenAddress) -> Place {
    match address {
        ListenAddress::Tcp(address) => {
            let ip = match address.ip() {
                ip if !ip.is_unspecified() => ip,
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            Place::Tcp(SocketAddr::new(ip, address.port()))
        }
        ListenAddress::Unix(path) => Place::Unix(path.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_over_loopback() {
        let reached = |text: &str| place(&text.parse().unwrap());
        assert_eq!(reached("0.0.0.0:1"), Place::Tcp("127.0.0.1:1".parse().unwrap()));
        assert_eq!(reached("[::]:1"), Place::Tcp("[::1]:1".parse().unwrap()));
        assert_eq!(reached("unix:/a"), Place::Unix("/a".into()));
    }
}
