//! How operators get in, of a file that may have mistakes elsewhere: those who have to mend a running proxy need it then.

use toml::de::DeTable;

use crate::address::ListenAddress;
use crate::config::AdminUser;
use crate::document::Table;
use crate::environment::Environment;
use crate::mistake::Mistakes;
use crate::parse::read_admin;
use crate::validate;

/// What can be read of `[admin]` and `[[admin.user]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminAccess {
    /// Where operators connect.
    pub addresses: Vec<ListenAddress>,
    /// Who they are.
    pub users: Vec<AdminUser>,
}

impl AdminAccess {
    /// Reads what can be read. Mistakes do not matter: what has one is left out.
    pub fn read(text: &str, file_name: &str, environment: &dyn Environment) -> Self {
        let mut mistakes = Mistakes::new(file_name, text);
        let (document, broken) = DeTable::parse_recoverable(text);
        // A bracket that is not closed takes what follows with it.
        let own = if broken.is_empty() { None } else { Some(sections_of_admin(text)) };
        let document = own.as_deref().map_or(document, |own| DeTable::parse_recoverable(own).0);
        let root = Table::new("", 0..0, document.get_ref());
        let (admin, users) = read_admin(&root, &mut mistakes);
        Self {
            addresses: admin.map(|admin| admin.value.addresses).unwrap_or_default(),
            users: validate::operators(&users, file_name, environment, &mut mistakes),
        }
    }
}

/// The lines below the heads `[admin]` and `[[admin.user]]`.
fn sections_of_admin(text: &str) -> String {
    let mut is_admin = false;
    let is_kept = |line: &&str| {
        if let Some(head) = line.trim_start().strip_prefix('[') {
            let name = head.trim_start_matches(['[', ' ']).split([']', '.', ' ']).next();
            is_admin = name == Some("admin");
        }
        is_admin
    };
    text.split_inclusive('\n').filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoEnvironment;

    const ADMIN: &str =
        "[admin]\naddresses = [\"unix:/a\"]\n[[admin.user]]\nname = \"ops\"\npassword = \"pw\"\n";

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let found = AdminAccess::read(text, "f", &NoEnvironment);
        let addresses = found.addresses.iter().map(ToString::to_string).collect();
        (addresses, found.users.into_iter().map(|user| user.name).collect())
    }

    #[test]
    fn mistakes_elsewhere_do_not_matter() {
        let whole = (vec!["unix:/a".to_owned()], vec!["ops".to_owned()]);
        for text in [
            ADMIN.to_owned(),
            format!("{ADMIN}role = \"boss\"\ncolour = 1\n"),
            format!("[pool]\nhold_ms = \"x\"\nnonsense\n[proxy\n{ADMIN}"),
            format!("{ADMIN}[pool]\nhold_ms = = 1\n"),
            format!("[admn]\n{ADMIN}[[admin.user]]\nname = \"x\"\n"),
        ] {
            assert_eq!(read(&text), whole, "{text}");
        }
    }

    #[test]
    fn what_has_a_mistake_itself_is_left_out() {
        let without = ADMIN.replace("addresses", "adresses");
        assert_eq!(read(&without), (vec![], vec!["ops".to_owned()]));
        let nobody = ADMIN.replace("password =", "pasword =");
        assert_eq!(read(&nobody), (vec!["unix:/a".to_owned()], vec![]));
        assert_eq!(read(""), (vec![], vec![]));
        assert_eq!(read("admin = 7"), (vec![], vec![]));
    }
}
