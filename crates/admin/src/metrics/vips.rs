//! Virtual IPs, as this process sees them.

use delphinus_telemetry::Point;

use super::{Measured, gauge};

/// All words for how one stands on this host.
const STATES: [&str; 4] = ["elsewhere", "here", "leaving", "failed"];

pub(super) static METRICS: [Measured; 2] = [
    gauge(
        "delphinus_vip_state",
        &["vip", "state"],
        "1 for the state of the virtual IP on this host, 0 for all other states.",
        |reading| {
            let mut points = Vec::new();
            for vip in reading.console.parts.proxy.vips() {
                let one = |state| Point::whole([&*vip.name, state], (state == vip.state).into());
                points.extend(STATES.map(one));
            }
            points
        },
    ),
    gauge("delphinus_vip_held", &["vip"], "1 while some member holds the virtual IP.", |reading| {
        let vips = reading.console.parts.proxy.vips().into_iter();
        vips.map(|vip| Point::whole([&vip.name], vip.holder.is_some().into())).collect()
    }),
];
