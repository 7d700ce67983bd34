//! By what one server is told from all others, whatever it is called and wherever it listens.

use std::sync::Arc;

/// What a server says that it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Its `@@server_id`, which no other server of the same cluster has; 0: not told.
    pub number: u32,
    /// Its `@@server_uuid`, which no other server has; empty: not told, or `MariaDB`, which has none.
    pub uuid: Arc<str>,
}

impl Identity {
    /// By its `server_uuid` alone, as a group knows its members.
    pub fn of_uuid(uuid: Arc<str>) -> Self {
        Self { number: 0, uuid }
    }

    /// How others name it: by its `server_uuid` where it has one.
    pub fn name(&self) -> Arc<str> {
        if self.uuid.is_empty() { self.number.to_string().into() } else { self.uuid.clone() }
    }

    /// True if others mean this server by that [`name`](Self::name).
    pub fn is(&self, name: &str) -> bool {
        !self.uuid.is_empty() && *self.uuid == *name
            || self.number > 0 && name.parse::<u32>().is_ok_and(|number| number == self.number)
    }

    /// True if the two are known to be the same server: by what both have told.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.uuid.is_empty() || other.uuid.is_empty() {
            self.number > 0 && self.number == other.number
        } else {
            self.uuid == other.uuid
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn identity(number: u32, uuid: &str) -> Identity {
        Identity { number, uuid: uuid.into() }
    }

    #[test]
    fn a_server_is_known_by_its_uuid_and_where_there_is_none_by_its_number() {
        for (one, other, is_same) in [
            (identity(1, A), identity(1, A), true),
            (identity(1, A), identity(2, A), true),
            // Two servers that were made with the same number.
            (identity(1, A), identity(1, B), false),
            (identity(1, ""), identity(1, ""), true),
            (identity(1, ""), identity(2, ""), false),
            // A replica of the other family knows the number alone.
            (identity(1, A), identity(1, ""), true),
            // Nothing was told.
            (identity(0, ""), identity(0, ""), false),
            (identity(0, ""), identity(0, A), false),
        ] {
            assert_eq!(one.is_same(&other), is_same, "{one:?} {other:?}");
            assert_eq!(other.is_same(&one), is_same, "{other:?} {one:?}");
        }
        for (one, name, is_it) in [
            (identity(7, A), A, true),
            (identity(7, A), B, false),
            (identity(7, ""), "7", true),
            (identity(7, ""), "70", false),
            (identity(7, ""), "", false),
            (identity(0, ""), "0", false),
            (identity(0, ""), "", false),
        ] {
            assert_eq!(one.is(name), is_it, "{one:?} {name}");
        }
        assert_eq!((&*identity(7, "").name(), &*identity(7, A).name()), ("7", A));
    }
}
