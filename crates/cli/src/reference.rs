//! `delphinus config reference`: prints every option.

use std::process::ExitCode;

use delphinus_config::{OptionDoc, options, reference};
use serde_json::{Value, json};

use crate::args::{ReferenceArgs, ReferenceFormat};
use crate::output::print;

pub(crate) fn print_reference(args: &ReferenceArgs) -> anyhow::Result<ExitCode> {
    match args.format {
        ReferenceFormat::Markdown => print(&reference())?,
        ReferenceFormat::Json => {
            let list: Vec<Value> = options().iter().map(as_json).collect();
            print(&(serde_json::to_string_pretty(&list)? + "\n"))?;
        }
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
