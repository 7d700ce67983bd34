//! One loop: probe, decide, act, publish.
