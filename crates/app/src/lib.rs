//! The product as a library: builds workers, monitor and listeners from a configuration.
