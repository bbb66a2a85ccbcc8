//! What the machines of a plan use in electricity and what that emits, in a plan document: beside the money and in no total.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::context::World;
use crate::energy::Energy;
use crate::money::bill::{BillItem, MACHINE_HOUR};
use gpuplan_units::Band;

/// Electricity of all machines over all hours that they are rented, and what it emits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyRecord {
    /// Kilowatt-hours with cooling and what else the building uses.
    pub kwh: Band,
    /// Rated power (TDP) of one GPU, of which a whole machine draws 1.5 times (0.85 to 1.6).
    pub gpu_rated_watts: f64,
    /// Energy of the building over that of its machines; `null`: nobody publishes it, and 1.25 (1.04 to 1.63) was taken.
    pub pue: Option<PueRecord>,
    /// The electricity; `null`: it is not known from which grid it comes, or what that emits.
    pub grid: Option<GridRecord>,
    /// Kilograms of CO2-equivalents by location, without what a cloud buys to match its consumption; `null`: unknown.
    pub co2e_kg: Option<Band>,
}

/// A published PUE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PueRecord {
    /// Average of a year.
    pub value: f64,
    /// What it is the average of: `region`, `continent` or `fleet` (all buildings of the cloud).
    pub of: String,
    /// The year.
    pub year: i16,
    /// Id of its source.
    pub source: String,
}

/// What electricity of a grid emits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GridRecord {
    /// Zone of Electricity Maps, such as `US-MIDA-PJM`.
    pub zone: String,
    /// Grams of CO2-equivalents a kWh: from what power plants emit to that with fuel supply and building.
    pub g_co2e_per_kwh: Band,
    /// Ids of its sources.
    pub sources: Vec<String>,
}

impl EnergyRecord {
    pub(super) fn new(plan: &Plan, world: World) -> Self {
        let (offer, instance) = (world.market.offer(plan.offer), world.hardware.instance(plan.instance));
        let site = world.market.sites.find(&instance.cloud, &offer.place.region);
        let is_machines = |item: BillItem| matches!(item, BillItem::Machines | BillItem::Fallback | BillItem::LostWork);
        let paid = plan.bill.lines.iter().filter(|line| is_machines(line.item) && line.unit == MACHINE_HOUR);
        let gpu_hours = paid.map(|line| line.quantity).sum::<f64>() * instance.node.gpus.as_f64();
        let gpu_rated_watts = world.gpu_of(plan.instance).tdp_watts;
        let energy = Energy::consumed(gpu_hours, gpu_rated_watts, site);
        let pue = site.and_then(|site| site.pue.as_ref()).map(|pue| PueRecord {
            value: pue.value,
            of: pue.of.clone(),
            year: pue.year,
            source: pue.source.clone(),
        });
        let grid = site.and_then(|site| site.grid.as_ref()).and_then(|grid| {
            Some(GridRecord {
                zone: grid.zone.clone(),
                g_co2e_per_kwh: grid.g_per_kwh()?,
                sources: grid.sources().map(str::to_owned).collect(),
            })
        });
        Self { kwh: energy.kwh, gpu_rated_watts, pue, grid, co2e_kg: energy.co2e_kg }
    }
}
