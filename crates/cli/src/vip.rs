//! `delphinus vip check`: whether virtual IPs can work on this host, and whether a failover can on its servers.

use std::process::ExitCode;

use delphinus_app::{VipFinding, check_failover, check_vips};
use serde_json::json;

use crate::args::VipCheckArgs;
use crate::load::{load_and_look, print_mistakes};
use crate::output::print;

/// Something is not as it has to be.
const NOT_READY: u8 = 3;

pub(crate) fn check(args: &VipCheckArgs) -> anyhow::Result<ExitCode> {
    let (loaded, _) = load_and_look(&args.config)?;
    let config = match loaded {
        Ok(config) => config,
        Err(mistakes) => {
            print_mistakes(&args.config, &mistakes);
            return Ok(ExitCode::FAILURE);
        }
    };
    let held = args.held;
    let mut found = check_vips(&config, |_| held);
    found.extend(check_failover(&config)?);
    print(&if args.json { as_json(&found)? } else { as_text(&found) })?;
    let is_ready = found.iter().all(|one| one.is_ok);
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::from(NOT_READY) })
}

fn as_json(found: &[VipFinding]) -> anyhow::Result<String> {
    let object = |one: &VipFinding| {
        json!({
            "vip": one.vip,
            "address": one.address,
            "check_name": one.check,
            "ok": one.is_ok,
            "result": one.result,
            "advice": if one.is_ok { "" } else { &*one.advice },
        })
    };
    Ok(serde_json::to_string_pretty(&found.iter().map(object).collect::<Vec<_>>())? + "\n")
}

fn as_text(found: &[VipFinding]) -> String {
    let line = |one: &VipFinding| {
        let sign = if one.is_ok { "ok  " } else { "NOT " };
        let address = one.address.map_or_else(String::new, |address| format!(" {address}"));
        let advice = if one.is_ok { String::new() } else { format!("\n       do: {}", one.advice) };
        format!("{sign} {}{address}: {}: {}{advice}\n", one.vip, one.check, one.result)
    };
    found.iter().map(line).collect()
}
