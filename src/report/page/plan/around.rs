//! What a report on a plan looks up beside the plan: names of GPUs, sources of prices, the history of its price.

use jiff::Timestamp;

use gpuplan_hardware::Hardware;
use gpuplan_market::{Market, PricePoint};
use gpuplan_plan::document::PlanRecord;

/// What a report looks up beside the plan itself.
pub struct ReportContext<'a> {
    pub hardware: &'a Hardware,
    pub market: &'a Market,
    pub now: Timestamp,
    /// Of the pool of the plan, oldest first.
    pub history: &'a [PricePoint],
}

impl ReportContext<'_> {
    pub fn gpu(&self, id: &str) -> String {
        self.hardware.find_gpu(id).map_or_else(|| id.to_owned(), |gpu| self.hardware.gpu(gpu).name.clone())
    }

    /// The title of a source with its address, where the catalog still has it.
    pub fn source(&self, id: &str) -> String {
        self.market.source(id).map_or_else(|| id.to_owned(), |source| format!("{} ({})", source.title, source.url))
    }

    /// `256 x H100 SXM5 80GB`.
    pub fn gpus(&self, plan: &PlanRecord) -> String {
        format!("{} x {}", plan.gpus(), self.gpu(&plan.machines.gpu))
    }
}
