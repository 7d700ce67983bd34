//! What is said about one option: the row of the reference page.

/// When a changed value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// At once, while the proxy runs.
    Hot,
    /// With the next start of the proxy.
    Restart,
}

impl Reload {
    /// The word in the reference page.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Restart => "restart",
        }
    }
}

/// One option of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDoc {
    /// Path from the top of the file, for example `cluster.backend.weight`.
    pub path: String,
    /// What may be written, for example `a whole number from 1 to 1024`.
    pub kind: String,
    /// Unit of a number, empty where there is none.
    pub unit: &'static str,
    /// The value where nothing is written, as it would be written, or words that say what happens.
    pub default: String,
    /// Whether the default is a value that could be written into the file as it stands.
    pub has_literal_default: bool,
    /// When a changed value takes effect.
    pub reload: Reload,
    /// Older or foreign names that are accepted, too.
    pub aliases: &'static [&'static str],
    /// Whether its value is a [`crate::Secret`], which is never shown.
    pub is_secret: bool,
    /// What the option does.
    pub text: String,
}

impl OptionDoc {
    /// True if it is written under this path, with its own name or another one that is accepted.
    pub fn has_path(&self, path: &str) -> bool {
        let is_alias = |section: &str| {
            let own = path.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'));
            own.is_some_and(|own| self.aliases.contains(&own))
        };
        self.path == path || self.path.rsplit_once('.').is_some_and(|(section, _)| is_alias(section))
    }
}
