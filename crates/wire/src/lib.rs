//! MySQL bytes to types and back: frames, commands, responses, login machines, authentication.
