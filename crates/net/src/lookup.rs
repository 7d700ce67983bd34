//! Where the names of backends lead. The system's resolver may take long: it is asked on a thread beside the runtime's.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::rt;

/// The addresses of a name.
type Answer = io::Result<Vec<IpAddr>>;

/// Who is asked for the addresses of names.
#[derive(Clone, Default)]
pub enum Resolver {
    /// The operating system: its hosts file, DNS, or whatever it is set to.
    #[default]
    System,
    /// Somebody else, who answers at once.
    Own(Rc<dyn Fn(&str) -> Answer>),
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Own(_) => "Own",
        })
    }
}

impl Resolver {
    /// The addresses of a name, each once, in the order of the answer.
    pub async fn addresses(&self, name: &str, limit: Duration) -> Answer {
        let mut all = match self {
            Self::System => {
                let found = rt::timeout(limit, tokio::net::lookup_host((name, 0))).await;
                let found = found.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?;
                found.map(|address| address.ip()).collect()
            }
            Self::Own(own) => own(name)?,
        };
        let mut seen = Vec::new();
        all.retain(|ip| {
            let is_new = !seen.contains(ip);
            seen.push(*ip);
            is_new
        });
        Ok(all)
    }
}
