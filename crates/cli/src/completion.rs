//! `delphinus completion`: prints a completion script.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, CompletionArgs};
use crate::output::print;

pub(crate) fn print_completion(args: &CompletionArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "delphinus", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
