//! `delphinus check`: names every mistake in a file.

use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::load::{load, print_mistakes};
use crate::output::print;

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    match load(&args.file)? {
        Ok(_) => {
            print("ok\n")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => {
            print_mistakes(&args.file, &mistakes);
            Ok(ExitCode::FAILURE)
        }
    }
}
