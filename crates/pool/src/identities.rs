//! The identities of one worker, each of them once: whether two sessions may share a connection is a comparison of
//! pointers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use delphinus_wire::handshake::ConnectAttributes;

use crate::connection::Identity;

type Key = (String, bool, u64, Option<IpAddr>, Vec<u8>);

/// Before more than this many are known, those that nobody has any more are forgotten.
const FEW: usize = 256;

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    known: RefCell<HashMap<Key, Rc<Identity>>>,
    /// How many were left when they were last looked through.
    kept: std::cell::Cell<usize>,
}

impl Identities {
    /// The one that is equal to `identity`, which becomes it if there is none.
    pub(crate) fn known(&self, identity: Identity) -> Rc<Identity> {
        let attributes = identity.attributes.as_bytes().to_vec();
        let (user, shape) = (identity.user.clone(), identity.shape.0);
        let key = (user, identity.is_admin, shape, identity.client_ip, attributes);
        let mut known = self.known.borrow_mut();
        if let Some(found) = known.get(&key) {
            found.take_keys_of(&identity);
            return found.clone();
        }
        // Each client's address may make one.
        if known.len() >= FEW.max(2 * self.kept.get()) {
            known.retain(|_, identity| Rc::strong_count(identity) > 1);
            self.kept.set(known.len());
        }
        let new = Rc::new(identity);
        known.insert(key, new.clone());
        new
    }
}

/// Those of the attributes whose names are listed, by name: the order in which a client sends them says nothing.
pub(crate) fn passed(attributes: &ConnectAttributes, names: &[String]) -> ConnectAttributes {
    let mut passed = ConnectAttributes::default();
    for name in names {
        if let Some((name, value)) = attributes.iter().find(|(found, _)| *found == name.as_bytes()) {
            passed.push(name, value);
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;
    use delphinus_wire::Capabilities;
    use std::sync::Arc;

    fn identity(user: &str, client_ip: Option<&str>, program: &str) -> Identity {
        let mut attributes = ConnectAttributes::default();
        attributes.push(b"program_name", program.as_bytes());
        let shape = Capabilities::DEPRECATE_EOF | Capabilities::COMPRESS;
        let keys = Arc::new(Keys::listed([]));
        let client_ip = client_ip.map(|ip| ip.parse().unwrap());
        Identity::new(user.to_owned(), shape, &keys).of_client(client_ip, attributes)
    }

    #[test]
    fn equal_ones_are_one_and_others_are_not() {
        let identities = Identities::default();
        let first = identities.known(identity("a", None, "p"));
        assert!(Rc::ptr_eq(&first, &identities.known(identity("a", None, "p"))));
        assert_eq!(first.shape, Capabilities::DEPRECATE_EOF);
        for other in [identity("b", None, "p"), identity("a", Some("1.2.3.4"), "p"), identity("a", None, "q")]
        {
            assert!(!Rc::ptr_eq(&first, &identities.known(other)));
        }
    }

    #[test]
    fn those_that_nobody_has_are_forgotten() {
        let identities = Identities::default();
        let held = identities.known(identity("a", None, "held"));
        for number in 0..10 * FEW {
            identities.known(identity("a", None, &number.to_string()));
        }
        assert!(identities.known.borrow().len() <= FEW);
        assert!(Rc::ptr_eq(&held, &identities.known(identity("a", None, "held"))));
    }

    #[test]
    fn attributes_are_passed_by_name() {
        let mut all = ConnectAttributes::default();
        for name in ["_pid", "program_name", "app"] {
            all.push(name.as_bytes(), b"v");
        }
        assert!(passed(&all, &[]).is_empty());
        let names = ["app", "program_name", "none"].map(str::to_owned);
        let found = passed(&all, &names);
        let names: Vec<_> = found.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"app"[..], b"program_name"]);
    }
}
