//! SQL text to facts by a zero-copy lexer: classification and digests.
