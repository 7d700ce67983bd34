//! The configuration file: schema, parsing, validation, reference.
