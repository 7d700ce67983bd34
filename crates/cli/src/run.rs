//! `delphinus run`: the configuration, the log, then the proxy until a signal ends it.

use std::process::ExitCode;

use delphinus_config::{Config, LogFormat, LogLevel};
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
    start_logging(&log_settings(&config))?;
    delphinus_app::run(config)?;
    Ok(ExitCode::SUCCESS)
}

fn log_settings(config: &Config) -> LogSettings {
    LogSettings {
        format: match config.log.format {
            LogFormat::Text => delphinus_telemetry::LogFormat::Text,
            LogFormat::Json => delphinus_telemetry::LogFormat::Json,
        },
        level: match config.log.level {
            LogLevel::Error => tracing::Level::ERROR,
            LogLevel::Warn => tracing::Level::WARN,
            LogLevel::Info => tracing::Level::INFO,
            LogLevel::Debug => tracing::Level::DEBUG,
            LogLevel::Trace => tracing::Level::TRACE,
        },
        file: config.log.file.clone(),
    }
}
