//! The control plane's side of the door: hands over those who come to the listeners, and does what the thread of connections asks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::Console;
use delphinus_clients::ListenerSettings;
use delphinus_net::Listener;
use delphinus_net::rt::{self, Manner, mpsc, watch};
use delphinus_telemetry::Pace;

use crate::counts::Counts;
use crate::line::line;
use crate::server::{Arrival, Server};
use crate::settings::Settings;

/// Where accepting fails, it fails ten times a second.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How many may be on their way to the thread.
const ARRIVALS: usize = 256;

/// The door. Its thread begins with the first listener.
pub struct HttpDoor {
    console: Rc<Console>,
    settings: watch::Sender<Arc<Settings>>,
    counts: Arc<Counts>,
    thread: RefCell<Option<mpsc::Sender<Arrival>>>,
}

impl HttpDoor {
    /// A door to this console.
    pub fn new(console: Rc<Console>, settings: Settings) -> Rc<Self> {
        let (settings, _) = watch::channel(Arc::new(settings));
        Rc::new(Self { console, settings, counts: Arc::default(), thread: RefCell::default() })
    }

    /// Follows other settings from now on, with those who connect.
    pub fn follow(&self, settings: Settings) {
        self.settings.send_replace(Arc::new(settings));
    }

    /// Accepts on one listener until the task is ended.
    pub async fn accept(self: Rc<Self>, listener: Listener, current: Rc<RefCell<Arc<ListenerSettings>>>) {
        let thread = match self.thread() {
            Ok(thread) => thread,
            Err(error) => {
                return tracing::error!(%error, "the HTTP door cannot start its thread: no program can \
             connect");
            }
        };
        let mut pace = Pace::of(TELL_EVERY);
        loop {
            let accepted = listener.accept().await;
            let settings = current.borrow().clone();
            match accepted {
                Ok(peer) => {
                    if thread.send(Arrival { peer, listener: settings }).await.is_err() {
                        return tracing::error!("the HTTP door's thread has ended");
                    }
                }
                // Gone before it was accepted: nothing is wrong here.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if let Some(held_back) = pace.step(rt::now()) {
                        tracing::warn!(listener = %settings.name, %error, held_back, "cannot accept a program");
                    }
                    rt::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// The way to the thread, which begins with the first one who asks.
    fn thread(&self) -> std::io::Result<mpsc::Sender<Arrival>> {
        if let Some(thread) = &*self.thread.borrow() {
            return Ok(thread.clone());
        }
        let (line, desk) = line();
        let server = Server {
            settings: self.settings.subscribe(),
            line,
            memory: self.console.memory().clone(),
            counts: self.counts.clone(),
        };
        let (sender, arrivals) = mpsc::channel(ARRIVALS);
        rt::spawn_worker("http".to_owned(), Manner::default(), move || server.serve(arrivals))?;
        rt::spawn_local(desk.serve(self.console.clone()));
        *self.thread.borrow_mut() = Some(sender.clone());
        Ok(sender)
    }
}
