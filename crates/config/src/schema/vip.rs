//! `[[vip]]`: virtual IPs.

use std::net::IpAddr;

use super::{is, required, unset};
use crate::word::{KillOnMove, VipFloating, VipRole};

section! {
    /// One section for each virtual IP. It is on one host at a time, for as long as that host's process renews its lease. All processes
    /// that share the store need the same ones. See docs/ha.md.
    pub(crate) struct VipSection = "[[vip]]" at "vip" {
        /// Name in tables, commands and the store. Unique.
        name: String = required(), "", Hot;
        /// The address, or several that move together: IPv4 and IPv6. They are added as /32 and /128.
        addresses: Vec<IpAddr> = required(), "", Hot, aka "address";
        /// Network interface.
        interface: Option<String> = unset("the one whose network the address belongs to"), "", Hot;
        /// "proxy": it is where a proxy can serve a query. "primary": it is on the host of the primary. "replica": it is on the host
        /// of a replica that gets reads. The last two go by `lease.local_backend`.
        role: VipRole = is(VipRole::Proxy), "", Hot;
        /// Where it goes if its replica is lost: "to_primary", so that the other replicas get no more, or "to_another_replica".
        floating: VipFloating = is(VipFloating::ToPrimary), "", Hot;
        /// The sessions on the address when it leaves its host. "none": they are left, and their clients hang until they notice.
        /// "transactions": they end between transactions, for `drain_timeout_ms`; then the rest is cut. "all": they are cut at once.
        kill_on_move: KillOnMove = is(KillOnMove::Transactions), "", Hot;
        /// How long sessions may take to end by themselves.
        drain_timeout_ms: u64 = is(3_000), "ms", Hot, in 0..=3_600_000;
    }
}
