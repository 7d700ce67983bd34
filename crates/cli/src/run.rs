//! `delphinus run`: the configuration, the log, then the proxy until a signal ends it.

use std::process::ExitCode;

use delphinus_app::{ConfigStore, log_settings};
use delphinus_config::Mistake;
use delphinus_telemetry::start_logging;

use crate::args::RunArgs;
use crate::load::{load, print_mistakes, read_text, replace, text_of};

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let config = match load(&args.config)? {
        Ok(config) => config,
        Err(mistakes) => {
            print_mistakes(&args.config, &mistakes);
            return Ok(ExitCode::FAILURE);
        }
    };
    let log = start_logging(&log_settings(&config))?;
    let (read, written, meant) = (args.config.clone(), args.config.clone(), args.config.clone());
    let store = ConfigStore {
        text: text_of(&args.config)?,
        read: Box::new(move || text_of(&read).map_err(|error| format!("{error:#}"))),
        parse: Box::new(move |text| {
            let told = |mistakes: Vec<Mistake>| {
                mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            };
            read_text(text, &meant).map_err(told)
        }),
        write: Box::new(move |text| replace(&written, text).map_err(|error| format!("{error:#}"))),
        log,
    };
    delphinus_app::run(config, Some(store))?;
    Ok(ExitCode::SUCCESS)
}
