//! Backend connections: who holds them, who waits, how they are made ready.
