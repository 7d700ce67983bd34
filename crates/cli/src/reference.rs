//! `delphinus config reference`: prints every option; or every command of operators, everything that is counted, or why sessions are pinned.

use std::process::ExitCode;

use delphinus_config::{OptionDoc, options, reference};
use serde_json::{Value, json};

use crate::args::{ReferenceArgs, ReferenceFormat, ReferenceOf};
use crate::output::print;

pub(crate) fn print_reference(args: &ReferenceArgs) -> anyhow::Result<ExitCode> {
    match (args.format, args.of) {
        (ReferenceFormat::Markdown, ReferenceOf::Options) => print(&reference())?,
        (ReferenceFormat::Markdown, ReferenceOf::Commands) => print(&delphinus_admin::reference())?,
        (ReferenceFormat::Markdown, ReferenceOf::Status) => print(&delphinus_admin::status_reference())?,
        (ReferenceFormat::Markdown, ReferenceOf::Metrics) => {
            print(&delphinus_admin::metrics_reference(&delphinus_http::METRICS))?;
        }
        (ReferenceFormat::Markdown, ReferenceOf::Tables) => print(&delphinus_admin::tables_reference())?,
        (ReferenceFormat::Markdown, ReferenceOf::Pins) => print(&delphinus_admin::pins_reference())?,
        (ReferenceFormat::Json, ReferenceOf::Options) => {
            let list: Vec<Value> = options().iter().map(as_json).collect();
            print(&(serde_json::to_string_pretty(&list)? + "\n"))?;
        }
        (ReferenceFormat::Json, _) => anyhow::bail!("only the options can be printed as JSON"),
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(option: &OptionDoc) -> Value {
    json!({
        "path": option.path,
        "kind": option.kind,
        "unit": option.unit,
        "default": option.default,
        "default_is_literal": option.has_literal_default,
        "reload": option.reload.as_str(),
        "aliases": option.aliases,
        "text": option.text,
    })
}
