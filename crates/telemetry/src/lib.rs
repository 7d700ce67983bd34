//! How the proxy is seen: logs and counters.
