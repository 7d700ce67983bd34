//! The way of the lease store `group` to its servers: a thread with a connection to the group's primary, which it looks for among the
//! backends of the first cluster. What the statements mean is the affair of `delphinus_lease`.
//!
//! It has a thread of its own, so that nothing else that this process does makes a renewal late. It does not go by the monitor: what the
//! monitor last heard of the roles may be older than what the primary says on the connection that the COMMIT goes to.

use std::fmt;
use std::rc::Rc;
use std::sync::mpsc as channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delphinus_config::Config;
use delphinus_lease::{ADVICE, Errand, Glance, Servers, ServersError, Told, boot_now};
use delphinus_monitor::{Inquiry, NamedValues, Trouble};
use delphinus_net::rt::{self, Manner, mpsc};
use delphinus_net::{Place, Reach, Resolver};
use delphinus_topology::Terms;
use delphinus_wire::auth::Password;

use crate::error::Error;
use crate::settings::{address, reach};

/// Between two looks for the primary.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one member may take to say what it is: others are asked again meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// How long the resolver may take for one name, and between two looks.
const NAMES: Duration = Duration::from_secs(10);
const NAMES_PACE: Duration = Duration::from_secs(20);
/// A name of a server leads to one or two.
const MOST_ADDRESSES: usize = 4;

/// What a member says of itself.
const ROLE: &str = "SELECT CAST(SUM(MEMBER_ROLE = 'PRIMARY') AS UNSIGNED) AS primaries, \
     COALESCE(SUM(MEMBER_ROLE = 'PRIMARY' AND MEMBER_ID = @@server_uuid AND MEMBER_STATE = 'ONLINE'), 0) AS is_primary, \
     COALESCE(SUM(MEMBER_STATE IN ('ONLINE', 'RECOVERING')) * 2 > COUNT(*), 0) AS has_majority \
     FROM performance_schema.replication_group_members WHERE MEMBER_ID <> ''";

/// A text that does not fit is an error. A new primary answers when it has what the old one has committed. No lock is waited for longer
/// than a renewal may take, also where the process that has asked is gone; and what it has left open ends soon.
const FOR_CHANGES: &str = "SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', \
     transaction_isolation = 'READ-COMMITTED', innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, wait_timeout = 60, \
     group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER'";

/// A look at what a member has now.
const FOR_A_GLANCE: &str = "SET SESSION autocommit = 1, sql_mode = '', lock_wait_timeout = 1, \
     group_replication_consistency = 'EVENTUAL'";

/// The members of the group, as a store of leases.
pub(crate) struct Members {
    errands: mpsc::Sender<Job>,
    patience: Duration,
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").field("patience", &self.patience).finish_non_exhaustive()
    }
}

struct Job {
    errand: Errand,
    until: Instant,
    answer: channel::Sender<(Result<Told, ServersError>, Vec<Glance>)>,
}

impl Members {
    /// Starts the thread. It ends when this is dropped.
    ///
    /// # Errors
    /// Certificates that cannot be read, or no thread.
    pub(crate) fn start(config: &Config, terms: Terms) -> Result<Self, Error> {
        let cluster = &config.clusters[0];
        let member = |backend| {
            let (address, reach) = (address(backend), reach(backend)?);
            Ok(Member::new(Place::of(backend.name.as_str().into(), address, reach)))
        };
        let members: Result<Vec<_>, Error> = cluster.backends.iter().map(member).collect();
        let password = config.lease.password.as_ref().map(|password| Password::new(password.expose()));
        let group = Group {
            members: members?,
            user: config.lease.user.clone().unwrap_or_default(),
            password: password.unwrap_or_else(|| Password::new("")),
        };
        let (errands, jobs) = mpsc::channel(1);
        rt::spawn_worker("lease-group".to_owned(), Manner::default(), move || group.work(jobs))
            .map_err(|error| Error::Lease(error.to_string()))?;
        Ok(Self { errands, patience: terms.patience() })
    }
}

impl Servers for Members {
    fn run(&mut self, errand: &Errand, seen: &mut Vec<Glance>) -> Result<Told, ServersError> {
        let (answer, answered) = channel::channel();
        let until = rt::now() + self.patience;
        let job = Job { errand: errand.clone(), until, answer };
        let ended = || ServersError::NoPrimary("the thread that talks to the group has ended".to_owned());
        self.errands.blocking_send(job).map_err(|_| ended())?;
        // The thread keeps to its time.
        let (told, glances) = answered.recv().map_err(|_| ended())?;
        seen.extend(glances);
        told
    }
}

struct Group {
    members: Vec<Member>,
    user: String,
    password: Password,
}

/// Where a member is. A name is looked up from time to time, and what it led to is kept: a resolver that does not answer must not end what this
/// process holds.
struct Member {
    place: Arc<Place>,
    /// The same at each address that its name has led to.
    known: Mutex<Vec<Arc<Place>>>,
}

impl Member {
    fn new(place: Arc<Place>) -> Self {
        Self { place, known: Mutex::default() }
    }

    /// By each address, and by its name: that may lead elsewhere since.
    fn ways(&self) -> Vec<Arc<Place>> {
        let mut ways = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ways.push(self.place.clone());
        ways
    }

    async fn look_up(&self, resolver: &Resolver) {
        let spot = self.place.spot();
        let (Some(name), Some(address)) = (spot.host_name(), &spot.address) else { return };
        // What was known stays where there is no answer.
        let Ok(found) = resolver.addresses(name, NAMES).await else { return };
        let at = |ip| {
            let reach = Reach::clone(&self.place.reach());
            let place = Place::of(spot.name.clone(), address.clone(), reach);
            place.settle(&place.spot(), ip);
            place
        };
        let known = found.into_iter().take(MOST_ADDRESSES).map(at).collect();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

/// What a member has turned out to be.
enum Found {
    Primary(Box<Inquiry>),
    Another(Glance),
    /// Why it is of no use.
    None(String),
}

impl Group {
    async fn work(self, mut jobs: mpsc::Receiver<Job>) {
        let group = Rc::new(self);
        let looking = group.clone();
        let looking = rt::spawn_local(async move {
            loop {
                for member in &looking.members {
                    member.look_up(&Resolver::System).await;
                }
                rt::sleep(NAMES_PACE).await;
            }
        });
        group.follow(&mut jobs).await;
        looking.abort();
    }

    async fn follow(&self, jobs: &mut mpsc::Receiver<Job>) {
        let mut primary = None;
        while let Some(job) = jobs.recv().await {
            let mut glances = Vec::new();
            let told = self.carry(&job, &mut primary, &mut glances).await;
            // Whoever has asked may have ended.
            let _ = job.answer.send((told, glances));
        }
    }

    /// Once at least, and again while there is time, where the answer says that it is another's affair.
    async fn carry(
        &self,
        job: &Job,
        known: &mut Option<Inquiry>,
        glances: &mut Vec<Glance>,
    ) -> Result<Told, ServersError> {
        let mut why = "no member of the group has answered in time".to_owned();
        let statements: Vec<&str> = job.errand.statements.iter().map(String::as_str).collect();
        while rt::now() < job.until {
            let found = match known.take() {
                Some(primary) => Ok(primary),
                None => self.find(job, glances).await,
            };
            let mut primary = match found {
                Ok(primary) => primary,
                Err(reason) => {
                    why = reason;
                    rt::sleep(PAUSE).await;
                    continue;
                }
            };
            match primary.run(&statements, left(job.until)).await {
                Ok(rows) => {
                    *known = Some(primary);
                    return Ok(rows);
                }
                Err(Trouble::NoTable) => return Err(ServersError::NoTable),
                Err(Trouble::Refused(text)) => {
                    return Err(ServersError::Refused(advised(text)));
                }
                Err(Trouble::NotNow(text)) => {
                    why = text;
                    rt::sleep(PAUSE).await;
                }
                Err(Trouble::NoAnswer(text)) => why = format!("the primary does not commit: {text}"),
            }
        }
        Err(ServersError::NoPrimary(why))
    }

    /// Asks all members at the same time, and takes the first that is the primary and has a majority.
    async fn find(&self, job: &Job, glances: &mut Vec<Glance>) -> Result<Inquiry, String> {
        let limit = left(job.until).min(LOOK);
        let ways: Vec<_> = self.members.iter().flat_map(Member::ways).collect();
        let (found, mut all) = mpsc::channel(ways.len().max(1));
        for place in ways {
            let (found, glance) = (found.clone(), job.errand.glance.clone());
            let who = (self.user.clone(), self.password.clone());
            drop(rt::spawn_local(async move {
                let looked = rt::timeout(limit, look(&place, who, (&glance, limit))).await;
                let looked = looked.unwrap_or_else(|| Found::None("no answer".to_owned()));
                let looked = match looked {
                    Found::None(why) => Found::None(format!("{}: {why}", place.name())),
                    looked => looked,
                };
                let _ = found.send(looked).await;
            }));
        }
        drop(found);
        let mut reasons = Vec::new();
        while let Some(one) = all.recv().await {
            match one {
                Found::Primary(inquiry) => return Ok(*inquiry),
                Found::Another(glance) => glances.push(glance),
                Found::None(why) => reasons.push(why),
            }
        }
        reasons.sort();
        reasons.dedup();
        let why =
            if reasons.is_empty() { "all members are secondaries".to_owned() } else { reasons.join("; ") };
        Err(format!("no primary of the group with a majority: {why}"))
    }
}

/// What to do is said where a right is missing.
fn advised(why: String) -> String {
    if why.contains("denied") { format!("{why}: {ADVICE}") } else { why }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(rt::now())
}

async fn look(
    place: &Arc<Place>,
    (user, password): (String, Password),
    (glance, limit): (&str, Duration),
) -> Found {
    let mut inquiry = match Inquiry::open(place, (&user, password), limit).await {
        Ok(inquiry) => inquiry,
        Err(why) => return Found::None(why),
    };
    let role = match inquiry.run(&[ROLE], limit).await {
        Ok(rows) => rows.into_iter().next().and_then(|rows| rows.into_iter().next()).unwrap_or_default(),
        Err(Trouble::Refused(why)) => return Found::None(advised(why)),
        Err(trouble) => return Found::None(format!("it does not say what it is: {trouble}")),
    };
    match standing(&role) {
        Standing::Primary => match inquiry.run(&[FOR_CHANGES], limit).await {
            Ok(_) => Found::Primary(Box::new(inquiry)),
            Err(trouble) => Found::None(format!("its session cannot be set up: {trouble}")),
        },
        Standing::Another => match inquiry.run(&[FOR_A_GLANCE, glance], limit).await {
            Ok(rows) => {
                inquiry.close().await;
                Found::Another((boot_now(), rows.into_iter().next().unwrap_or_default()))
            }
            Err(_) => Found::None("a secondary without the tables".to_owned()),
        },
        Standing::Useless(why) => Found::None(why.to_owned()),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Primary,
    Another,
    Useless(&'static str),
}

/// What a member is by its own word.
fn standing(role: &NamedValues) -> Standing {
    let number = |name: &str| role.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    match (number("primaries"), number("is_primary"), number("has_majority")) {
        (2.., ..) => Standing::Useless(
            "the group has several primaries; leases need one: switch it to single-primary mode",
        ),
        (_, 1, 1) => Standing::Primary,
        (_, 1, _) => Standing::Useless("the primary has lost its majority"),
        (1, 0, _) => Standing::Another,
        _ => Standing::Useless("it is in no group"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_looked_up_leads_where_it_led_before() {
        let address = delphinus_net::Address::Tcp("db1.example".to_owned(), 3306);
        let member = Member::new(Place::of("db1".into(), address, Reach::default()));
        let ways = || {
            let ip =
                |way: &Arc<Place>| (way.spot().ip.map(|ip| ip.to_string()), way.spot().host().to_owned());
            member.ways().iter().map(ip).collect::<Vec<_>>()
        };
        let name = || "db1.example".to_owned();
        assert_eq!(ways(), [(None, name())]);
        let answers = |text: &'static str| {
            let own = move |_: &str| match text {
                "" => Err(std::io::ErrorKind::TimedOut.into()),
                text => Ok(text.split(' ').map(|ip| ip.parse().unwrap()).collect()),
            };
            rt::block_on(async { member.look_up(&Resolver::Own(Rc::new(own))).await }).unwrap();
        };
        answers("10.0.0.1 fd00::1");
        let both =
            [(Some("10.0.0.1".to_owned()), name()), (Some("fd00::1".to_owned()), name()), (None, name())];
        assert_eq!(ways(), both);
        answers("");
        assert_eq!(ways(), both);
        answers("10.0.0.7");
        assert_eq!(ways(), [(Some("10.0.0.7".to_owned()), name()), (None, name())]);
    }

    #[test]
    fn only_a_single_primary_with_a_majority_is_written_to() {
        let said = |primaries: &str, own: &str, majority: &str| {
            let cells = [("primaries", primaries), ("is_primary", own), ("has_majority", majority)];
            standing(&cells.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
        };
        assert_eq!(said("1", "1", "1"), Standing::Primary);
        assert_eq!(said("1", "0", "1"), Standing::Another);
        assert_eq!(said("1", "0", "0"), Standing::Another, "what it has seen was committed all the same");
        for useless in
            [said("1", "1", "0"), said("3", "1", "1"), said("0", "0", "0"), standing(&NamedValues::new())]
        {
            assert!(matches!(useless, Standing::Useless(_)), "{useless:?}");
        }
    }
}
