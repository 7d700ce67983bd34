//! `delphinus run`: the configuration, the log, then the proxy until a signal ends it.

use std::process::ExitCode;

use delphinus_app::{Rereading, log_level};
use delphinus_config::{Config, LogFormat};
use delphinus_telemetry::{LogSettings, start_logging};

use crate::args::RunArgs;
use crate::load::{load, print_mistakes};

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let config = match load(&args.config)? {
        Ok(config) => config,
        Err(mistakes) => {
            print_mistakes(&args.config, &mistakes);
            return Ok(ExitCode::FAILURE);
        }
    };
    let log = start_logging(&log_settings(&config))?;
    let file = args.config.clone();
    let read = Box::new(move || match load(&file).map_err(|error| format!("{error:#}"))? {
        Ok(config) => Ok(config),
        Err(mistakes) => Err(mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    });
    delphinus_app::run(config, Some(Rereading { read, log }))?;
    Ok(ExitCode::SUCCESS)
}

fn log_settings(config: &Config) -> LogSettings {
    LogSettings {
        format: match config.log.format {
            LogFormat::Text => delphinus_telemetry::LogFormat::Text,
            LogFormat::Json => delphinus_telemetry::LogFormat::Json,
        },
        level: log_level(config.log.level),
        file: config.log.file.clone(),
    }
}
