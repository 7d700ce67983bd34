//! What is valid beside writes, and a simulation that holds every answer against what was there.

use std::time::Instant;

use proptest::prelude::*;

use super::*;

const CLUSTER: ClusterId = ClusterId(0);
const PRIMARY: BackendId = BackendId(0);
const REPLICA: BackendId = BackendId(1);
const REGIME: Regime = Regime { primary: Some(of_old(PRIMARY)), edition: 1 };

/// It has always been the primary.
const fn of_old(backend: BackendId) -> Primary {
    Primary { backend, succession: 1, since: None, is_elected: false }
}

fn set(text: &str) -> GtidSet {
    GtidSet::parse(text).unwrap()
}

fn spot(table: u64) -> Spot {
    Spot::new(CLUSTER, About::Table(table))
}

fn origin(backend: BackendId, position: Option<&str>) -> Origin {
    let position = position.map(|text| Arc::new(set(text)));
    Origin { position, ..Origin::new(backend, Instant::now()) }
}

fn place(gtids: Option<&str>) -> Place {
    Place::new(PRIMARY, gtids.map(set))
}

/// Both steps, one right after the other.
fn look(tables: &Tables, spots: &[Spot], origin: &Origin, regime: Regime) -> Option<Reads> {
    tables.prove(tables.see(spots.iter().copied(), Instant::now())?, origin, regime)
}

fn is_valid(tables: &Tables, reads: &Reads, regime: Regime) -> bool {
    tables.is_valid(reads, regime, Instant::now)
}

fn write(tables: &Tables, spots: &[Spot], gtids: Option<&str>) {
    let running = tables.begin(spots.iter().copied());
    tables.end(running, Some(&place(gtids)));
}

#[test]
fn an_answer_is_valid_until_one_of_its_tables_is_written() {
    let tables = Tables::default();
    let look = || look(&tables, &[spot(1), spot(2)], &origin(PRIMARY, None), REGIME);
    let reads = look().unwrap();
    write(&tables, &[spot(3)], None);
    assert!(is_valid(&tables, &reads, REGIME));
    let running = tables.begin([spot(2)]);
    assert!(!is_valid(&tables, &reads, REGIME), "from when it is sent on");
    assert!(look().is_none(), "beside a write nothing is kept");
    tables.end(running, Some(&place(None)));
    assert!(!is_valid(&tables, &reads, REGIME));
    let reads = look().unwrap();
    assert!(is_valid(&tables, &reads, REGIME));
    for regime in [
        Regime { primary: Some(of_old(REPLICA)), ..REGIME },
        Regime { primary: Some(Primary { succession: 3, ..of_old(PRIMARY) }), ..REGIME },
        Regime { primary: None, ..REGIME },
        Regime { edition: 2, ..REGIME },
    ] {
        assert!(!is_valid(&tables, &reads, regime), "{regime:?}");
    }
}

#[test]
fn a_replica_has_to_have_the_writes() {
    let tables = Tables::default();
    let from = |origin: Origin, regime| look(&tables, &[spot(1)], &origin, regime).is_some();
    let look = |backend, position| from(origin(backend, position), REGIME);
    assert!(look(REPLICA, None), "nothing was written through here");
    write(&tables, &[spot(1)], Some("0-1-5"));
    assert!(!look(REPLICA, Some("0-1-4")) && look(REPLICA, Some("0-1-5")) && look(PRIMARY, None));
    write(&tables, &[spot(1)], None);
    assert!(!look(REPLICA, Some("0-1-9")), "its GTID was not told");
    let had_all = Origin { had_all: true, ..origin(REPLICA, None) };
    assert!(from(had_all, REGIME));
    // The next one comes after it, and says so.
    write(&tables, &[spot(1)], Some("0-1-7"));
    assert!(!look(REPLICA, Some("0-1-6")) && look(REPLICA, Some("0-1-7")));
    // What was written on a primary that is gone may be gone, too.
    let moved = Regime { primary: Some(of_old(BackendId(2))), ..REGIME };
    assert!(!from(origin(REPLICA, Some("0-1-9")), moved));
    assert!(from(origin(BackendId(2), None), moved));
}

/// A backlog: it takes statements before it has done what it has received from the one before.
#[test]
fn another_primary_has_what_was_acknowledged_before_when_it_shows_that_or_after_a_while() {
    let (tables, elected) = (Tables::default(), Instant::now());
    let of = |server: u32, numbers: &str| format!("3e11fa47-71ca-11e1-9e33-c80aa942956{server}:{numbers}");
    let end = |backend, table, gtids: Option<&str>| {
        tables.end(tables.begin([spot(table)]), Some(&Place::new(backend, gtids.map(set))));
    };
    let next = Primary { backend: REPLICA, succession: 2, since: Some(elected), is_elected: true };
    let regime = Regime { primary: Some(next), ..REGIME };
    let ask = |backend, table, position: &str, after: Duration| {
        let position = (!position.is_empty()).then_some(position);
        let origin = Origin { began: elected + after, had_all: true, ..origin(backend, position) };
        look(&tables, &[spot(table)], &origin, regime).is_some()
    };
    let soon = Duration::from_secs(1);
    end(PRIMARY, 1, Some(&of(1, "5")));
    end(PRIMARY, 2, None);
    assert!(ask(REPLICA, 3, "", soon), "nothing was written there");
    assert!(!ask(REPLICA, 1, "", soon) && !ask(REPLICA, 1, &of(1, "1-4"), soon));
    assert!(ask(REPLICA, 1, &of(1, "1-5"), soon));
    assert!(!ask(REPLICA, 2, &of(1, "1-9"), soon), "what it has to show was not told");
    for table in [1, 2] {
        assert!(ask(REPLICA, table, "", SETTLING), "it is lost, or done");
    }
    // Where no group elects, one has what has not told its GTIDs.
    let promoted = Regime { primary: Some(Primary { is_elected: false, ..next }), ..REGIME };
    let at = |position: &str| Origin { began: elected + soon, ..origin(REPLICA, Some(position)) };
    assert!(look(&tables, &[spot(2)], &at(&of(1, "1")), promoted).is_some());
    assert!(look(&tables, &[spot(1)], &at(&of(1, "1")), promoted).is_none());
    // What the next one writes takes nothing of that away, but for the places of what it has shown.
    for own in ["1", "2"] {
        end(REPLICA, 1, Some(&of(2, own)));
        assert!(!ask(REPLICA, 1, &of(1, "1-4"), soon) && ask(REPLICA, 1, &of(1, "1-5"), soon), "{own}");
    }
    end(REPLICA, 2, Some(&of(2, "3")));
    assert!(!ask(REPLICA, 2, &of(1, "1-9"), soon));
    // The others have to have both.
    let third = BackendId(2);
    let both = [of(1, "1-5"), of(2, "1-2")].join(",");
    for (position, has) in [(&of(2, "1-2"), false), (&of(1, "1-5"), false), (&both, true)] {
        assert_eq!(ask(third, 1, position, soon), has, "{position}");
    }
    // After a while it is forgotten, also for the one after the next.
    assert!(ask(REPLICA, 1, "", SETTLING) && ask(third, 1, &of(2, "1-2"), soon));
}

#[test]
fn what_is_written_while_an_origin_is_found_ends_the_answer() {
    let tables = Tables::default();
    let seen = tables.see([spot(1)], Instant::now()).unwrap();
    write(&tables, &[spot(1)], Some("0-1-5"));
    let had_all = Origin { had_all: true, ..origin(REPLICA, None) };
    let reads = tables.prove(seen, &had_all, REGIME).unwrap();
    assert!(!is_valid(&tables, &reads, REGIME));
}

#[test]
fn writes_that_run_beside_each_other_are_all_asked_for() {
    let tables = Tables::default();
    write(&tables, &[spot(1)], Some("0-1-1"));
    let look = |position| look(&tables, &[spot(1)], &origin(REPLICA, Some(position)), REGIME).is_some();
    let first = tables.begin([spot(1)]);
    let second = tables.begin([spot(1)]);
    tables.end(second, Some(&place(Some("0-1-6"))));
    // It began alone, and is not the last.
    tables.end(first, Some(&place(Some("0-1-5"))));
    assert!(!look("0-1-5") && look("0-1-6"));
    let first = tables.begin([spot(1)]);
    let second = tables.begin([spot(1)]);
    tables.end(first, Some(&place(None)));
    tables.end(second, Some(&place(Some("0-1-8"))));
    assert!(!look("0-1-9"), "one of them was not told");
    let failed = tables.begin([spot(1)]);
    tables.end(failed, None);
    write(&tables, &[spot(1)], Some("0-1-9"));
    assert!(look("0-1-9"));
}

#[test]
fn what_is_told_late_does_not_stand_for_what_was_written_later() {
    for of in ["0-1-", "3e11fa47-71ca-11e1-9e33-c80aa9429562:"] {
        let tables = Tables::default();
        let gtids = |number: u32| format!("{of}{number}");
        let up_to = |number: u32| if of == "0-1-" { gtids(number) } else { gtids(1) + &format!("-{number}") };
        let look =
            |number| look(&tables, &[spot(1)], &origin(REPLICA, Some(&up_to(number))), REGIME).is_some();
        write(&tables, &[spot(1)], Some(&gtids(5)));
        // A write that has changed nothing brings what another statement on its connection had not told.
        write(&tables, &[spot(1)], Some(&gtids(3)));
        assert!(!look(4) && look(5), "{of}");
        write(&tables, &[spot(1)], Some(&gtids(7)));
        assert!(!look(6) && look(7), "{of}");
    }
}

/// What a simulated step does.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A write of a table is sent to the primary.
    Begin(usize),
    /// The oldest write that was sent is done by the primary.
    Commit,
    /// The oldest write that was done is acknowledged; with its GTID, or without.
    Acknowledge(bool),
    /// The replica does what the primary has done, up to so many transactions.
    Apply(usize),
    /// A probe tells where both are.
    Probe,
    /// A read of a table is sent there.
    Send(usize, bool),
    /// The oldest read that was sent is run, and its answer kept.
    Run,
    /// An answer is asked for.
    Ask(usize),
    /// The primary is lost, and the replica has its role, though it may have to do yet what it has received.
    Elect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Step::Begin),
        4 => Just(Step::Commit),
        4 => any::<bool>().prop_map(Step::Acknowledge),
        4 => (0..4_usize).prop_map(Step::Apply),
        4 => Just(Step::Probe),
        4 => ((0..3_usize), any::<bool>()).prop_map(|(table, replica)| Step::Send(table, replica)),
        4 => Just(Step::Run),
        4 => (0..3_usize).prop_map(Step::Ask),
        1 => Just(Step::Elect),
    ]
}

/// Which rule is left out, to see that the simulation finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A write of table 2 is not noted.
    TableMissed,
    /// A write is noted when it has ended, and not before it is sent: others may have seen it by then.
    NotedLate,
    /// The answer of a replica is taken for one of the primary.
    LaggingReplica,
    /// A view of table 1, which is table 2 to its reader, is not looked into.
    ViewMissed,
    /// A primary that was elected is taken for one that has everything.
    BacklogMissed,
}

/// A server: which transactions of each table it has done, by their numbers, and how many of those of each server.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    tables: [u128; 3],
    executed: [usize; 2],
}

impl Server {
    /// The next transaction of a server.
    fn does(&mut self, table: usize, of: usize, number: usize) {
        self.tables[table] |= 1 << number;
        self.executed[of] += 1;
    }

    fn position(&self) -> GtidSet {
        let part = |(of, count): (usize, &usize)| (*count > 0).then(|| gtids(of, (1, *count)));
        set(&self.executed.iter().enumerate().filter_map(part).collect::<Vec<_>>().join(","))
    }
}

fn gtids(of: usize, (first, last): (usize, usize)) -> String {
    format!("3e11fa47-71ca-11e1-9e33-c80aa942956{of}:{first}-{last}")
}

/// A write that a server has done.
struct Done {
    table: usize,
    running: Option<Running>,
    place: Place,
    number: usize,
}

struct World {
    tables: Tables,
    /// What is there.
    servers: [Server; 2],
    /// Which of them is the primary, and since when.
    primary: Primary,
    /// Transactions of the first server in order, by table and number; the second one has received all of them.
    log: Vec<(usize, usize)>,
    /// How many there are in all.
    transactions: usize,
    known: [GtidSet; 2],
    sent: Vec<(usize, Option<Running>)>,
    done: Vec<Done>,
    /// What was acknowledged to a client by now, or seen by one.
    promised: [u128; 3],
    reading: Vec<(usize, usize, Option<Reads>)>,
    kept: [Option<(Reads, u128)>; 3],
    hits: u64,
}

impl Default for World {
    fn default() -> Self {
        Self {
            tables: Tables::of_cells(256),
            servers: Default::default(),
            primary: of_old(PRIMARY),
            log: Vec::new(),
            transactions: 0,
            known: [Server::default().position(), Server::default().position()],
            sent: Vec::new(),
            done: Vec::new(),
            promised: [0; 3],
            reading: Vec::new(),
            kept: [None, None, None],
            hits: 0,
        }
    }
}

impl World {
    /// What a client of table 2 reads is table 1, by a view.
    fn base(table: usize) -> usize {
        if table == 2 { 1 } else { table }
    }

    fn spots(table: usize, fault: Fault) -> Vec<Spot> {
        let base = if fault == Fault::ViewMissed { table } else { Self::base(table) };
        vec![spot(table as u64), spot(base as u64)]
    }

    fn noted(&self, table: usize, fault: Fault) -> Option<Running> {
        (fault != Fault::TableMissed || table != 1).then(|| self.tables.begin([spot(table as u64)]))
    }

    fn regime(&self) -> Regime {
        Regime { primary: Some(self.primary), ..REGIME }
    }

    fn leader(&self) -> usize {
        self.primary.backend.index()
    }

    /// False if a client is given an answer without a write that was acknowledged before it asked, or that any client had seen.
    fn take(&mut self, step: Step, fault: Fault) -> bool {
        let late = fault == Fault::NotedLate;
        match step {
            Step::Begin(table) => {
                let table = Self::base(table);
                let running = if late { None } else { self.noted(table, fault) };
                self.sent.push((table, running));
            }
            Step::Commit if !self.sent.is_empty() => {
                let (table, running) = self.sent.remove(0);
                self.commit(table, running);
            }
            Step::Acknowledge(is_told) if !self.done.is_empty() => {
                let Done { table, running, mut place, number } = self.done.remove(0);
                if !is_told {
                    place.gtids = None;
                }
                // Late: as if it had no time in which it runs.
                let running = if late { self.noted(table, fault) } else { running };
                if let Some(running) = running {
                    self.tables.end(running, Some(&place));
                }
                self.promised[table] |= 1 << number;
            }
            Step::Apply(count) => {
                for _ in 0..count {
                    let [first, second] = &mut self.servers;
                    if second.executed[0] < first.executed[0] {
                        let (table, number) = self.log[second.executed[0]];
                        second.does(table, 0, number);
                    }
                }
            }
            Step::Probe => self.known = self.servers.map(|server| server.position()),
            Step::Send(table, on_replica) => self.send(table, on_replica, fault),
            Step::Run if !self.reading.is_empty() => {
                let (table, server, reads) = self.reading.remove(0);
                let base = Self::base(table);
                let seen = self.servers[server].tables[base];
                self.promised[base] |= seen;
                if let Some(reads) = reads {
                    self.kept[table] = Some((reads, seen));
                }
            }
            Step::Ask(table) => {
                if let Some((reads, seen)) = &self.kept[table]
                    && is_valid(&self.tables, reads, self.regime())
                {
                    self.hits += 1;
                    return self.promised[Self::base(table)] & !seen == 0;
                }
            }
            Step::Elect if self.leader() == 0 => {
                // What was sent to it is not done any more.
                for running in self.sent.drain(..).filter_map(|(_, running)| running) {
                    self.tables.end(running, None);
                }
                let since = (fault != Fault::BacklogMissed).then(Instant::now);
                self.primary = Primary { backend: REPLICA, succession: 2, since, is_elected: true };
            }
            Step::Commit | Step::Acknowledge(_) | Step::Run | Step::Elect => {}
        }
        true
    }

    fn commit(&mut self, table: usize, running: Option<Running>) {
        let (leader, number) = (self.leader(), self.transactions);
        self.transactions += 1;
        let server = &mut self.servers[leader];
        server.does(table, leader, number);
        let own = server.executed[leader];
        if leader == 0 {
            self.log.push((table, number));
        }
        let place = Place::new(self.primary.backend, Some(set(&gtids(leader, (own, own)))));
        self.done.push(Done { table, running, place, number });
    }

    fn send(&mut self, table: usize, on_replica: bool, fault: Fault) {
        // The one that was the primary is gone.
        let server = if on_replica { 1 } else { self.leader() };
        let is_trusted = fault == Fault::LaggingReplica && self.leader() == 0;
        let backend = if is_trusted || server == 0 { PRIMARY } else { REPLICA };
        let origin = Origin { position: Some(Arc::new(self.known[server].clone())), ..origin(backend, None) };
        let reads = look(&self.tables, &Self::spots(table, fault), &origin, self.regime());
        self.reading.push((table, server, reads));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_lacks_a_write_that_was_acknowledged(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::default();
        for step in steps {
            prop_assert!(world.take(step, Fault::None));
        }
    }
}

#[test]
fn each_planted_fault_is_found() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 1..80);
    let all: Vec<Vec<Step>> =
        (0..5000).map(|_| steps.new_tree(&mut runner).expect("a list of steps").current()).collect();
    for (fault, is_found) in [
        (Fault::None, false),
        (Fault::TableMissed, true),
        (Fault::NotedLate, true),
        (Fault::LaggingReplica, true),
        (Fault::ViewMissed, true),
        (Fault::BacklogMissed, true),
    ] {
        let mut hits = 0;
        let found = all.iter().any(|steps| {
            let mut world = World::default();
            let is_right = steps.iter().all(|step| world.take(*step, fault));
            hits += world.hits;
            !is_right
        });
        assert_eq!(found, is_found, "{fault:?}");
        assert!(hits > 0, "{fault:?}: no answer was given at all");
    }
}
