//! One client: login, the life of a command, answers of the proxy itself.
