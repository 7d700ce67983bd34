//! Starts a cluster to develop against: `cargo run -p delphinus-sandbox --example cluster -- mariadb`.
//!
//! Prints what `DELPHINUS_BACKENDS` holds as one line of JSON, and runs until standard input ends, or
//! until Ctrl-C. Arguments: the flavor (mariadb, mysql, group), then `--hold` to go on after the end of
//! standard input, `--replicas=N`, and `--cnf=LINE` for a line in every server's option file.

use std::io::{Read, Write};

use anyhow::{Result, bail};
use delphinus_sandbox::{Cluster, ClusterSpec, Terminal};

fn main() -> Result<()> {
    let mut spec = ClusterSpec::default();
    let mut holds = false;
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            None if argument == "--hold" => holds = true,
            None => spec.flavor = argument.parse()?,
            Some(("--replicas", count)) => spec.replicas = count.parse()?,
            Some(("--cnf", line)) => spec.extra_cnf.push(line.to_owned()),
            Some(_) => bail!("unknown argument {argument}"),
        }
    }
    let cluster = Cluster::start(&spec, &Terminal)?;
    writeln!(std::io::stdout(), "{}", cluster.backends_json())?;
    if !holds {
        // Ctrl-C ends this process; the cluster's watchdog does the rest.
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    loop {
        std::thread::park();
    }
}
