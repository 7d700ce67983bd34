//! `cargo xtask e2e see`: its options.

use clap::Args;

use crate::cargo;

/// Options of `e2e see`.
#[derive(Debug, Args)]
pub(super) struct SeeArgs {
    /// Fewer statements and rounds: five minutes.
    #[arg(long)]
    quick: bool,
    /// Only this part; can be repeated. A wrong name lists them.
    #[arg(long)]
    only: Vec<String>,
    /// Only these servers.
    #[arg(long, value_parser = ["mariadb", "mysql"])]
    flavor: Option<String>,
    /// Write the table of docs/see.md.
    #[arg(long)]
    docs: bool,
}

/// Its words on the command line of the program.
pub(super) fn words(args: &SeeArgs) -> Vec<String> {
    let mut words: Vec<String> = args.quick.then(|| "--quick".to_owned()).into_iter().collect();
    words.extend(args.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
    words.extend(args.flavor.iter().flat_map(|flavor| ["--flavor".to_owned(), flavor.clone()]));
    if args.docs {
        words.extend(["--docs".to_owned(), cargo::root().join("docs/see.md").display().to_string()]);
    }
    words
}
