//! One look at the servers of a cluster by a process that need not act: with connections that end with it.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::Server;

use super::hand::Hand;
use super::settings::Account;
use crate::settings::Settings;

/// What the backends of these settings say to the account of the failover, and what it may do there.
pub async fn ask_once(settings: Settings, account: &Account) -> Vec<Server> {
    let settings = Rc::new(settings);
    let limit = settings.timeout();
    let one = |number: u16| {
        let hand = Hand::new(BackendId(number), settings.clone(), account.clone());
        Box::pin(ask(hand, limit)) as Pin<Box<dyn Future<Output = Server>>>
    };
    let count = u16::try_from(settings.backends.len()).unwrap_or(u16::MAX);
    rt::all((0..count).map(one).collect()).await
}

async fn ask(mut hand: Hand, limit: Duration) -> Server {
    let mut server = hand.look(limit).await;
    hand.add_rights(&mut server, limit).await;
    hand.quit().await;
    server
}
