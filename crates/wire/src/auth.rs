//! Scrambles.
