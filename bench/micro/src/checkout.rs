//! A session takes the connection that it left in its seat, and puts it back: what every statement does in the
//! steady state. Nothing is sent while is counted.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, ensure};
use delphinus_memory::Account;
use delphinus_net::rt::{self, Notify};
use delphinus_net::{Address, Place, Reach};
use delphinus_pool::{BackendLimits, Budget, Identity, Keys, Memory, Pool, Request, Settings};
use delphinus_state::SessionState;
use delphinus_telemetry::WaitCell;
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{BackendSecret, Password};

use crate::{backend, measure};

const BACKEND: BackendId = BackendId(0);

pub(crate) fn settings() -> Settings {
    Settings {
        hold_ms: 1_000,
        checkout_timeout_ms: 10_000,
        connect_timeout_ms: 10_000,
        idle_timeout_s: 0,
        max_lifetime_s: 0,
        statements_per_connection: 100,
        kills_abandoned: true,
        passed_attributes: Vec::new(),
        kept_open: Vec::new(),
        memory: Account::unlimited(),
    }
}

pub(crate) fn run() -> Result<()> {
    rt::block_on(take_and_put_back())?
}

async fn take_and_put_back() -> Result<()> {
    let pool = pool(backend::start()?);
    let keys = Arc::new(Keys::listed([BackendSecret::Plain(Password::new(b"secret"))]));
    let identity = pool.identity(Identity::new("app".to_owned(), Capabilities::default(), &keys));
    let memory = Rc::new(Memory::default());
    let want = SessionState::default();
    let waits = WaitCell::new(std::time::Instant::now());
    let request = Request {
        waits: &waits,
        backend: BACKEND,
        identity: &identity,
        rights: keys.epoch(),
        want: &want,
        memory: &memory,
        waits_for_room: true,
        takes_expired: false,
    };
    let mut seat = pool.checkout(request).await?.give_back();
    let mut is_right = true;
    measure(|| {
        let found = seat.take().and_then(|seat| pool.retake(BACKEND, seat, &memory));
        match found {
            Some(checkout) => {
                is_right &= checkout.is_ready(&want, &memory);
                seat = checkout.give_back();
            }
            None => is_right = false,
        }
    });
    ensure!(is_right && pool.size(BACKEND) == (1, 1), "the connection was not found again");
    Ok(())
}

fn pool(address: Address) -> Rc<Pool> {
    let bell = Arc::new(Notify::new());
    let place = Place::of("b".into(), address, Reach::default());
    let budget = Budget::new(BackendLimits { max: 10, ..BackendLimits::default() }, vec![bell.clone()]);
    Pool::new(settings(), vec![(place, budget)], bell, Arc::default())
}
