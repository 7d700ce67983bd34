//! A session that has been killed does nothing more: whoever has the answer to KILL may count on that.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use delphinus_e2e::{ConfigFile, Stage};
use delphinus_sandbox::Flavor;

/// That the bell that tells a session of its end and the client's next command reach its worker in one turn takes several of
/// them: a hundred or more of these.
const ROUNDS: u32 = 1000;

#[test]
fn nothing_is_answered_after_kill() {
    // More workers than cores, all busy, so that they find much at once.
    let config = ConfigFile { proxy: vec!["workers = 4".to_owned()], ..ConfigFile::default() };
    let stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut busy = stage.address.login().connect().unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    busy.ping().unwrap();
                }
            });
        }
        let answered = (0..ROUNDS).filter(|_| answers_after_kill(&stage)).count();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answered, 0, "of {ROUNDS}");
    });
}

fn answers_after_kill(stage: &Stage) -> bool {
    let [mut victim, mut killer] = [(), ()].map(|()| stage.address.login().connect().unwrap());
    killer.run(format!("KILL CONNECTION {}", victim.connection_id())).unwrap();
    victim.ping().is_ok_and(|reply| reply.failure().is_none())
}
