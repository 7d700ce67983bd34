//! Test peers that speak the protocol: a blocking client, scripted backends.
