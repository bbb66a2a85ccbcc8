//! `Objective`: what a step minimises, how many sequences a sample has for it, and which passes without gradients it needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    #[default]
    #[serde(alias = "sft")]
    NextToken,
    /// A chosen and a rejected answer, each under the model and under a frozen reference (Rafailov et al. 2023, arXiv 2305.18290).
    #[serde(alias = "ipo")]
    Dpo,
    /// Such pairs without a reference (Hong et al. 2024, arXiv 2403.07691); SimPO and CPO are the same work.
    #[serde(alias = "simpo", alias = "cpo")]
    Orpo,
    /// Single answers with a verdict. The divergence is estimated on mismatched ones, which model and reference read without gradients
    /// (Ethayarajh et al. 2024, arXiv 2402.01306, section 4.1).
    Kto,
    /// Pairs under a reward model (Ouyang et al. 2022, arXiv 2203.02155, section 3.5). Its head of one column counts as one of a vocabulary.
    #[serde(alias = "reward-model")]
    Reward,
    /// Answers of a rollout, which the model before the update and a frozen reference read as well (Shao et al. 2024, arXiv 2402.03300,
    /// section 4.1).
    #[serde(alias = "rloo")]
    Grpo,
    /// The answers of a frozen teacher over the whole vocabulary are met (Hinton et al. 2015, arXiv 1503.02531).
    #[serde(alias = "distillation")]
    Distill,
}

impl Objective {
    /// Sequences of one sample of the data.
    pub fn sequences(self) -> u32 {
        match self {
            Self::Dpo | Self::Orpo | Self::Reward => 2,
            Self::NextToken | Self::Kto | Self::Grpo | Self::Distill => 1,
        }
    }

    /// Passes over all sequences of a step without gradients.
    pub fn frozen_passes(self) -> f64 {
        match self {
            Self::NextToken | Self::Orpo | Self::Reward => 0.0,
            Self::Dpo | Self::Distill => 1.0,
            Self::Grpo => 2.0,
            Self::Kto => 3.0,
        }
    }

    /// A copy of the model as it was stays beside it, unless that is the base under adapters.
    pub fn has_reference(self) -> bool {
        matches!(self, Self::Dpo | Self::Kto | Self::Grpo)
    }
}
