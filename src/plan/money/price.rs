//! The price of a candidate: a run that ends, or a service for its hours.

use std::sync::Arc;

use crate::candidate::Plan;
use crate::explanation::Rejection;
use crate::money::pricer::{PricedOffer, Pricer};
use crate::money::run_price::price_run;
use crate::serving::service::{price_service, service_hours};
use gpuplan_estimate::StepEstimate;

/// A plan, or the first limit that it breaks. Of plans on spot the figures are a first guess, until `settle`.
pub fn price(pricer: &Pricer, offer: &PricedOffer, nodes: u32, step: Arc<StepEstimate>) -> Result<Plan, Rejection> {
    match service_hours(pricer.context.workload.serving.map(|serving| serving.load)) {
        Some(hours) => price_service(pricer, offer, nodes, step, hours),
        None => price_run(pricer, offer, nodes, step),
    }
}
