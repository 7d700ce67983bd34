//! The delphinus binary: arguments in, exit code out. It owns the process (allocator, standard
//! streams, exit code) and no logic of the proxy.
//!
//! Exit codes: 0 done, 1 a mistake in the configuration or a failure, 2 wrong usage, 3 `doctor` has found something serious.

mod args;
mod check;
mod completion;
mod ctl;
mod demo;
mod doctor;
mod example;
mod load;
mod output;
mod reference;
mod run;
mod vip;

use std::process::ExitCode;

use args::{Args, Command, ConfigCommand, VipCommand};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Agent(args) => run::run_agent(&args),
        Command::Relay(args) => run::run_relay(&args),
        Command::Vip(VipCommand::Check(args)) => vip::check(&args),
        Command::Check(args) => check::check(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Config(ConfigCommand::Reference(args)) => reference::print_reference(&args),
        Command::Config(ConfigCommand::Example) => example::print_example(),
        Command::Demo(args) => demo::demo(args),
        Command::Ctl(args) => ctl::ctl(&args),
        Command::Completion(args) => completion::print_completion(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("delphinus: {error:#}");
        ExitCode::FAILURE
    })
}
