//! `cargo xtask e2e relay`: its options.

use clap::Args;

/// Options of `e2e relay`.
#[derive(Debug, Args)]
pub(super) struct RelayArgs {
    /// Fewer rotations and kills: a quarter of an hour.
    #[arg(long)]
    quick: bool,
    /// Only this part; can be repeated. A wrong name lists them.
    #[arg(long)]
    only: Vec<String>,
    /// Only these servers.
    #[arg(long, value_parser = ["mariadb", "mysql"])]
    flavor: Option<String>,
    /// How often the relay (part kills) and its primary (part primary) are killed.
    #[arg(long)]
    rounds: Option<u32>,
}

/// Its words on the command line of the program.
pub(super) fn words(args: &RelayArgs) -> Vec<String> {
    let mut words: Vec<String> = args.quick.then(|| "--quick".to_owned()).into_iter().collect();
    words.extend(args.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
    words.extend(args.flavor.iter().flat_map(|flavor| ["--flavor".to_owned(), flavor.clone()]));
    words.extend(args.rounds.iter().flat_map(|rounds| ["--rounds".to_owned(), rounds.to_string()]));
    words
}
