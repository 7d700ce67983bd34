//! Where clients or operators connect, while that changes: listeners come and go, and what is set of one holds for those who come next.

use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_clients::ListenerSettings;
use delphinus_net::rt;
use delphinus_net::{ListenAddress, Listener};

use crate::error::Error;

/// What is set of a listener by now.
pub(crate) type CurrentSettings = Rc<RefCell<Arc<ListenerSettings>>>;

/// A listener as the configuration has it.
pub(crate) type Wanted = (ListenAddress, Arc<ListenerSettings>);

/// A listener that is bound.
pub(crate) struct Door {
    /// As it is written, maybe with port 0.
    address: ListenAddress,
    /// As it is.
    bound: ListenAddress,
    settings: CurrentSettings,
    listener: Option<Listener>,
    accepting: Option<rt::JoinHandle<()>>,
}

/// Lets in those who come to a listener, until its task is ended.
pub(crate) type Accepting = Rc<dyn Fn(Listener, CurrentSettings) -> rt::JoinHandle<()>>;

/// All of them.
#[derive(Default)]
pub(crate) struct Doors {
    accepting: RefCell<Option<Accepting>>,
    all: RefCell<Vec<Door>>,
}

/// Other listeners than now, of which nothing can fail any more.
pub(crate) struct NextDoors {
    /// In the order of the configuration.
    doors: Vec<(From, Wanted)>,
}

enum From {
    /// One that is there, by its place.
    Known(usize),
    New(Box<Door>),
}

impl Door {
    fn open((address, settings): &Wanted) -> Result<Self, Error> {
        let listener =
            Listener::bind(address).map_err(|error| Error::Listen { address: address.to_string(), error })?;
        let bound = listener.local_address().unwrap_or_else(|_| address.clone());
        let (address, settings) = (address.clone(), Rc::new(RefCell::new(settings.clone())));
        Ok(Self { address, bound, settings, listener: Some(listener), accepting: None })
    }

    fn begin(&mut self, accepting: &Accepting) {
        if let Some(listener) = self.listener.take() {
            tracing::info!(listener = %self.settings.borrow().name, address = %self.bound, "listening");
            self.accepting = Some(accepting(listener, self.settings.clone()));
        }
    }

    /// The same place, maybe with other permissions.
    fn is_now(&mut self, address: ListenAddress) {
        if let ListenAddress::Unix(path, mode) = &address
            && self.address != address
            && let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode))
        {
            tracing::error!(socket = %path.display(), %error, "cannot set the permissions of a socket");
        }
        self.address = address;
    }

    async fn close(mut self) {
        drop(self.listener.take());
        if let Some(task) = self.accepting.take() {
            task.abort();
            // Ended on purpose; the socket is closed with it.
            let _ = task.await;
        }
    }
}

/// True for one socket, whatever its permissions.
fn is_same_place(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Unix(one, _), ListenAddress::Unix(other, _)) => one == other,
        _ => one == other,
    }
}

impl Doors {
    /// Binds these.
    pub(crate) fn open(wanted: &[Wanted]) -> Result<Rc<Self>, Error> {
        let doors = Self::default();
        *doors.all.borrow_mut() = wanted.iter().map(Door::open).collect::<Result<_, _>>()?;
        Ok(Rc::new(doors))
    }

    /// Lets in those who come.
    pub(crate) fn begin(&self, accepting: Accepting) {
        self.all.borrow_mut().iter_mut().for_each(|door| door.begin(&accepting));
        *self.accepting.borrow_mut() = Some(accepting);
    }

    /// What is set of each, and where it is.
    pub(crate) fn shown(&self) -> Vec<(ListenAddress, Arc<ListenerSettings>)> {
        self.all.borrow().iter().map(|door| (door.bound.clone(), door.settings.borrow().clone())).collect()
    }

    /// Binds what is new among these. Nothing has changed if that fails.
    pub(crate) fn prepare(&self, wanted: &[Wanted]) -> Result<NextDoors, Error> {
        let all = self.all.borrow();
        let mut taken = vec![false; all.len()];
        let mut doors = Vec::new();
        for one in wanted {
            // Port 0 may be there more than once.
            let known = (0..all.len()).find(|at| !taken[*at] && is_same_place(&all[*at].address, &one.0));
            let door = match known {
                Some(at) => {
                    taken[at] = true;
                    From::Known(at)
                }
                None => From::New(Box::new(Door::open(one)?)),
            };
            doors.push((door, one.clone()));
        }
        Ok(NextDoors { doors })
    }

    /// Opens and closes what has to be. Who came in by one that is closed stays.
    pub(crate) async fn follow(&self, NextDoors { doors }: NextDoors) {
        let mut former: Vec<_> = self.all.take().into_iter().map(Some).collect();
        let mut next = Vec::new();
        for (from, (address, settings)) in doors {
            let door = match from {
                From::Known(at) => former.get_mut(at).and_then(Option::take),
                From::New(door) => Some(*door),
            };
            if let Some(mut door) = door {
                door.settings.replace(settings);
                door.is_now(address);
                next.push(door);
            }
        }
        if let Some(accepting) = &*self.accepting.borrow() {
            for door in &mut next {
                door.begin(accepting);
            }
        }
        *self.all.borrow_mut() = next;
        for door in former.into_iter().flatten() {
            tracing::info!(listener = %door.settings.borrow().name, address = %door.bound, "listener closed");
            door.close().await;
        }
    }

    /// Lets nobody in any more.
    pub(crate) async fn close(&self) {
        for door in self.all.take() {
            door.close().await;
        }
        self.accepting.take();
    }
}
