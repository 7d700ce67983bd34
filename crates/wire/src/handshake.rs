//! Login machines.
