//! etcd (v3) as a lease store, by its JSON gateway, where 64-bit numbers are strings and bytes are base64. Sources:
//! <https://etcd.io/docs/v3.5/learning/api/>, and measured on 3.4.23: a keepalive of a lease that is dead is answered without a TTL.

mod watch;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::gateway::{Access, Gateway};
use crate::store::{Claimed, Entry, Granted, Holding, Store, StoreError};

/// Which etcd, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdSettings {
    /// How it is reached.
    pub access: Access,
    /// What all keys of this cluster begin with, as `/delphinus/main/`.
    pub prefix: String,
}

/// etcd.
#[derive(Debug)]
pub struct Etcd {
    gateway: Gateway,
    prefix: String,
}

impl Etcd {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// What is wrong with the certificates.
    pub fn new(settings: EtcdSettings) -> Result<Self, String> {
        Ok(Self { gateway: Gateway::new(settings.access)?, prefix: settings.prefix })
    }

    /// How far this host's wall clock and etcd's were apart when it answered last.
    pub fn clocks_apart(&self) -> Option<Duration> {
        self.gateway.clocks_apart()
    }

    fn key(&self, key: &str) -> String {
        STANDARD.encode(format!("{}{key}", self.prefix))
    }

    fn put_operation(&self, key: &str, value: &str, lease: u64) -> Value {
        json!({"request_put": {"key": self.key(key), "value": STANDARD.encode(value), "lease": lease.to_string()}})
    }

    /// Does `success` if the comparison holds; says whether it did.
    fn only_if(&mut self, compare: &Value, success: &Value) -> Result<bool, StoreError> {
        let body = json!({"compare": [compare], "success": [success]});
        let answer = self.gateway.post("/v3/kv/txn", &body)?;
        Ok(answer["succeeded"].as_bool().unwrap_or(false))
    }
}

impl Store for Etcd {
    fn grant(&mut self, ttl: Duration) -> Result<Granted, StoreError> {
        let answer = self.gateway.post("/v3/lease/grant", &json!({"TTL": seconds(ttl).to_string()}))?;
        match (number(&answer["ID"]), number(&answer["TTL"])) {
            (Some(lease), Some(ttl)) => Ok(Granted { lease, ttl: Duration::from_secs(ttl) }),
            _ => Err(StoreError::Refused(format!("no lease in the answer: {}", shortened(&answer)))),
        }
    }

    fn renew(&mut self, lease: u64) -> Result<Option<Duration>, StoreError> {
        // A stream: what it says is inside.
        let answer = self.gateway.post("/v3/lease/keepalive", &json!({"ID": lease.to_string()}))?;
        let ttl = number(&answer["result"]["TTL"]).filter(|ttl| *ttl > 0);
        Ok(ttl.map(Duration::from_secs))
    }

    fn end(&mut self, lease: u64) -> Result<(), StoreError> {
        self.gateway.post("/v3/lease/revoke", &json!({"ID": lease.to_string()})).map(drop)
    }

    fn claim(&mut self, key: &str, value: &str, lease: u64) -> Result<Claimed, StoreError> {
        let put = self.put_operation(key, value, lease);
        let key = self.key(key);
        let is_free = json!({"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"});
        if self.only_if(&is_free, &put)? {
            return Ok(Claimed::Ours);
        }
        let is_ours = json!({"key": key, "target": "LEASE", "result": "EQUAL", "lease": lease.to_string()});
        Ok(if self.only_if(&is_ours, &put)? { Claimed::Ours } else { Claimed::Taken })
    }

    fn release(&mut self, key: &str, epoch: u64) -> Result<(), StoreError> {
        let key = self.key(key);
        let is_that =
            json!({"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": epoch.to_string()});
        self.only_if(&is_that, &json!({"request_delete_range": {"key": key}})).map(drop)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        let body = json!({"key": self.key(key), "value": STANDARD.encode(value)});
        self.gateway.post("/v3/kv/put", &body).map(drop)
    }

    fn delete(&mut self, key: &str) -> Result<(), StoreError> {
        self.gateway.post("/v3/kv/deleterange", &json!({"key": self.key(key)})).map(drop)
    }

    fn write_as(&mut self, key: &str, value: Option<&str>, by: &Holding) -> Result<bool, StoreError> {
        let is_held = json!({
            "key": self.key(&by.key), "target": "CREATE", "result": "EQUAL", "create_revision": by.epoch.to_string(),
        });
        let write = match value {
            Some(value) => self.put_operation(key, value, 0),
            None => json!({"request_delete_range": {"key": self.key(key)}}),
        };
        self.only_if(&is_held, &write)
    }

    fn swap(&mut self, key: &str, value: &str, seen: u64) -> Result<bool, StoreError> {
        // A key that is not there has the revision 0.
        let is_same = json!({
            "key": self.key(key), "target": "MOD", "result": "EQUAL", "mod_revision": seen.to_string(),
        });
        let write = self.put_operation(key, value, 0);
        self.only_if(&is_same, &write)
    }

    fn list(&mut self) -> Result<Vec<Entry>, StoreError> {
        let answer = self.gateway.post("/v3/kv/range", &range(&self.prefix))?;
        let none = Vec::new();
        let all = answer["kvs"].as_array().unwrap_or(&none).iter();
        Ok(all.filter_map(|one| entry(one, &self.prefix)).collect())
    }

    fn watch(&mut self, ring: Box<dyn Fn() -> bool + Send>) {
        watch::start(self.gateway.clone(), &self.prefix, ring);
    }
}

/// A key and its value out of an answer.
fn entry(one: &Value, prefix: &str) -> Option<Entry> {
    let text = |name: &str| {
        let bytes = STANDARD.decode(one[name].as_str().unwrap_or_default()).ok()?;
        String::from_utf8(bytes).ok()
    };
    Some(Entry {
        key: text("key")?.strip_prefix(prefix)?.to_owned(),
        value: text("value")?,
        lease: number(&one["lease"]).unwrap_or(0),
        epoch: number(&one["create_revision"])?,
        revision: number(&one["mod_revision"])?,
    })
}

/// All keys that begin so.
fn range(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        // No key ends in 0xff: names are text.
        *last += 1;
    }
    json!({"key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end)})
}

/// A number, as the gateway writes it.
fn number(value: &Value) -> Option<u64> {
    value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_u64())
}

fn seconds(ttl: Duration) -> u64 {
    ttl.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

fn shortened(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::gateway::tests::{access, serve};

    #[test]
    fn numbers_are_strings_or_numbers() {
        assert_eq!(number(&json!("7587848943239472601")), Some(7_587_848_943_239_472_601));
        assert_eq!(number(&json!(6)), Some(6));
        assert_eq!(number(&json!(null)), None);
        assert_eq!(seconds(Duration::from_millis(5_001)), 6);
    }

    #[test]
    fn an_entry_is_read_as_the_gateway_writes_it() {
        let one = json!({
            "key": STANDARD.encode("/d/vips/write"), "create_revision": "12", "mod_revision": "13", "version": "1",
            "value": STANDARD.encode("db1"), "lease": "7587848943239472601",
        });
        let expected = Entry {
            key: "vips/write".into(),
            value: "db1".into(),
            lease: 7_587_848_943_239_472_601,
            epoch: 12,
            revision: 13,
        };
        assert_eq!(entry(&one, "/d/"), Some(expected));
        assert_eq!(entry(&one, "/e/"), None);
        assert_eq!(entry(&json!({"key": "%"}), "/d/"), None);
    }

    #[test]
    fn a_range_ends_behind_the_last_key_with_the_prefix() {
        let range = range("/d/");
        let end = STANDARD.decode(range["range_end"].as_str().unwrap()).unwrap();
        assert_eq!(end, b"/d0");
    }

    /// A load balancer without a member behind it, or another program on the port: addresses stay until the tenure ends.
    #[test]
    fn an_answer_that_is_not_etcds_ends_no_lease_and_hides_no_key() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let access = Access { user: None, ..access(&listener) };
        let mut etcd = Etcd::new(EtcdSettings { access, prefix: "/d/".into() }).unwrap();
        let page = "<html>It works</html>";
        let over = r#"{"result":{"header":{"revision":"4"},"ID":"7"}}"#;
        let empty = r#"{"header":{"revision":"4"}}"#;
        let answers = [page, "", "{}", over, page, "{}", empty, "{}", "{}", page, "{}", empty]
            .map(|text| (200_u16, text));
        let serving = std::thread::spawn(move || serve(&listener, &answers));
        for _ in 0..3 {
            assert!(matches!(etcd.renew(7), Err(StoreError::Unreachable(_))));
        }
        assert_eq!(etcd.renew(7), Ok(None));
        for _ in 0..2 {
            assert!(matches!(etcd.list(), Err(StoreError::Unreachable(_))));
        }
        assert_eq!(etcd.list(), Ok(Vec::new()));
        let is_unknown = |done| matches!(done, Err(StoreError::Unreachable(_)));
        assert!(is_unknown(etcd.put("k", "v")) && is_unknown(etcd.delete("k")));
        assert!(is_unknown(etcd.swap("k", "v", 1).map(drop)) && is_unknown(etcd.release("k", 1)));
        assert_eq!(etcd.put("k", "v"), Ok(()));
        serving.join().unwrap();
    }
}
