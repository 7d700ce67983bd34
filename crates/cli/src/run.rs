//! `delphinus run`: the configuration, the log, then the proxy until a signal ends it.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use delphinus_app::{ConfigStore, log_settings};
use delphinus_config::Mistake;
use delphinus_telemetry::start_logging;

use crate::args::RunArgs;
use crate::load::{print_mistakes, read_text, replace, text_of};

/// The same without listeners, on the host of a backend.
pub(crate) fn run_agent(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if let (Ok(config), _) = read_text(&text_of(&args.config)?, &args.config) {
        let file = args.config.display();
        anyhow::ensure!(
            config.lease.local_backend.is_some(),
            "{file}: an agent follows the server on its host: set local_backend in [lease]"
        );
        anyhow::ensure!(
            config.listeners.is_empty(),
            "{file}: an agent serves no clients: remove [[listener]], or use `delphinus run`"
        );
    }
    run(args)
}

/// The same without listeners, for relays alone.
pub(crate) fn run_relay(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if let (Ok(config), _) = read_text(&text_of(&args.config)?, &args.config) {
        let file = args.config.display();
        anyhow::ensure!(!config.relays.is_empty(), "{file}: there is no [[relay]]: write one");
        anyhow::ensure!(
            config.listeners.is_empty(),
            "{file}: this command serves no clients: remove [[listener]], or use `delphinus run`"
        );
    }
    run(args)
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let text = text_of(&args.config)?;
    let (loaded, named) = read_text(&text, &args.config);
    let config = match loaded {
        Ok(config) => config,
        Err(mistakes) => {
            print_mistakes(&args.config, &mistakes);
            return Ok(ExitCode::FAILURE);
        }
    };
    let log = start_logging(&log_settings(&config))?;
    let (read, written, meant) = (args.config.clone(), args.config.clone(), args.config.clone());
    let (own, named) = (args.config.clone(), Rc::new(RefCell::new(named)));
    let files = named.clone();
    let store = ConfigStore {
        text,
        read: Box::new(move || text_of(&read).map_err(|error| format!("{error:#}"))),
        parse: Box::new(move |text| {
            let told = |mistakes: Vec<Mistake>| {
                mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            };
            let (loaded, mut files) = read_text(text, &meant);
            if loaded.is_err() {
                // Reading ends before the last file then: those that are known stay.
                files.extend(named.borrow().iter().cloned());
            }
            files.sort_unstable();
            files.dedup();
            *named.borrow_mut() = files;
            loaded.map_err(told)
        }),
        write: Box::new(move |text| replace(&written, text).map_err(|error| format!("{error:#}"))),
        files: Box::new(move || [vec![own.clone()], files.borrow().clone()].concat()),
        log,
    };
    delphinus_app::run(config, Some(store))?;
    Ok(ExitCode::SUCCESS)
}
