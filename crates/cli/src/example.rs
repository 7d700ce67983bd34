//! `delphinus config example`: prints a configuration to start from.

use std::process::ExitCode;

use crate::output::print;

pub(crate) fn print_example() -> anyhow::Result<ExitCode> {
    print(delphinus_config::example())?;
    Ok(ExitCode::SUCCESS)
}
