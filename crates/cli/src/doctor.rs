//! `delphinus doctor`: what is wrong with a configuration and its servers.

use std::fmt::Write;
use std::process::ExitCode;

use delphinus_app::look_for_faults;
use delphinus_config::Config;
use delphinus_doctor::{Finding, Severity};
use serde_json::json;

use crate::args::DoctorArgs;
use crate::load::{load_and_look, print_mistakes};
use crate::output::print;

/// Something serious was found.
const SERIOUS: u8 = 3;

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let (loaded, warnings) = load_and_look(&args.config)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let config = match loaded {
        Ok(config) => config,
        Err(mistakes) => {
            print_mistakes(&args.config, &mistakes);
            return Ok(ExitCode::FAILURE);
        }
    };
    let found = look_for_faults(&config)?;
    print(&if args.json { as_json(&found)? } else { as_text(&found, &config) })?;
    let is_serious = found.iter().any(|finding| finding.severity == Severity::Serious);
    Ok(if is_serious { ExitCode::from(SERIOUS) } else { ExitCode::SUCCESS })
}

fn as_json(found: &[Finding]) -> anyhow::Result<String> {
    let object = |one: &Finding| {
        json!({
            "severity": one.severity.as_str(),
            "check_name": one.check,
            "object": one.object,
            "found": one.found,
            "why": one.why,
            "fix": one.fix,
        })
    };
    Ok(serde_json::to_string_pretty(&found.iter().map(object).collect::<Vec<_>>())? + "\n")
}

fn as_text(found: &[Finding], config: &Config) -> String {
    let mut out = String::new();
    // What servers say is shown to a terminal.
    let shown =
        |text: &str| text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect::<String>();
    for one in found {
        let _ = writeln!(out, "{}: {}: {}", one.severity.as_str(), one.check, shown(&one.object));
        for (name, text) in [("found", &*one.found), ("why", one.why), ("fix", &*one.fix)] {
            let _ = writeln!(out, "  {name:>5}: {}", shown(text));
        }
        out.push('\n');
    }
    let backends: usize = config.clusters.iter().map(|cluster| cluster.backends.len()).sum();
    let count = |severity| found.iter().filter(|one| one.severity == severity).count();
    let [serious, warnings, notes] = [Severity::Serious, Severity::Warning, Severity::Note].map(count);
    let _ = match found.len() {
        0 => writeln!(out, "nothing found; {backends} backends were checked"),
        _ => writeln!(
            out,
            "{serious} serious, {warnings} warnings, {notes} notes; {backends} backends were checked"
        ),
    };
    out
}
