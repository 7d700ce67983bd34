//! The signals that end the demo, as flags to look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::progress::{Progress, Terminal};

/// Remembers whether somebody asked the demo to end.
#[derive(Debug, Clone)]
pub(super) struct Interrupt {
    /// Ctrl-C: from a terminal, everything in the foreground gets it.
    keyboard: Arc<AtomicBool>,
    /// SIGTERM or SIGHUP: only this process gets it.
    terminate: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over the signals.
    pub(super) fn watch() -> Result<Self> {
        let raised = Self { keyboard: Arc::default(), terminate: Arc::default() };
        flag::register(SIGINT, Arc::clone(&raised.keyboard))?;
        for signal in [SIGTERM, SIGHUP] {
            // Who asks twice does not want to wait; the watchdog still cleans up.
            flag::register_conditional_shutdown(signal, 143, Arc::clone(&raised.terminate))?;
            flag::register(signal, Arc::clone(&raised.terminate))?;
        }
        Ok(raised)
    }

    pub(super) fn is_raised(&self) -> bool {
        self.is_terminated() || self.keyboard.load(Ordering::Relaxed)
    }

    /// True after SIGTERM or SIGHUP.
    pub(super) fn is_terminated(&self) -> bool {
        self.terminate.load(Ordering::Relaxed)
    }

    /// True once for each Ctrl-C, or for several in quick succession.
    pub(super) fn take_keyboard(&self) -> bool {
        self.keyboard.swap(false, Ordering::Relaxed)
    }

    /// The exit status by which shells know that a signal ended a program.
    pub(super) fn exit_status(&self) -> i32 {
        if self.is_terminated() { 128 + SIGTERM } else { 128 + SIGINT }
    }
}

/// [`Terminal`] that passes the signals on to the work.
pub(super) struct InterruptibleTerminal {
    interrupt: Interrupt,
}

impl InterruptibleTerminal {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        Self { interrupt }
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

impl Progress for InterruptibleTerminal {
    fn started(&self, step: &str) {
        Terminal.started(step);
    }

    fn finished(&self, step: &str, took: Duration) {
        Terminal.finished(step, took);
    }

    fn failed(&self, step: &str) {
        Terminal.failed(step);
    }

    fn detail(&self, line: &str) {
        Terminal.detail(line);
    }

    fn note(&self, text: &str) {
        Terminal.note(text);
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.is_raised()
    }
}
