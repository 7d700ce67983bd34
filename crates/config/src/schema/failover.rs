//! `[cluster.failover]`: how the proxy moves the primary's role itself.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::BackendAddress;
use crate::secret::Secret;
use crate::word::OnLoss;

section! {
    /// How the proxy moves the primary's role itself: `SWITCHOVER`, `FAILOVER`, and a lost primary that is replaced without an
    /// operator. It works with `topology = "read_only"` (GTIDs on all servers) and "group_replication". Without `user` the proxy
    /// follows roles that others move. See docs/switchover.md.
    pub(crate) struct FailoverSection = "[cluster.failover]" at "cluster.failover" with "remote_relay" {
        /// User with which the proxy acts on all backends. It needs more rights than the monitor; `SWITCHOVER CHECK` says
        /// which are missing.
        user: Option<String> = unset("the proxy does not move roles"), "", Hot;
        /// Password as it is. "" is a user without a password.
        password: Option<Secret> = unset("another password option"), "", Hot;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds the password and nothing else. Relative paths start at the directory of the configuration file.
        password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// User with which an old primary follows the new one. It needs REPLICATION SLAVE. Replicas keep the one that they have.
        replication_user: Option<String> = unset("`user`"), "", Hot;
        /// Its password as it is.
        replication_password: Option<Secret> = unset("another password option, or as for `user`"), "", Hot;
        /// Environment variable that holds it.
        replication_password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds it and nothing else.
        replication_password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// The proxy replaces a lost primary without an operator: when it has not answered for `detect_ms` and its replicas have lost
        /// it, too. It needs `[lease]`, which says which process acts. In a group this is the group's own affair.
        auto_failover: bool = is(false), "", Hot;
        /// What a failover does when something that was acknowledged may be lost. "refuse": it promotes no server, and says why. To
        /// prove that nothing is lost takes semi-sync (AFTER_SYNC) with a time-out above the time until a loss is known.
        /// "proceed": it promotes the replica that has received most.
        on_loss: OnLoss = is(OnLoss::Refuse), "", Hot, aka "onloss";
        /// Names of `[[relay]]` that acknowledge to this cluster's primary (strong synchronisation). A failover cuts them off from a lost
        /// primary before it chooses another, has that one get what they have, and has them acknowledge to it before it takes writes. They
        /// follow this cluster, have semi_sync = true, and a `[[relay.user]]` of the name of `replication_user`, with its password. Those in
        /// other processes are named here, too, and have a `[[cluster.failover.remote_relay]]` each. See docs/relay.md.
        relays: Vec<String> = is(vec![]), "", Hot;
        /// A primary is lost when it has not answered for this time and its replicas have lost it, too.
        detect_ms: u64 = is(3_000), "ms", Hot, in 100..=3_600_000;
        /// After a failover the proxy moves no role by itself for this time, so that roles do not move back and forth.
        /// `FAILOVER` always acts.
        pause_s: u64 = is(3_600), "s", Hot, in 0..=604_800;
        /// When a switchover begins, open transactions have this time to end. After that they get error 1213.
        transaction_wait_ms: u64 = is(5_000), "ms", Hot, in 0..=3_600_000;
        /// Time limit for a candidate to apply what it has not applied yet.
        catch_up_ms: u64 = is(10_000), "ms", Hot, in 100..=3_600_000;
        /// Time limit for replicas that acknowledge (semi-sync) to connect to the new primary. Without them a switchover is
        /// undone.
        acker_wait_ms: u64 = is(5_000), "ms", Hot, in 100..=3_600_000;
        /// Time limit for one step on a server. A step that fails is tried again for this time.
        step_timeout_ms: u64 = is(10_000), "ms", Hot, in 100..=3_600_000;
        /// Folder with programs that are run around each move: `before-move`, which refuses the move by any exit code but 0, and
        /// `after-move`. Only the configuration file can name it. See docs/switchover.md.
        hook_folder: Option<PathBuf> = unset("no programs are run"), "", Restart;
        /// The proxy kills a program of `hook_folder` after this time, and counts it as failed. A move waits for it.
        hook_timeout_ms: u64 = is(10_000), "ms", Hot, in 100..=600_000;
        /// Names of backends that take the role first, the best first.
        prefer: Vec<String> = is(vec![]), "", Hot;
        /// Names of backends that never take it.
        never: Vec<String> = is(vec![]), "", Hot;
    }
}

section! {
    /// One section for each relay of `relays` that runs in another process: `delphinus relay`, or another proxy. The proxy asks it, and
    /// gives it orders, over the admin listener there. One that does not answer counts as not cut. See docs/relay.md.
    pub(crate) struct RemoteRelaySection = "[[cluster.failover.remote_relay]]" at "cluster.failover.remote_relay" {
        /// The relay's name there. Unique, also among all `[[relay]]` of this file.
        name: String = required(), "", Hot;
        /// The admin listener of its process: `relay1.example:6447`, or `unix:/run/delphinus/admin.sock`.
        address: BackendAddress = required(), "", Hot;
        /// Operator there with whose name the proxy logs in. It needs the role "operator".
        user: String = required(), "", Hot;
        /// Its password as it is.
        password: Option<Secret> = unset("another password option"), "", Hot;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds the password and nothing else. Relative paths start at the directory of the configuration file.
        password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// Authorities that the listener's certificate comes from, PEM. An address of another machine needs it.
        tls_ca: Option<PathBuf> = unset("none"), "", Hot;
    }
}
