//! `delphinus demo`: a real cluster with this binary as the proxy in front of it.

use std::process::ExitCode;

use anyhow::Context;
use delphinus_sandbox::{DemoOptions, Flavor, run_demo};

use crate::args::{DemoArgs, DemoFlavor};

pub(crate) fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let proxy_binary = std::env::current_exe().context("the path of this program is not known")?;
    let flavor = match args.flavor {
        DemoFlavor::Mariadb => Flavor::MariaDb,
        DemoFlavor::Mysql => Flavor::MySql,
        DemoFlavor::Group => Flavor::Group,
    };
    let mut options = DemoOptions::new(flavor, proxy_binary);
    options.is_ha = args.ha;
    options.exec = args.exec;
    options.config_overlay = args.config;
    options.relay = args.relay;
    let status = run_demo(options)?;
    // The system passes on 8 bits; what does not fit can only have been a failure.
    Ok(u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from))
}
