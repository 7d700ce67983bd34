//! What is held, promised and written while the store, or a list of its keys, does not answer.

use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;

use super::*;
use crate::local::Local;
use crate::peers::Promise;
use crate::store::{Claimed, Granted};

/// A store of which tests say what it does not do.
#[derive(Debug, Clone, Default)]
struct Shaky(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent faults, each planted by itself")]
struct Told {
    keys: Local,
    /// Only the list of all keys fails.
    hides: bool,
    /// It answers nothing.
    is_gone: bool,
    /// Nothing can be written into it.
    is_full: bool,
    /// It knows no lease that was given before.
    forgets: bool,
    /// It takes so long to say that it knows the holder.
    renewals_take: Duration,
    /// It takes so long for each key that is taken.
    claims_take: Duration,
    /// This key cannot be taken.
    refuses: Option<&'static str>,
    /// So many questions are not answered.
    fails: u32,
    /// A key is being taken.
    is_claiming: bool,
}

impl Shaky {
    fn set(&self, what: impl FnOnce(&mut Told)) {
        what(&mut self.0.lock().unwrap());
    }

    fn ask<T>(&self, what: impl FnOnce(&mut Told) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut told = self.0.lock().unwrap();
        let fails = told.fails > 0;
        told.fails = told.fails.saturating_sub(1);
        if told.is_gone || fails {
            return Err(StoreError::Unreachable("gone".into()));
        }
        what(&mut told)
    }
}

impl Store for Shaky {
    fn grant(&mut self, ttl: Duration) -> Result<Granted, StoreError> {
        self.ask(|told| told.keys.grant(ttl))
    }

    fn renew(&mut self, lease: u64) -> Result<Option<Duration>, StoreError> {
        let takes = self.0.lock().unwrap().renewals_take;
        thread::sleep(takes);
        self.ask(|told| if std::mem::take(&mut told.forgets) { Ok(None) } else { told.keys.renew(lease) })
    }

    fn end(&mut self, lease: u64) -> Result<(), StoreError> {
        self.ask(|told| told.keys.end(lease))
    }

    fn claim(&mut self, key: &str, value: &str, lease: u64) -> Result<Claimed, StoreError> {
        let takes = {
            let mut told = self.0.lock().unwrap();
            told.is_claiming = true;
            told.claims_take
        };
        thread::sleep(takes);
        self.ask(|told| {
            told.is_claiming = false;
            if told.refuses == Some(key) {
                Err(StoreError::Refused("too long".into()))
            } else {
                told.keys.claim(key, value, lease)
            }
        })
    }

    fn release(&mut self, key: &str, epoch: u64) -> Result<(), StoreError> {
        self.ask(|told| told.keys.release(key, epoch))
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        self.ask(|told| {
            if told.is_full { Err(StoreError::Unreachable("full".into())) } else { told.keys.put(key, value) }
        })
    }

    fn delete(&mut self, key: &str) -> Result<(), StoreError> {
        self.ask(|told| told.keys.delete(key))
    }

    fn list(&mut self) -> Result<Vec<Entry>, StoreError> {
        self.ask(|told| if told.hides { Err(StoreError::Refused("hidden".into())) } else { told.keys.list() })
    }

    fn watch(&mut self, _: Box<dyn Fn() -> bool + Send>) {}
}

const TERMS: Terms = Terms { ttl: Duration::from_secs(3), margin: Duration::from_millis(500) };
const LIMIT: Duration = Duration::from_secs(20);

fn start(store: &Shaky, failsafe: Option<Failsafe>) -> Lease {
    start_with(store, failsafe, None)
}

fn start_with(store: &Shaky, failsafe: Option<Failsafe>, own_file: Option<PathBuf>) -> Lease {
    let settings = Settings { terms: TERMS, own_file, failsafe };
    Lease::start(&settings, Box::new(store.clone())).unwrap()
}

fn member(name: &str) -> Failsafe {
    Failsafe {
        member: name.into(),
        address: "http://127.0.0.1:1".into(),
        token: zeroize::Zeroizing::new(String::new()),
        ca: None,
    }
}

/// What a holder asks.
fn promise(holder: &str, members: &[&str]) -> Promise {
    let members = members.iter().map(ToString::to_string).collect();
    Promise { holder: holder.into(), ttl: TERMS.ttl, keys: vec!["vips/apps".into()], members }
}

/// Waits for something in the view.
fn until(lease: &Lease, is_so: impl Fn(&View) -> bool) -> Arc<View> {
    let begun = Instant::now();
    loop {
        let view = lease.view();
        if is_so(&view) {
            return view;
        }
        assert!(begun.elapsed() < LIMIT, "{view:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn holds(key: &'static str) -> impl Fn(&View) -> bool {
    move |view| view.held(key).is_some_and(|held| held.until > boot_now())
}

#[test]
fn a_member_that_has_just_started_takes_no_address_for_one_ttl() {
    let begun = Instant::now();
    let lease = start(&Shaky::default(), Some(member("a")));
    lease.want("vips/write", "a");
    lease.want("actor/main", "a");
    until(&lease, holds("actor/main"));
    assert!(lease.view().held("vips/write").is_none(), "its predecessor may have promised it");
    until(&lease, holds("vips/write"));
    assert!(begun.elapsed() >= TERMS.ttl, "{:?}", begun.elapsed());
}

/// A holder that cannot see the store stays by the promises of those that the list had; this one it does not know.
#[test]
fn a_wish_of_long_ago_lets_nobody_take_what_another_may_keep() {
    let entry = |(key, value): (&str, &str)| {
        (key.to_owned(), Entry { key: key.into(), value: value.into(), lease: 0, epoch: 1, revision: 1 })
    };
    let mut state = State::default();
    let view = |list| {
        let mut view = View::default();
        view.entries = [("preferred/apps", "w"), ("failsafe", list)].map(entry).into();
        Arc::new(view)
    };
    state.view = view("x,y");
    assert!(!failsafe::may_take(&state, ("vips/apps", "w"), boot_now()));
    assert!(failsafe::may_take(&state, ("vips/apps", "x"), boot_now()));
    assert!(failsafe::may_take(&state, ("actor/main", "w"), boot_now()), "that is no address");
    state.view = view("w,x,y");
    assert!(failsafe::may_take(&state, ("vips/apps", "w"), boot_now()));
}

#[test]
fn an_operators_word_lets_a_member_in_where_no_holder_can() {
    let store = Shaky::default();
    store.set(|told| {
        told.keys.put("failsafe", "x,y").unwrap();
        let lease = told.keys.grant(TERMS.ttl).unwrap().lease;
        told.keys.claim("vips/apps", "x", lease).unwrap();
    });
    let lease = start(&store, Some(member("y")));
    let view = until(&lease, |view| view.entries.contains_key("vips/apps"));
    assert_eq!(lease.let_in("x"), Ok(None), "it is in");
    assert!(lease.let_in("w").unwrap_err().contains("x, which has apps"));
    store.set(|told| told.keys.release("vips/apps", view.entries["vips/apps"].epoch).unwrap());
    until(&lease, |view| !view.entries.contains_key("vips/apps"));
    lease.promise(&promise("x", &["x", "y"]), "y").unwrap();
    assert!(
        lease.let_in("w").unwrap_err().contains("was promised"),
        "x stays by that word, and does not know w"
    );
    thread::sleep(TERMS.ttl);
    let [change, late] = [(); 2].map(|()| lease.let_in("w").unwrap().unwrap());
    assert_eq!(change.text, "w,x,y");
    // Somebody else has changed the list meanwhile: w is no member, and a holder need not know of it.
    store.set(|told| told.keys.put("failsafe", "x,y").unwrap());
    assert!(changed(&lease, change).unwrap_err().to_string().contains("changed meanwhile"));
    let promised = || lease.promise(&promise("x", &["x", "y"]), "y");
    let begun = Instant::now();
    while let Err(why) = promised() {
        assert!(begun.elapsed() < LIMIT, "{why}");
        thread::sleep(Duration::from_millis(5));
    }
    // A word that was safe when it was said.
    assert!(changed(&lease, late).unwrap_err().to_string().contains("was promised"));
    thread::sleep(TERMS.ttl);
    let change = lease.let_in("w").unwrap().unwrap();
    changed(&lease, change).unwrap();
    let refused = promised().unwrap_err();
    assert!(refused.contains("a member w"), "{refused}");
    lease.promise(&promise("x", &["w", "x", "y"]), "y").unwrap();
}

/// What has become of a change of the list.
fn changed(lease: &Lease, change: ListChange) -> Result<(), StoreError> {
    let (answered, answer) = mpsc::channel();
    lease.change_list(change, Box::new(move |done| drop(answered.send(done))));
    answer.recv_timeout(LIMIT).unwrap()
}

/// It has let a member in, and starts again where it does not see the store. The holder asks it, and does not know of that.
#[test]
fn what_a_member_knew_counts_after_a_restart_without_the_store() {
    let path = std::env::temp_dir().join(format!("delphinus-members-{}", std::process::id()));
    let store = Shaky::default();
    store.set(|told| {
        let lease = told.keys.grant(TERMS.ttl).unwrap().lease;
        for key in ["reach/w", "reach/y"] {
            told.keys.claim(key, "http://127.0.0.1:1", lease).unwrap();
        }
    });
    let lease = start_with(&store, Some(member("x")), Some(path.clone()));
    lease.want("vips/other", "x");
    until(&lease, |view| view.entries.get("failsafe").is_some_and(|list| list.value == "w,x,y"));
    // It cannot stop in order.
    store.set(|told| told.is_gone = true);
    drop(lease);
    let again = start_with(&store, Some(member("x")), Some(path.clone()));
    let refused = again.promise(&promise("y", &["x", "y"]), "x").unwrap_err();
    assert!(refused.contains("a member w"), "{refused}");
    again.promise(&promise("y", &["w", "x", "y"]), "x").unwrap();
    drop(again);
    std::fs::remove_file(&path).unwrap();
    let without = start(&store, Some(member("x")));
    let refused = without.promise(&promise("y", &["x", "y"]), "x").unwrap_err();
    assert!(refused.contains("has not seen the lease store"), "{refused}");
}

/// A list of the store, without a process that asks for it.
fn list_of(store: &Shaky) -> Option<String> {
    let mut told = store.0.lock().unwrap();
    told.keys.list().unwrap().into_iter().find(|entry| entry.key == "failsafe").map(|entry| entry.value)
}

#[test]
fn a_member_lets_others_in_and_the_last_one_that_stops_leaves_an_open_list() {
    let store = Shaky::default();
    store.set(|told| {
        told.keys.put("failsafe", "a,gone").unwrap();
        let lease = told.keys.grant(TERMS.ttl).unwrap().lease;
        told.keys.claim("reach/new", "http://127.0.0.1:1", lease).unwrap();
    });
    // It holds nothing.
    let lease = start(&store, Some(member("a")));
    let view = until(&lease, |view| view.entries.get("failsafe").is_some_and(|list| list.value == "a,new"));
    store.set(|told| told.keys.release("reach/new", view.entries["reach/new"].epoch).unwrap());
    until(&lease, |view| !view.entries.contains_key("reach/new"));
    drop(lease);
    assert_eq!(list_of(&store).as_deref(), Some(""));
}

/// Whoever asks has no time: it gives up what it holds.
#[test]
fn a_promise_does_not_wait_for_a_store_that_takes_its_time() {
    let store = Shaky::default();
    store.set(|told| told.keys.put("failsafe", "x,y").unwrap());
    let lease = start(&store, Some(member("y")));
    until(&lease, holds("reach/y"));
    store.set(|told| told.claims_take = Duration::from_secs(2));
    lease.want("members/y", "proxy");
    let begun = Instant::now();
    while !store.0.lock().unwrap().is_claiming {
        assert!(begun.elapsed() < LIMIT, "the key is not asked for");
        thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    lease.promise(&promise("x", &["x", "y"]), "y").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(store.0.lock().unwrap().is_claiming, "it has waited for nothing");
}

/// A member that is dead: the list and its lease have it still. How often it was asked.
fn dead_member(store: &Shaky) -> Arc<AtomicUsize> {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", door.local_addr().unwrap());
    store.set(|told| {
        told.keys.put("failsafe", "a,dead").unwrap();
        let lease = told.keys.grant(TERMS.ttl).unwrap().lease;
        told.keys.claim("reach/dead", &address, lease).unwrap();
    });
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    thread::spawn(move || {
        for _ in door.incoming() {
            count.fetch_add(1, SeqCst);
        }
    });
    asked
}

/// As in an election: one question is not answered. What the members say takes no time from the next one.
#[test]
fn the_store_is_asked_again_before_the_tenure_is_almost_over() {
    let store = Shaky::default();
    let asked = dead_member(&store);
    let lease = start(&store, Some(member("a")));
    lease.want("vips/w", "a");
    until(&lease, holds("vips/w"));
    store.set(|told| told.fails = 1);
    until(&lease, |view| view.trouble.is_some());
    until(&lease, |view| view.trouble.is_none());
    assert!(holds("vips/w")(&lease.view()));
    assert_eq!(asked.load(SeqCst), 2, "rounds of questions to the member that is dead");
}

/// It has started again in time: the process before it has taken the key, and it has not said that it wants it.
#[test]
fn what_is_kept_by_promises_is_taken_again_before_others_see_that_it_is_free() {
    let lease = start(&Shaky::default(), Some(member("a")));
    until(&lease, holds("reach/a"));
    let mut state = lease.shared.state();
    let mut view = (*state.view).clone();
    view.stay(vec!["vips/w".into()], boot_now() + LIMIT);
    state.view = view.into();
    drop(state);
    let view = until(&lease, holds("vips/w"));
    assert_eq!(view.entries["vips/w"].value, "a");
}

#[test]
fn a_store_that_refuses_one_key_is_not_lost() {
    let store = Shaky::default();
    let asked = dead_member(&store);
    let lease = start(&store, Some(member("a")));
    lease.want("vips/w", "a");
    until(&lease, holds("vips/w"));
    store.set(|told| told.refuses = Some("b/second"));
    lease.want("b/second", "a");
    until(&lease, |view| view.trouble.as_deref().is_some_and(|why| why.contains("too long")));
    lease.want("c/third", "a");
    until(&lease, holds("c/third"));
    assert_eq!(asked.load(SeqCst), 0, "nobody has to promise anything");
}

#[test]
fn what_is_not_listed_any_more_is_not_held_for_long() {
    let store = Shaky::default();
    let lease = start(&store, None);
    lease.want("actor/main", "a");
    until(&lease, holds("actor/main"));
    // Words that the lease lives are answered; that somebody has deleted the key is not seen.
    store.set(|told| {
        told.hides = true;
        told.keys.delete("actor/main").unwrap();
    });
    until(&lease, |view| !holds("actor/main")(view));
    store.set(|told| told.hides = false);
    until(&lease, holds("actor/main"));
}

#[test]
fn changes_that_fail_do_not_end_what_is_held() {
    let store = Shaky::default();
    let lease = start(&store, None);
    lease.want("actor/main", "a");
    until(&lease, holds("actor/main"));
    store.set(|told| told.is_full = true);
    let begun = Instant::now();
    while begun.elapsed() < TERMS.ttl * 2 {
        lease.put("plan", Some("x"), Box::new(drop));
        thread::sleep(Duration::from_millis(20));
        assert!(holds("actor/main")(&lease.view()), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_store_that_takes_its_time_does_not_end_what_is_held() {
    let store = Shaky::default();
    store.set(|told| told.claims_take = Duration::from_millis(100));
    let lease = start(&store, None);
    lease.want("a/first", "a");
    until(&lease, holds("a/first"));
    // Together they take longer than the tenure.
    let others: Vec<String> = (10..50).map(|number| format!("b/{number}")).collect();
    for key in &others {
        lease.want(key, "a");
    }
    until(&lease, |view| {
        assert!(holds("a/first")(view), "{:?}", view.ends);
        others.iter().all(|key| view.held(key).is_some())
    });
}

#[test]
fn a_key_that_is_refused_keeps_no_other_one() {
    let store = Shaky::default();
    store.set(|told| told.refuses = Some("a/first"));
    let lease = start(&store, None);
    lease.want("a/first", "a");
    lease.want("b/second", "a");
    let view = until(&lease, holds("b/second"));
    assert!(view.held("a/first").is_none());
    until(&lease, |view| view.trouble.as_deref().is_some_and(|why| why.contains("too long")));
    store.set(|told| told.refuses = None);
    until(&lease, holds("a/first"));
}

/// What has become of it, as soon as that is said.
fn put_as(lease: &Lease, epoch: u64) -> mpsc::Receiver<Result<(), StoreError>> {
    let (answered, answer) = mpsc::channel();
    let by = Holding { key: "actor/main".into(), epoch };
    lease.put_as("plan", Some("x"), by, Box::new(move |done| drop(answered.send(done))));
    answer
}

#[test]
fn whoever_has_lost_its_key_writes_nothing_by_its_right() {
    let store = Shaky::default();
    let lease = start(&store, None);
    lease.want("actor/main", "a");
    let epoch = until(&lease, holds("actor/main")).held("actor/main").unwrap().epoch;
    let planned = |store: &Shaky| {
        let mut told = store.0.lock().unwrap();
        told.keys.list().unwrap().iter().any(|entry| entry.key == "plan")
    };
    assert_eq!(put_as(&lease, epoch).recv_timeout(LIMIT), Ok(Ok(())));
    assert!(planned(&store));
    store.set(|told| told.keys.delete("plan").unwrap());
    // It is on its way when the store goes, and the store comes back without the lease.
    store.set(|told| told.is_gone = true);
    let before = lease.view().troubles;
    until(&lease, |view| view.trouble.is_some() && view.troubles > before);
    let late = put_as(&lease, epoch);
    let number = lease.view().lease;
    store.set(|told| {
        told.keys.end(number).unwrap();
        (told.is_gone, told.forgets) = (false, true);
    });
    assert!(late.recv_timeout(LIMIT).unwrap().is_err());
    // It has the key again: that is another right.
    let is_new = |view: &View| view.held("actor/main").is_some_and(|held| held.epoch != epoch);
    let new = until(&lease, is_new).held("actor/main").unwrap().epoch;
    assert!(put_as(&lease, epoch).recv_timeout(LIMIT).unwrap().is_err());
    assert!(!planned(&store));
    assert_eq!(put_as(&lease, new).recv_timeout(LIMIT), Ok(Ok(())));
    assert!(planned(&store));
}

/// An operator gives up waiting. What was asked for then must not be done when the store is back.
#[test]
fn a_change_waits_for_a_store_that_hangs_and_not_for_ever() {
    let store = Shaky::default();
    let lease = start(&store, None);
    until(&lease, |view| view.listed.is_some());
    // Each turn ends with the question whether it knows this process: that takes longer than the pause after a mistake.
    store.set(|told| (told.is_gone, told.renewals_take) = (true, PAUSE + Duration::from_millis(100)));
    let before = lease.view().troubles;
    until(&lease, |view| view.troubles >= before + 2);
    let (answered, answer) = mpsc::channel();
    lease.put("frozen", Some("1"), Box::new(move |done| drop(answered.send(done))));
    assert!(answer.recv_timeout(PAUSE * 4).is_err(), "the store may come back in time");
    let sent = lease.shared.state().changes.iter_mut().map(|change| change.until = Instant::now()).count();
    assert_eq!(sent, 1, "it waits");
    let error = answer.recv_timeout(LIMIT).unwrap().unwrap_err().to_string();
    assert!(error.contains("nothing was changed within 10 s"), "{error}");
    store.set(|told| (told.is_gone, told.renewals_take) = (false, Duration::ZERO));
    until(&lease, |view| view.trouble.is_none());
    assert!(!lease.view().entries.contains_key("frozen"), "it was done late");
}
