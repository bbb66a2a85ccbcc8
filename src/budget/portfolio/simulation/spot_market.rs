//! What is known of how spot markets move together.

/// Share that the spot fortune of two runs in one month has in common: the mean correlation of availability over the four pairs
/// of AWS pools of one type in two zones, .11, .46, .51 and .56 (docs/risk.md, "Forecasts"; traces of Wu et al., NSDI'24, 27
/// days of 2022). Measured over ten minutes and not over months, and taken for all runs on spot: an assumption.
pub const AVAILABILITY_IN_COMMON: f64 = 0.41;
/// Root mean square of the change of the logarithm of a spot price from one month to the next: 26,697 changes of 29 machine
/// types with GPUs of Google Cloud in up to 40 regions, January 2024 to August 2026, from the price lists that
/// github.com/Cyclenerd/google-cloud-pricing-cost-calculator keeps. On-demand prices of the same lists moved by .003.
pub const SPOT_PRICE_STEP: f64 = 0.133;
/// Of the variance of those changes, the share that lies between months and not within them: what all have in common.
pub const SPOT_PRICE_IN_COMMON: f64 = 0.10;
