//! stub
use crate::spot::policy::{Decision, Limits, Observation, State, slack_reserve};
#[derive(Clone, Debug)]
pub struct Tables;
pub fn decide(_tables: &Tables, state: &State, observation: &Observation, limits: &Limits) -> Decision { slack_reserve::decide(state, observation, limits) }
