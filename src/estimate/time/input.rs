//! `StepInput`: what the time of a step follows from.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::constants::Constants;
use crate::device::DeviceRates;
use crate::machine::Machine;
use crate::measurements::correction::Factors;
use crate::setting::Setting;
use crate::time::kernels::RecipeKernels;
use gpuplan_workload::{Model, Training};

/// A model in training in one setting on a machine.
#[derive(Clone, Copy)]
pub struct StepInput<'a> {
    pub constants: &'a Constants,
    pub model: &'a Model,
    pub training: &'a Training,
    pub machine: &'a Machine<'a>,
    pub rates: &'a DeviceRates,
    /// Measured kernels of the GPU in this recipe, where there are any.
    pub kernels: Option<&'a RecipeKernels>,
    pub factors: &'a Factors<'a>,
    pub setting: &'a Setting,
    /// Of this model in this training on this device, where many settings are asked for.
    pub products: Option<&'a Products>,
    /// Tokens of a sequence as the layers see them.
    pub sequence: f64,
}

/// What the matrix products of a layer take, by what it depends on: ranks that a tensor and the experts are split over, tokens, and
/// how many of them run again. A search asks for the same ones under every pipeline and every way to shard.
#[derive(Debug, Default)]
pub struct Products(pub(super) RefCell<FxHashMap<(u32, u32, u64, u64), f64>>);
