//! The whole proxy in this process, before real servers, under an allocator that counts on the threads of the proxy's
//! workers. The client and the control plane are not counted.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Silent};
use delphinus_testkit::{Client, Login, Param, Prepared, Reply};

use crate::proxy::{Proxy, eventually};
use crate::reading::note_readings;
use crate::sites::{Found, counted};

/// Until every connection is open and every buffer has its size.
const WARM_UP: i64 = 1_000;
/// Statements that are looked at.
const COUNTED: i64 = 1_024;
/// Sessions that run at the same time, in the cases with many.
const CROWD: i64 = 32;
const ROWS: i64 = 100;
/// How often all of them begin at once before they are counted, as they do then: so many buffers are in use at a time.
const REHEARSALS: usize = 30;

/// How long the proxy may take until nothing has to be asked any more.
const REST_LIMIT: Duration = Duration::from_secs(20);

/// How a client asks.
#[derive(Debug, Clone, Copy)]
enum Way {
    Text,
    /// The types of the parameters come with the first execution only, as some drivers do it.
    TypesOnce,
    /// The types come with every execution, as other drivers do it.
    TypesAlways,
}

const WAYS: [Way; 3] = [Way::Text, Way::TypesOnce, Way::TypesAlways];

/// Fails with the places that allocate, if there are any.
pub(crate) fn expect_no_allocation(flavor: Flavor) {
    let cluster = Cluster::start(&ClusterSpec { flavor, ..ClusterSpec::default() }, &Silent).unwrap();
    fill(&cluster);
    let proxy = Proxy::start(&cluster);
    come_to_rest(proxy.login());
    let mut wrong = Vec::new();
    for way in WAYS {
        for (who, found) in [("one", alone(proxy.login(), way)), ("many", crowd(proxy.login(), way))] {
            if found.count > 0 {
                wrong.push(format!(
                    "{flavor}, {who}, {way:?}: {} in {COUNTED} statements\n{found}",
                    found.count
                ));
            }
        }
    }
    // In the same proxy, because it takes longer to start one.
    let mut read_again = Vec::new();
    note_readings(proxy.login(), &mut read_again);
    proxy.stop();
    assert!(read_again.is_empty(), "texts are read too often\n{}", read_again.join("\n"));
    assert!(wrong.is_empty(), "allocations on the path of a point select\n\n{}", wrong.join("\n"));
}

/// Until the first probes have found that every replica has everything: before that, a session that reads asks which one has, and
/// may move to another one. What goes on allocating is found below, with its places.
fn come_to_rest(login: &Login) {
    let until = Instant::now() + REST_LIMIT;
    while Instant::now() < until && alone(login, Way::Text).count > 0 {}
}

/// A table with some rows, on every server.
fn fill(cluster: &Cluster) {
    let rows: Vec<_> = (0..ROWS).map(|id| format!("({id}, REPEAT('{}', 12))", id % 10)).collect();
    let primary = &cluster.servers[0];
    primary.query("CREATE TABLE app.point (id INT PRIMARY KEY, c CHAR(120) NOT NULL)").unwrap();
    primary.query(&format!("INSERT INTO app.point VALUES {}", rows.join(", "))).unwrap();
    for server in &cluster.servers {
        eventually("the rows on every server", || {
            let count = server.query("SELECT COUNT(*) FROM app.point")?;
            Ok((count.trim() == ROWS.to_string()).then_some(()))
        });
    }
}

/// One session, which runs alone.
fn alone(login: &Login, way: Way) -> Found {
    let mut session = Session::start(login, way);
    session.run(WARM_UP);
    let found = counted(|| session.run(COUNTED));
    session.client.quit().unwrap();
    found
}

/// Many sessions at once.
fn crowd(login: &Login, way: Way) -> Found {
    let gate = Barrier::new(CROWD as usize + 1);
    // What goes wrong in a step is told after the last gate, where nobody waits for this session any more.
    let step = |work: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(work));
    let serve = || {
        let mut session = None;
        let mut begun = step(&mut || session.insert(Session::start(login, way)).run(WARM_UP));
        for _ in 0..REHEARSALS {
            gate.wait();
            if begun.is_ok() {
                begun = step(&mut || session.as_mut().unwrap().run(COUNTED / CROWD));
            }
        }
        gate.wait();
        // The counting begins.
        gate.wait();
        let run = step(&mut || session.as_mut().unwrap().run(COUNTED / CROWD));
        gate.wait();
        // The counting ends, and only then do the sessions.
        gate.wait();
        begun.and(run).unwrap_or_else(|panic| resume_unwind(panic));
        session.unwrap().client.quit().unwrap();
    };
    std::thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(serve);
        }
        for _ in 0..=REHEARSALS {
            gate.wait();
        }
        let found = counted(|| {
            gate.wait();
            gate.wait();
        });
        gate.wait();
        found
    })
}

struct Session {
    client: Client,
    statement: Prepared,
    way: Way,
    is_first: bool,
}

impl Session {
    fn start(login: &Login, way: Way) -> Self {
        let mut client = login.connect().unwrap();
        let statement = client.prepare("SELECT c FROM point WHERE id = ?").unwrap().unwrap();
        Self { client, statement, way, is_first: true }
    }

    fn run(&mut self, count: i64) {
        for id in (0..count).map(|number| number % ROWS) {
            let replies = self.point_select(id);
            let [Reply::Rows(rows)] = &replies[..] else { panic!("no rows: {replies:?}") };
            let expected = (id % 10).to_string().repeat(12);
            assert_eq!(rows.rows, [[Some(expected.into_bytes())]]);
        }
    }

    fn point_select(&mut self, id: i64) -> Vec<Reply> {
        let with_types = match self.way {
            Way::Text => return self.client.query(format!("SELECT c FROM point WHERE id = {id}")).unwrap(),
            Way::TypesOnce => self.is_first,
            Way::TypesAlways => true,
        };
        self.is_first = false;
        self.client.execute(self.statement.id, &[Param::Int(id)], with_types).unwrap()
    }
}
