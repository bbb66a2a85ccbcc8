//! What comes nearest to a job that no place offers, and how it differs.

use crate::session::Catalogs;
use gpuplan_import::JobRequest;
use gpuplan_plan::Limits;
use gpuplan_plan::job::price;

/// A line for each of the nearest kinds of machines; empty where even those have no offer.
pub fn lines(asked: &JobRequest, catalogs: &Catalogs, limits: &Limits) -> String {
    const MOST: usize = 3;
    let mut lines = String::new();
    let mut shown = 0;
    for (difference, relaxed) in asked.relaxed() {
        let priced = price(&relaxed, &catalogs.market, &catalogs.hardware, limits);
        let Some(best) = priced.offers.first() else { continue };
        let offer = catalogs.market.offer(best.offer);
        let instance = catalogs.hardware.instance(offer.instance);
        lines.push_str(&format!(
            "\n  nearest, {difference}: {} x {} ({} {}, {} vCPU, {:.0} GiB), {} {}, {}, ${:.2}/h",
            best.nodes,
            instance.name,
            instance.node.devices(),
            catalogs.hardware.gpu(instance.node.gpu).name,
            instance.vcpus,
            instance.memory.gib(),
            instance.cloud,
            offer.place.region,
            offer.purchase.word(),
            best.hourly.dollars(),
        ));
        shown += 1;
        if shown == MOST {
            break;
        }
    }
    lines
}
