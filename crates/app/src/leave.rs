//! Which of several proxies may move a cluster's primary: the one that holds the cluster's key in the lease store. Without a store each
//! process may, as its operators say.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_lease::{Holding, Lease, boot_now};
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

    /// None: this process asks nobody.
    fn lease(&self) -> Result<Option<Arc<Lease>>, String> {
        match self.ha.lease() {
            None if !self.ha.is_alone() => {
                Err("this process has no lease any more: it stops, or [lease] changes".to_owned())
            }
            lease => Ok(lease),
        }
    }

    fn key(&self, key: &str) -> String {
        format!("journal/{}/{key}", self.cluster)
    }
}

impl Leave for OfCluster {
    fn permit(&self) -> Result<Permit, String> {
        let Some(lease) = self.lease()? else { return self.alone.permit() };
        let (view, key) = (lease.view(), actor(&self.cluster));
        let now = boot_now();
        match view.held(&key).filter(|held| held.until > now) {
            Some(held) => Ok(Permit { epoch: held.epoch, until: Some(rt::now() + held.until.since(now)) }),
            None => Err(match (view.entries.get(&key), &view.trouble) {
                (_, Some(trouble)) => trouble.clone(),
                (Some(other), None) => {
                    format!(
                        "member {} of the lease store acts for this cluster: run the command there",
                        other.value
                    )
                }
                (None, None) => {
                    "the lease store has not said yet which member acts for this cluster: run the command again"
                        .to_owned()
                }
            }),
        }
    }

    fn others_after(&self) -> Duration {
        self.lease().ok().flatten().map_or(Duration::ZERO, |lease| lease.ttl())
    }

    fn put<'a>(&'a self, key: &'a str, text: Option<&'a str>) -> LeaveTold<'a, ()> {
        let lease = match self.lease() {
            Ok(Some(lease)) => lease,
            Ok(None) => return self.alone.put(key, text),
            Err(why) => return Box::pin(std::future::ready(Err(why))),
        };
        Box::pin(async move {
            let permit = self.permit()?;
            let by = Holding { key: actor(&self.cluster), epoch: permit.epoch };
            let (answered, answer) = rt::oneshot::channel();
            lease.put_as(&self.key(key), text, by, Box::new(move |done| drop(answered.send(done))));
            // A lease ends with the last one that holds it, and the next one cannot begin before.
            drop(lease);
            // Whoever may not act any more has nothing to wait for.
            let left = permit.until.map(|until| until.saturating_duration_since(rt::now()));
            let answer = rt::timeout(left.unwrap_or(Duration::MAX), answer).await;
            let answer = answer.ok_or_else(|| "the lease store has not answered in time".to_owned())?;
            answer
                .map_err(|_| "the lease of this process has ended".to_owned())?
                .map_err(|error| error.to_string())
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> LeaveTold<'a, Option<String>> {
        let lease = match self.lease() {
            Ok(Some(lease)) => lease,
            Ok(None) => return self.alone.get(key),
            Err(why) => return Box::pin(std::future::ready(Err(why))),
        };
        // All keys are listed after the actor's was taken, so that what an earlier one has written is among them.
        let view = lease.view();
        let found = view.entries.get(&self.key(key)).map(|entry| entry.value.clone());
        let is_known = view.listed.is_some();
        let unknown = || "the lease store has not listed its keys yet".to_owned();
        Box::pin(std::future::ready(is_known.then_some(found).ok_or_else(unknown)))
    }
}

#[cfg(test)]
mod tests {
    use delphinus_config::{Config, NoEnvironment};

    use super::*;

    fn config(lease: &str) -> Config {
        let text = format!(
            "listener = [{{ address = '127.0.0.1:0' }}]\nuser = [{{ name = 'u', password = 'p' }}]\n\
             [[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n[monitor]\nuser = 'm'\npassword = 'p'\n{lease}"
        );
        delphinus_config::parse(&text, "a.toml", &NoEnvironment).unwrap()
    }

    #[test]
    fn whoever_had_a_lease_does_not_act_alone_when_it_is_over() {
        rt::block_on(async {
            let (with, without) = (config("[lease]\nstore = 'local'\n"), config(""));
            let ha = Ha::start(&with, &Arc::default()).unwrap();
            let leave = OfCluster::new("main".into(), ha.clone());
            ha.stop().await;
            assert!(leave.permit().is_err(), "another process may act by now");
            assert!(leave.put("plan", Some("x")).await.is_err() && leave.get("plan").await.is_err());
            // The operators say that there is no other one.
            ha.follow(&without, ha.prepare(&without).unwrap()).await.unwrap();
            assert_eq!(leave.permit(), Ok(Permit { epoch: 0, until: None }));
            leave.put("plan", Some("x")).await.unwrap();
            assert_eq!(leave.get("plan").await.unwrap().as_deref(), Some("x"));
        })
        .unwrap();
    }
}
