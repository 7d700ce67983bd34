//! What each of the sessions does.

use delphinus_sandbox::Flavor;

use crate::random::Random;
use crate::step::{Block, Step};
use crate::{changes, commands, pinned, probes, rare, variables};

/// At least `steps` steps of one session.
pub(crate) fn generate(seed: u64, session: usize, steps: usize, flavor: Flavor) -> Vec<Block> {
    let mut random = Random::new(seed ^ (session as u64) << 32);
    let mut blocks = Vec::new();
    let mut len = 0;
    while len < steps {
        let block = one(&mut random, session, flavor);
        len += block.steps.len();
        blocks.push(block);
    }
    blocks.push(probes::everything(flavor));
    blocks
}

fn one(random: &mut Random, session: usize, flavor: Flavor) -> Block {
    match random.below(105) {
        0..=15 => variables::system(random, flavor),
        16..=22 => variables::sql_mode(random),
        23..=29 => variables::names(random),
        30..=39 => variables::user(random),
        40..=59 => probes::probe(random, flavor),
        60..=66 => changes::change(random, session),
        67..=69 => changes::found_rows(random),
        70..=73 => changes::warnings(random, session),
        74..=77 => commands::schema(random, session),
        78 => commands::reset(random),
        79..=81 => commands::multi(random, session),
        82..=84 => commands::procedure(random, &mut |random| harmless(random, flavor)),
        85 if random.once_in(2) => commands::sql_parameters(random, session),
        85 => commands::sql_prepared(random, session),
        86..=92 => commands::prepared(random, session),
        93 => Block::free(vec![Step::Ping]),
        94 => isolation(random),
        95 if random.once_in(2) => pinned::read_only(random, session, &mut |random| harmless(random, flavor)),
        95 | 96 => pinned::transaction(random, session, &mut |random| harmless(random, flavor)),
        97 => pinned::autocommit_off(random, session, &mut |random| harmless(random, flavor)),
        98 => pinned::other(random, session, &mut |random| harmless(random, flavor)),
        99 => pinned::until_reset(random, session),
        100 | 101 => changes::prepared_asks(random),
        _ => rare::rare(random, session, flavor, &mut |random| harmless(random, flavor)),
    }
}

fn isolation(random: &mut Random) -> Block {
    Block::of(random.pick(&[
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION TRANSACTION READ ONLY",
        "SET SESSION TRANSACTION READ WRITE",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE",
        "SET LOCAL TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    ]))
}

/// A step that neither begins nor ends a pin, and can run on a replica.
fn harmless(random: &mut Random, flavor: Flavor) -> Step {
    let block = match random.below(5) {
        0 => variables::system(random, flavor),
        1 => variables::user(random),
        2 => variables::sql_mode(random),
        3 => return changes::ask(random),
        _ => probes::probe(random, flavor),
    };
    let is_harmless = |step: &Step| !block.pins && !needs_primary(step, flavor);
    block.steps.into_iter().next().filter(is_harmless).unwrap_or(Step::Ping)
}

/// What is not recognised, because its quotes are not certain, or may write: behind a read in a READ ONLY transaction the proxy's
/// answer is another one (1213), as docs/routing.md says.
fn needs_primary(step: &Step, flavor: Flavor) -> bool {
    let Step::Query(sql) = step else { return false };
    let calls = || String::from_utf8_lossy(sql).contains("UUID_NOT_A_FUNCTION");
    sql.contains(&b'\\') || flavor == Flavor::MySql && calls()
}
