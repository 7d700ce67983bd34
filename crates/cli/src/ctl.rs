//! `delphinus ctl`: a command for the admin listener of a running proxy, and its answer as a table or as JSON.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::{Context, bail};
use delphinus_admin::{Asked, Place, Question, ask};
use delphinus_config::{Admin, AdminRole, AdminUser, Credential, ListenAddress};
use serde_json::{Map, Value, json};

use crate::args::CtlArgs;
use crate::load::{NOT_HERE, load_as_visitor, print_mistakes};
use crate::output::print;

/// The password, for those who do not want it in a file.
const VARIABLE: &str = "DELPHINUS_ADMIN_PASSWORD";

pub(crate) fn ctl(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let given = given_password(args)?;
    // Who says all of it needs no configuration.
    let admin = match (&args.address, &args.user, &given) {
        (Some(_), Some(_), Some(_)) => None,
        _ => match load_as_visitor(&args.config)? {
            Ok(config) => Some(config.admin.with_context(|| {
                format!("{} has no [admin]: the proxy cannot be asked", args.config.display())
            })?),
            Err(mistakes) => {
                print_mistakes(&args.config, &mistakes);
                return Ok(ExitCode::FAILURE);
            }
        },
    };
    let user = choose_user(args, admin.as_ref())?;
    let Some(password) = given.or(user.1) else {
        bail!("the password of {:?} is not to be had here: set {VARIABLE}, or use --password-file", user.0);
    };
    let question = Question::new(
        choose_place(args, admin.as_ref())?,
        user.0,
        password.as_bytes(),
        args.command.join(" "),
    );
    match ask(question.trusting(args.tls_ca.clone()))? {
        Asked::Done => {}
        Asked::Rows(columns, rows) if args.json => print(&as_json(&columns, &rows)?)?,
        Asked::Rows(columns, rows) => print(&as_table(&columns, &rows))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn given_password(args: &CtlArgs) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.password_file else { return Ok(std::env::var(VARIABLE).ok()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

/// The user, with the password where the configuration has it.
fn choose_user(args: &CtlArgs, admin: Option<&Admin>) -> anyhow::Result<(String, Option<String>)> {
    let users = admin.map(|admin| admin.users.as_slice()).unwrap_or_default();
    let chosen = match &args.user {
        Some(name) => users.iter().find(|user| user.name == *name),
        None => users.iter().find(|user| user.role == AdminRole::Operate).or_else(|| users.first()),
    };
    match (chosen, &args.user) {
        (Some(user), _) => Ok((user.name.clone(), password_of(user))),
        // Perhaps of a configuration that is not this one.
        (None, Some(name)) => Ok((name.clone(), None)),
        (None, None) => bail!("the configuration has no [[admin.user]]"),
    }
}

fn password_of(user: &AdminUser) -> Option<String> {
    match &user.credential {
        Credential::Password(password) if password.expose() != NOT_HERE => Some(password.expose().to_owned()),
        _ => None,
    }
}

/// Where to ask: a Unix socket before a port, which may have been taken by somebody else.
fn choose_place(args: &CtlArgs, admin: Option<&Admin>) -> anyhow::Result<Place> {
    let written = |text: &String| {
        text.parse::<ListenAddress>().map_err(|instead| anyhow::anyhow!("--address {text}: {instead}"))
    };
    if let Some(text) = &args.address {
        return Ok(place(&written(text)?));
    }
    let addresses = admin.map(|admin| admin.addresses.as_slice()).unwrap_or_default();
    let is_socket = |address: &&ListenAddress| matches!(address, ListenAddress::Unix(_));
    let address = addresses.iter().find(is_socket).or_else(|| addresses.first());
    match address.context("the configuration has no address of the admin listener")? {
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

type Row = Vec<Option<String>>;

fn as_json(columns: &[(String, bool)], rows: &[Row]) -> anyhow::Result<String> {
    let value = |(value, is_number): (&Option<String>, bool)| match value {
        None => Value::Null,
        Some(text) if is_number => text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)),
        Some(text) => json!(text),
    };
    let object = |row: &Row| {
        let pairs = columns.iter().zip(row);
        Value::Object(
            pairs.map(|((name, number), one)| (name.clone(), value((one, *number)))).collect::<Map<_, _>>(),
        )
    };
    let list: Vec<Value> = rows.iter().map(object).collect();
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Columns side by side, numbers to the right; without lines, so that it can be cut and searched.
fn as_table(columns: &[(String, bool)], rows: &[Row]) -> String {
    let shown = |value: &Option<String>| match value {
        None => "-".to_owned(),
        Some(text) => text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect(),
    };
    let mut lines = vec![columns.iter().map(|(name, _)| name.to_uppercase()).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| row.iter().map(shown).collect()));
    let width =
        |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|at| width(at).unwrap_or(0)).collect();
    let mut out = String::new();
    for line in &lines {
        let cells =
            line.iter().zip(&widths).zip(columns).map(|((cell, width), (_, is_number))| match is_number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> (Vec<(String, bool)>, Vec<Row>) {
        let columns = vec![("name".to_owned(), false), ("weight".to_owned(), true)];
        let row = |name: Option<&str>, weight: &str| vec![name.map(str::to_owned), Some(weight.to_owned())];
        (columns, vec![row(Some("db1"), "100"), row(None, "7"), row(Some("d\u{1b}[1m"), "0")])
    }

    #[test]
    fn tables_are_aligned_and_hold_no_control_characters() {
        let (columns, rows) = answer();
        assert_eq!(as_table(&columns, &rows), "NAME   WEIGHT\ndb1       100\n-           7\nd [1m       0\n");
    }

    #[test]
    fn json_has_numbers_and_nulls() {
        let (columns, rows) = answer();
        let list: Value = serde_json::from_str(&as_json(&columns, &rows).unwrap()).unwrap();
        assert_eq!(list[0], json!({ "name": "db1", "weight": 100 }));
        assert_eq!(list[1], json!({ "name": null, "weight": 7 }));
    }

    #[test]
    fn a_listener_on_all_addresses_is_reached_over_loopback() {
        let reached = |text: &str| place(&text.parse().unwrap());
        assert_eq!(reached("0.0.0.0:1"), Place::Tcp("127.0.0.1:1".parse().unwrap()));
        assert_eq!(reached("[::]:1"), Place::Tcp("[::1]:1".parse().unwrap()));
        assert_eq!(reached("unix:/a"), Place::Unix("/a".into()));
    }
}
