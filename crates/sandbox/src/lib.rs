//! Starts real MySQL and MariaDB servers on loopback, for the demo and for tests.
