//! What one MySQL session is, and how a response changes it.
