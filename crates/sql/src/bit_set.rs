//! The macro behind [`crate::Effects`] and [`crate::Uses`]: a named bit set in one integer.
//!
//! Owns: set operations and the names of the bits. Must not know what any bit means.

/// Defines a `Copy` set of named bits.
macro_rules! bit_set {
    (
        $(#[$set_meta:meta])*
        pub struct $name:ident($repr:ty);
        $($(#[$bit_meta:meta])* $bit:ident = $position:literal;)*
    ) => {
        $(#[$set_meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name($repr);

        impl $name {
            $($(#[$bit_meta])* pub const $bit: Self = Self(1 << $position);)*

            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$bit, stringify!($bit))),*];

            /// The set with nothing in it.
            pub const fn empty() -> Self {
                Self(0)
            }

            /// Whether nothing is in the set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether everything in `other` is in this set too.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether this set and `other` share anything.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Everything that is in either set.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Everything that is in this set and not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Puts everything in `other` into this set.
            pub const fn insert(&mut self, other: Self) {
                self.0 |= other.0;
            }

            /// Each that there is, by itself, in order of declaration.
            pub fn all() -> impl Iterator<Item = Self> {
                Self::NAMES.iter().map(|(bit, _)| *bit)
            }

            /// The names of what is in the set, in order of declaration.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(bit, _)| self.contains(*bit)).map(|(_, name)| *name)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.insert(other);
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_set().entries(self.names()).finish()
            }
        }
    };
}

pub(crate) use bit_set;
