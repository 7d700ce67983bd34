//! Ten times more distinct answers than fit: the process stays within its budget.

use std::time::Instant;

use super::*;

const MAX_BYTES: u64 = 16 << 20;

/// How long it is loaded; the check of the issue is `DELPHINUS_CACHE_SECONDS=60`. At least until ten times as much was kept as fits.
fn seconds() -> u64 {
    std::env::var("DELPHINUS_CACHE_SECONDS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

fn rss_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

pub(super) fn check(stage: &Stage) {
    let lease = PortLease::take().unwrap();
    let sections =
        format!("[cache]\nmax_bytes = {MAX_BYTES}\nmax_entry_bytes = 16384\n{}", sections(lease.port()));
    let (proxy, address, _port) = stage.another_proxy(&ConfigFile::with_sections(&sections)).unwrap();
    let mut operator = operator(&address, lease.port());
    let ask = |client: &mut Client, number: usize, at: usize| {
        // Some are small, some are not.
        let size = [100, 900, 4_000][number % 3];
        client.rows(&format!("{KEPT} SELECT REPEAT('x', {size}), {number}, {at}")).unwrap();
    };
    let mut clients: Vec<_> = (0..8).map(|_| address.connect().unwrap()).collect();
    // What a proxy takes that has had such clients and answers.
    for (at, client) in clients.iter_mut().enumerate() {
        (0..50).for_each(|number| ask(client, number, at));
    }
    operator.query("CACHE FLUSH").unwrap();
    let base = rss_bytes(proxy.pid());
    let began = Instant::now();
    let most = std::thread::scope(|scope| {
        let asking: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(at, mut client)| {
                scope.spawn(move || {
                    let mut number = 50;
                    while began.elapsed() < Duration::from_secs(seconds()) || number < 12_000 {
                        ask(&mut client, number, at);
                        number += 1;
                    }
                })
            })
            .collect();
        let mut most = 0;
        while asking.iter().any(|one| !one.is_finished()) {
            most = most.max(rss_bytes(proxy.pid()));
            assert!(shown(&mut operator, "bytes") <= MAX_BYTES);
            std::thread::sleep(Duration::from_millis(100));
        }
        for one in asking {
            one.join().unwrap();
        }
        most
    });
    let inserts = operator.value("SELECT sum(inserts) FROM cache_digests").unwrap();
    let evictions = shown(&mut operator, "evictions");
    let times = most.saturating_sub(base) * 100 / MAX_BYTES;
    eprintln!(
        "budget: {inserts} kept, {evictions} made room, {most} bytes at most, {base} before: {times} percent of the budget"
    );
    assert!(evictions > 50_000, "{evictions} of {inserts}");
    assert!(most <= (MAX_BYTES + base) * 13 / 10, "{most} bytes, of which {base} are the proxy's own");
}
