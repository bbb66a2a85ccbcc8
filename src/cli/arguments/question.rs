//! A question to the planner, on the command line.

use clap::Args;

use crate::arguments::limits::LimitsArguments;
use crate::arguments::measured::MeasuredArguments;
use crate::arguments::prices::PriceArguments;
use crate::arguments::workload::WorkloadArguments;

/// What to run, what to keep to, and the prices and measurements to go by.
#[derive(Debug, Default, Args)]
pub struct QuestionArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub limits: LimitsArguments,
    #[command(flatten)]
    pub prices: PriceArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
}
