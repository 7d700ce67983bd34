//! Which of several proxies may move a cluster's primary: the one that holds the cluster's key in the lease store. Without a store each
//! process may, as its operators say.

use std::rc::Rc;
use std::sync::Arc;

use delphinus_lease::{Lease, boot_now};
use delphinus_monitor::{Leave, LeaveTold, Local, Permit};
use delphinus_net::rt;

use crate::ha::Ha;

/// The leave of one cluster.
pub(crate) struct OfCluster {
    cluster: Arc<str>,
    ha: Rc<Ha>,
    alone: Local,
}

/// The key of whoever may act on a cluster.
pub(crate) fn actor(cluster: &str) -> String {
    format!("actor/{cluster}")
}

impl OfCluster {
    pub(crate) fn new(cluster: Arc<str>, ha: Rc<Ha>) -> Self {
        Self { cluster, ha, alone: Local::default() }
    }

    fn lease(&self) -> Option<Arc<Lease>> {
        self.ha.lease()
    }

    fn key(&self, key: &str) -> String {
        format!("journal/{}/{key}", self.cluster)
    }
}

impl Leave for OfCluster {
    fn permit(&self) -> Result<Permit, String> {
        let Some(lease) = self.lease() else { return self.alone.permit() };
        let (view, key) = (lease.view(), actor(&self.cluster));
        let now = boot_now();
        match view.held(&key).filter(|held| held.until > now) {
            Some(held) => Ok(Permit { epoch: held.epoch, until: Some(rt::now() + held.until.since(now)) }),
            None => Err(match (view.entries.get(&key), &view.trouble) {
                (_, Some(trouble)) => trouble.clone(),
                (Some(other), None) => {
                    format!("member {} of the lease store acts for this cluster: write it there", other.value)
                }
                (None, None) => {
                    "the lease store has not said yet who acts for this cluster: write it again".to_owned()
                }
            }),
        }
    }

    fn put<'a>(&'a self, key: &'a str, text: Option<&'a str>) -> LeaveTold<'a, ()> {
        let Some(lease) = self.lease() else { return self.alone.put(key, text) };
        Box::pin(async move {
            let (answered, answer) = rt::oneshot::channel();
            lease.put(&self.key(key), text, Box::new(move |done| drop(answered.send(done))));
            let done = answer.await.map_err(|_| "the process stops".to_owned())?;
            done.map_err(|error| error.to_string())
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> LeaveTold<'a, Option<String>> {
        let Some(lease) = self.lease() else { return self.alone.get(key) };
        // All keys are listed after the actor's was taken, so that what an earlier one has written is among them.
        let found = lease.view().entries.get(&self.key(key)).map(|entry| entry.value.clone());
        Box::pin(std::future::ready(Ok(found)))
    }
}
