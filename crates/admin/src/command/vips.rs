//! The tables `vips` and `members`, and `VIP MOVE | FREEZE | UNFREEZE | REBALANCE`: what the processes that share a lease store have, and
//! what operators want of it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use delphinus_tables::{self as tables, Cell, Column};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::source::{Provider, Source};
use crate::table::{number, text};
use crate::text::Word;
use crate::users::AdminRole;

/// A virtual IP, as this process sees it.
#[derive(Debug, Clone)]
pub struct VipRow {
    /// Its name.
    pub name: Arc<str>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Where it has to be.
    pub role: &'static str,
    /// The member that holds it.
    pub holder: Option<String>,
    /// The member that should.
    pub wanted: Option<String>,
    /// How it stands on this host.
    pub state: &'static str,
    /// Since when.
    pub since: Duration,
    /// How long this host keeps it without another word of the store.
    pub left: Duration,
    /// Grows each time that it is taken.
    pub epoch: Option<u64>,
    /// What went wrong last.
    pub error: Option<String>,
}

/// A process that shares the lease store.
#[derive(Debug, Clone)]
pub struct MemberRow {
    /// Its name.
    pub name: String,
    /// What it is fit for, in words.
    pub fitness: String,
    /// It is this process.
    pub is_own: bool,
    /// Grows each time that a process takes the name.
    pub epoch: u64,
}

/// How this process stands with the lease store.
#[derive(Debug, Clone)]
pub struct LeaseRow {
    /// The store answers.
    pub is_up: bool,
    /// How often it did not, or refused something.
    pub errors: u64,
    /// Since its keys were listed; `None`: they were not yet.
    pub age: Option<Duration>,
    /// So long this process is sure to hold what it holds.
    pub left: Duration,
}

/// What becomes of a wish.
pub type Wishing<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// What operators may want of virtual IPs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VipWish {
    /// It shall be with this member as long as that can have it.
    Move {
        /// The virtual IP.
        vip: String,
        /// The member.
        to: String,
    },
    /// Nothing moves.
    Freeze,
    /// Things may move again.
    Unfreeze,
    /// Forgets all wishes to move.
    Rebalance,
    /// Takes nothing over that another member holds: what members ask each other when the store is lost.
    Promise {
        /// Who holds it.
        holder: String,
        /// For so long.
        ttl: Duration,
        /// What it holds.
        keys: Vec<String>,
        /// The members that it knows.
        members: Vec<String>,
    },
}

pub(crate) static VIPS: Source = Source {
    table: tables::Table {
        name: "vips",
        help: "The virtual IPs, and where they are. See docs/ha.md.",
        columns: &[
            Column::text("name", "Its name."),
            Column::text("addresses", "Its addresses."),
            Column::text("role", "Where it has to be: proxy, primary or replica."),
            Column::text("holder", "The member that holds it; NULL: none."),
            Column::text("wanted", "The member that should have it; NULL: none can."),
            Column::text("state", "On this host: elsewhere, here, leaving or failed."),
            Column::integer("state_s", "s", "For how long."),
            Column::integer(
                "left_ms",
                "ms",
                "How long this host keeps it without another answer of the store.",
            ),
            Column::integer("epoch", "", "Grows each time that it is taken."),
            Column::text("error", "What went wrong last."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| {
        let row = |vip: VipRow| {
            let addresses: Vec<_> = vip.addresses.iter().map(ToString::to_string).collect();
            vec![
                text(&vip.name),
                text(addresses.join(", ")),
                text(vip.role),
                vip.holder.map(text).into(),
                vip.wanted.map(text).into(),
                text(vip.state),
                number(vip.since.as_secs()),
                number(vip.left.as_millis()),
                vip.epoch.map_or(Cell::Null, number),
                vip.error.map(text).into(),
            ]
        };
        console.parts.proxy.vips().into_iter().map(row).collect()
    }),
};

pub(crate) static MEMBERS: Source = Source {
    table: tables::Table {
        name: "members",
        help: "The processes that share the lease store, as it has listed them last.",
        columns: &[
            Column::text("name", "Its name."),
            Column::text("fitness", "What it is fit for: proxy, and primary or replica."),
            Column::integer("is_own", "", "1: it is this process."),
            Column::integer("epoch", "", "Grows each time that a process takes the name."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| {
        let row = |one: MemberRow| {
            vec![text(one.name), text(one.fitness), number(u8::from(one.is_own)), number(one.epoch)]
        };
        console.parts.proxy.members().into_iter().map(row).collect()
    }),
};

/// One check of what virtual IPs need.
#[derive(Debug, Clone)]
pub struct VipCheckRow {
    /// The virtual IP; `lease` for the store; `cluster` and its name for what a failover needs of its servers.
    pub vip: String,
    /// The address, if it is about one.
    pub address: Option<IpAddr>,
    /// What was checked.
    pub check: &'static str,
    /// It is as it has to be.
    pub is_ok: bool,
    /// What was found.
    pub result: String,
    /// What to do if it is not.
    pub advice: Cow<'static, str>,
}

/// What comes of looking.
pub type VipChecking<'a> = Pin<Box<dyn Future<Output = Vec<VipCheckRow>> + 'a>>;

pub(crate) static CHECKS: Source = Source {
    table: tables::Table {
        name: "vip_checks",
        help: "Whether the virtual IPs can work on this host. A SELECT of it takes up to a second for each address, and asks the servers where [cluster.failover] has a user.",
        columns: &[
            Column::text(
                "vip",
                "The virtual IP; lease: the store; cluster and its name: what a failover needs of its servers.",
            ),
            Column::text("address", "The address; NULL: it is not about one."),
            Column::text("check_name", "What was checked."),
            Column::integer("ok", "", "1: it is as it should be."),
            Column::text("result", "What was found."),
            Column::text("advice", "What to do; NULL: nothing."),
        ],
        over: "",
    },
    role: AdminRole::Operator,
    rows: Provider::Asking(|console, _| {
        Box::pin(async {
            let row = |one: VipCheckRow| {
                vec![
                    text(one.vip),
                    one.address.map(text).into(),
                    text(one.check),
                    number(u8::from(one.is_ok)),
                    text(one.result),
                    (!one.is_ok).then(|| text(one.advice)).into(),
                ]
            };
            Ok(console.parts.proxy.check_vips().await.into_iter().map(row).collect())
        })
    }),
};

/// What a promise may be asked for at most.
const LONGEST_PROMISE: Duration = Duration::from_hours(1);

fn promise(holder: &Word, ttl: &Word, (keys, members): (&Word, &Word)) -> Result<VipWish, Refused> {
    let ttl = ttl.text.parse().map(Duration::from_millis).ok().filter(|ttl| *ttl <= LONGEST_PROMISE);
    let list = |word: &Word| word.text.split(',').map(str::to_owned).collect();
    Ok(VipWish::Promise {
        holder: holder.text.clone(),
        ttl: ttl.ok_or_else(|| usage_of("VIP"))?,
        keys: list(keys),
        members: list(members),
    })
}

/// `VIP MOVE name TO member`, `VIP FREEZE`, `VIP UNFREEZE`, `VIP REBALANCE`, `VIP PROMISE holder ms keys members`.
pub(super) async fn vip(call: &Call<'_>) -> Result<Answer, Refused> {
    let wish = match call.words {
        [word, name, to, member] if word.is("MOVE") && to.is("TO") => {
            VipWish::Move { vip: name.text.clone(), to: member.text.clone() }
        }
        [word] if word.is("FREEZE") => VipWish::Freeze,
        [word] if word.is("UNFREEZE") => VipWish::Unfreeze,
        [word] if word.is("REBALANCE") => VipWish::Rebalance,
        [word, holder, ttl, keys, members] if word.is("PROMISE") => promise(holder, ttl, (keys, members))?,
        _ => return Err(usage_of("VIP")),
    };
    let proxy = &call.console.parts.proxy;
    if let VipWish::Move { vip, to } = &wish {
        if !proxy.vips().iter().any(|one| *one.name == **vip) {
            return Err(Refused::because(format!("there is no virtual IP '{vip}'; SHOW VIPS has them")));
        }
        if !proxy.members().iter().any(|one| one.name == *to) {
            return Err(Refused::because(format!("there is no member '{to}'; SHOW MEMBERS has them")));
        }
    }
    proxy.wish_of_vips(wish).await.map_err(Refused::because)?;
    Ok(Answer::Done)
}
