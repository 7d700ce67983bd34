//! `[lease]`: the store in which processes agree who has what.

use std::path::PathBuf;

use super::{is, unset};
use crate::secret::Secret;
use crate::word::{LeaseStore, OnStoreLoss};

section! {
    /// Where several Delphinus processes agree which of them has a virtual IP, and which acts. A process that the store has
    /// not heard from for `ttl_s` has lost everything that it held. See docs/ha.md.
    pub(crate) struct LeaseSection = "[lease]" at "lease" {
        /// "etcd": an etcd cluster, version 3.4 or later. "group": the servers of the first cluster themselves, which have to be a group
        /// with one primary (`topology = "group_replication"`); while it has none nothing can be renewed. "local": this process alone
        /// decides; two such processes would both take the same address. A change of any option here releases all virtual IPs first.
        store: Option<LeaseStore> = unset("this process holds nothing"), "", Hot;
        /// Addresses of etcd's members: `http://10.0.0.3:2379` or `https://etcd1.example:2379`.
        endpoints: Vec<String> = is(vec![]), "", Hot;
        /// etcd's user, or with "group" the servers'. There it needs SELECT, INSERT, UPDATE, DELETE and CREATE on
        /// `delphinus.*`, and SELECT on `performance_schema.replication_group_members`.
        user: Option<String> = unset("etcd asks for none"), "", Hot;
        /// Its password as it is.
        password: Option<Secret> = unset("another password option"), "", Hot;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds the password and nothing else; one line end after it is dropped.
        password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// Authorities that etcd's certificates come from, PEM. `https` needs it.
        tls_ca: Option<PathBuf> = unset("none"), "", Hot;
        /// Certificate that this process shows to etcd, PEM. Needs `tls_key`.
        tls_cert: Option<PathBuf> = unset("none"), "", Hot;
        /// Its private key, PEM.
        tls_key: Option<PathBuf> = unset("none"), "", Hot;
        /// What all keys begin with. The name of the first cluster follows it. Processes with the same prefix and cluster share their
        /// virtual IPs.
        prefix: String = is("/delphinus".to_owned()), "", Hot;
        /// Name of this process among those that share the store. Unique.
        member: Option<String> = unset("the name of the host"), "", Hot;
        /// The backend that runs on this host, by its name: what virtual IPs of the roles "primary" and "replica" go by. A file with
        /// this option needs no listener and no user: the process is an agent then.
        local_backend: Option<String> = unset("none of them"), "", Hot;
        /// When the store has not heard from a process for this time, it gives what that process holds to others.
        ttl_s: u64 = is(6), "s", Hot, in 3..=3_600;
        /// A process gives up what it holds this much earlier. The kernel looks at lifetimes of addresses once a second:
        /// less is not safe.
        margin_ms: u64 = is(1_250), "ms", Hot, in 1_250..=60_000;
        /// What becomes of virtual IPs when the store does not answer. "release": each goes when its lease ends. "failsafe": it stays, as
        /// long as every other member that the store has listed promises over its HTTP door (`[http]`) to take nothing over. If one
        /// does not, it goes. All members need the same setting.
        on_store_loss: OnStoreLoss = is(OnStoreLoss::Release), "", Hot;
        /// Where other members reach this one's HTTP door: `https://10.0.0.1:6480`. Needed with "failsafe".
        failsafe_address: Option<String> = unset("none"), "", Hot;
        /// A token of an operator that the doors of all members take. Needed with "failsafe".
        failsafe_token: Option<Secret> = unset("another token option"), "", Hot;
        /// Environment variable that holds the token.
        failsafe_token_env: Option<String> = unset("another token option"), "", Hot;
        /// File that holds the token and nothing else; one line end after it is dropped.
        failsafe_token_file: Option<PathBuf> = unset("another token option"), "", Hot;
        /// Authorities that the doors' certificates come from, PEM. An address with `https` needs it.
        failsafe_ca: Option<PathBuf> = unset("none"), "", Hot;
        /// A virtual IP is taken from a process that can have it only for one that has been fit for this time.
        rebalance_after_ms: u64 = is(10_000), "ms", Hot, in 0..=3_600_000;
    }
}
