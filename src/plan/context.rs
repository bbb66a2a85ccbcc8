//! What a plan is made from: the world (hardware, offers, measurements), the workload and the limits, handed on as one value.

use crate::limits::Limits;
use gpuplan_estimate::Correction;
use gpuplan_hardware::{Gpu, Hardware, InstanceId};
use gpuplan_market::Market;
use gpuplan_workload::Workload;

/// What can be rented and what it is.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Machines and their GPUs.
    pub hardware: &'a Hardware,
    /// Offers of these machines, with their prices.
    pub market: &'a Market,
    /// What was measured of the hardware.
    pub correction: &'a Correction,
}

impl<'a> World<'a> {
    /// The GPU of an instance type.
    pub fn gpu_of(&self, instance: InstanceId) -> &'a Gpu {
        self.hardware.gpu(self.hardware.instance(instance).node.gpu)
    }
}

/// One question to the planner.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub world: World<'a>,
    /// What is to be run.
    pub workload: &'a Workload,
    /// What the answer must keep to.
    pub limits: &'a Limits,
}
