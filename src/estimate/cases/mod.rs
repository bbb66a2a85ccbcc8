//! Cases of `estimate --cases`: what a published run states, what is filled in for the rest, and the answer.

pub mod answer;
pub mod case;
pub mod defaults;
pub mod likeness;
#[cfg(test)]
mod tests;
pub mod training;
mod within;
