//! The demo's own tool, a script in its folder: what an operator would type on a machine, without the words that lead there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::settings::{PORT, backend_name};
use super::{OneProxy, Site};
use crate::server::Server;

/// A process is known by the option with its configuration, as the folder's watchdog knows it; `--config FILE` of `delphinus ctl`
/// is written otherwise. `grep` gets what it looks for by its input, or it would find itself.
const SCRIPT: &str = r#"
usage() {
    echo "usage: $0 client [ARGUMENT...] | write | holder | primary | pid NAME | start NAME | ctl COMMAND | shell" >&2
    echo "names: proxy1 proxy2 db1 db2 db3 etcd holder primary" >&2
    exit 2
}
holder() {
    for one in proxy1 proxy2; do
        machine $one
        if nsenter "$net" ip -o addr show dev eth0 | grep -qF " $vip/32 "; then echo $one; fi
    done
}
primary() {
    for one in proxy1 proxy2; do
        name=$("$delphinus" ctl --config "$dir/$one.toml" \
            "SELECT name FROM backends WHERE role = 'primary' AND state = 'up'" --json 2>/dev/null |
            grep -o 'db[0-9]' | head -n 1)
        if [ -n "$name" ]; then echo "$name" && return; fi
    done
}
named() {
    case $1 in holder) holder ;; primary) primary ;; *) echo "$1" ;; esac
}
pid() {
    [ "$1" != etcd ] || { echo "$etcd"; return; }
    machine "$1"
    printf '%s\n' "$option" | grep -laF -f - /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3
}
start() {
    machine "$1"
    [ -z "$(pid "$1")" ] || { echo "$1 runs" >&2; exit 1; }
    if [ -n "$server" ]; then
        # A server that was killed has left them, and its number may not be free yet.
        rm -f "$dir/$server/sock" "$dir/$server/sock.lock"
        set -- "$mysqld" "$option" --user=root
    else
        set -- "$delphinus" run "$option"
    fi
    cd "$dir" && setsid nsenter "$net" "$@" </dev/null >>"$log" 2>&1 &
}
now_ms() {
    echo $(($(date +%s%N) / 1000000))
}
write() {
    lost=0
    while :; do
        began=$(now_ms)
        if said=$(client -BNe 'INSERT INTO visits (server_id) VALUES (@@server_id)' 2>&1); then
            took=$(($(now_ms) - began))
            [ $took -lt 1000 ] || echo "a write took $took ms"
            [ $lost = 0 ] || echo "writes again after $(($(now_ms) - lost)) ms"
            lost=0
        elif [ $lost = 0 ]; then
            lost=$began
            echo "$said"
        fi
        sleep 0.1
    done
}
client() {
    MYSQL_PWD=$password nsenter "$outside" timeout 20 "$mysql" --no-defaults --connect-timeout=2 -h "$vip" -P "$port" -u "$user" \
        -D "$database" "$@"
}
verb=$1
[ $# -eq 0 ] || shift
case $verb in
    client) client "$@" ;;
    write) write ;;
    holder | primary) $verb ;;
    pid | start) [ $# -eq 1 ] || usage; $verb "$(named "$1")" ;;
    ctl) "$delphinus" ctl --config "$dir/proxy1.toml" "$@" 2>/dev/null || "$delphinus" ctl --config "$dir/proxy2.toml" "$@" ;;
    shell) exec nsenter "$outside" "${SHELL:-sh}" ;;
    *) usage ;;
esac
"#;

/// The script.
pub(super) struct Tool {
    pub(super) path: PathBuf,
}

impl Tool {
    pub(super) fn write(site: &Site<'_>, proxies: &[OneProxy]) -> Result<Self> {
        let cluster = site.cluster;
        let program = proxies.first().context("no proxy")?.process.program().display().to_string();
        let outside = site.network.outside().launcher.pop().context("no way outside")?;
        let mysqld = cluster.server_program().display().to_string();
        let variables = [
            ("dir", cluster.dir().display().to_string()),
            ("delphinus", program),
            ("mysqld", mysqld),
            ("mysql", cluster.client_program().display().to_string()),
            ("vip", site.network.virtual_ip().to_string()),
            ("port", PORT.to_string()),
            ("user", cluster.app_user.clone()),
            ("password", cluster.app_password.clone()),
            ("database", cluster.database.clone()),
            ("outside", outside),
            ("etcd", site.store.pid().to_string()),
        ];
        let variables = variables.map(|(name, value)| format!("{name}='{value}'\n")).concat();
        let text = format!("#!/bin/sh\n{variables}{}{SCRIPT}", machines(site, proxies)?);
        let path = cluster.dir().join("ha");
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        Ok(Self { path })
    }
}

/// The function that sets what is to be known of a machine's process.
fn machines(site: &Site<'_>, proxies: &[OneProxy]) -> Result<String> {
    let dir = site.cluster.dir().display();
    let arm = |name: &str, launcher: &[String], (server, option, log): (&str, String, String)| {
        let net = launcher.last().context("no way to a machine")?;
        anyhow::Ok(format!("    {name}) net='{net}' server='{server}' option='{option}' log='{log}' ;;\n"))
    };
    let mut arms = Vec::new();
    for one in proxies {
        let (config, log) = one.settings.files();
        let option = format!("--config={}", config.display());
        arms.push(arm(one.name, &one.machine.launcher, ("", option, log.display().to_string()))?);
    }
    for (index, Server { name, .. }) in site.cluster.servers.iter().enumerate() {
        let option = format!("--defaults-file={dir}/{name}/my.cnf");
        let launcher = site.network.machine(super::FIRST_SERVER + index).launcher;
        let log = format!("{dir}/{name}/stdout.log");
        arms.push(arm(&backend_name(index), &launcher, (name, option, log))?);
    }
    Ok(format!("machine() {{\n    case $1 in\n{}    *) usage ;;\n    esac\n}}\n", arms.concat()))
}
