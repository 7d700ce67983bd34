//! Which of the clusters of the process is meant.

/// The place of a cluster among those of the process; stays the same for its life. 0 is the default cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ClusterId(pub u16);

impl ClusterId {
    /// The place as an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
