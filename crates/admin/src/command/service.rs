//! `SET PROXY`, `RECONNECT`: the proxy out of service and back, and its connections to backends made anew.

use delphinus_pool::Retiring;

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::cluster::{ClusterView, PATIENCE};
use crate::table::{Table, text};

/// OFFLINE or ONLINE.
pub(super) fn set_proxy(call: &Call<'_>) -> Result<Answer, Refused> {
    let is_offline = match call.words {
        [word] if word.is("OFFLINE") => true,
        [word] if word.is("ONLINE") => false,
        _ => return Err(usage_of("SET PROXY")),
    };
    call.console.parts.proxy.set_offline(is_offline);
    Ok(Answer::Done)
}

/// Of one backend, of one user, or all.
pub(super) async fn reconnect(call: &Call<'_>) -> Result<Answer, Refused> {
    let (backend, user) = match call.words {
        [] => (None, None),
        [word, name] if word.is("BACKEND") => (Some(name.text.as_str()), None),
        [word, name] if word.is("USER") => (None, Some(name.text.clone())),
        _ => return Err(usage_of("RECONNECT")),
    };
    let (mut rows, mut is_known) = (Vec::new(), backend.is_none());
    for (_, cluster) in call.console.clusters() {
        let id = backend.and_then(|name| cluster.reader.load().named(name).map(|found| found.id));
        if backend.is_some() && id.is_none() {
            continue;
        }
        is_known = true;
        let count = retire(cluster, &Retiring { backend: id, user: user.clone() }).await?;
        rows.push(vec![text(&cluster.name), text(count)]);
    }
    if !is_known {
        return Err(Refused::because(format!("there is no backend '{}'", backend.unwrap_or_default())));
    }
    Ok(Answer::Rows(Table::new(["cluster", "#connections"]).with(rows)))
}

async fn retire(cluster: &ClusterView, which: &Retiring) -> Result<u32, Refused> {
    let mut count = 0;
    for worker in &cluster.workers {
        let late = || Refused::because("a worker has not answered; run the command again");
        count += worker.retire(which.clone(), PATIENCE).await.ok_or_else(late)?;
    }
    Ok(count)
}
