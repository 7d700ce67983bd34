//! The program that is measured: `micro CASE` prepares a case and runs it [`ITERATIONS`] times inside `measured`, the
//! function between whose entry and exit callgrind counts. `micro --list` prints the names of all cases. The times
//! mean nothing; `cargo xtask bench --micro` runs it and does the arithmetic.

mod backend;
mod checkout;
mod route;
mod settled;
mod statements;
mod tracking;

use std::alloc::System;
use std::hint::black_box;
use std::io::Write;

use anyhow::{Context, Result};
use tracking_allocator::Allocator;

/// It tells the allocations of the cases that must have none.
#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

/// So many that what happens once, such as a page fault, is less than one instruction of each.
const ITERATIONS: usize = 1_000;

/// Something that is measured.
struct Case {
    name: String,
    run: Box<dyn FnOnce() -> Result<()>>,
}

impl Case {
    fn new(name: impl Into<String>, run: impl FnOnce() -> Result<()> + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

fn main() -> Result<()> {
    let wanted = std::env::args().nth(1).context("usage: micro CASE, or micro --list")?;
    let mut cases = statements::cases();
    cases.extend(tracking::cases());
    cases.push(Case::new("route", route::run));
    cases.push(Case::new("checkout-held", checkout::run));
    cases.extend(settled::cases());
    let mut out = std::io::stdout();
    if wanted == "--list" {
        for case in cases {
            writeln!(out, "{}", case.name)?;
        }
        return Ok(());
    }
    let case = cases.into_iter().find(|case| case.name == wanted);
    (case.with_context(|| format!("there is no case {wanted:?}"))?.run)()?;
    // What the instructions have to be divided by.
    writeln!(out, "{ITERATIONS}")?;
    Ok(())
}

/// Runs `work` once, so that everything is there, and then as often as is counted.
fn measure<T>(mut work: impl FnMut() -> T) {
    black_box(work());
    measured(ITERATIONS, &mut || {
        black_box(work());
    });
}

/// callgrind knows this function by its name.
#[inline(never)]
fn measured(times: usize, work: &mut dyn FnMut()) {
    for _ in 0..times {
        work();
    }
}
