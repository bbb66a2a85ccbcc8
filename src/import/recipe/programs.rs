//! The tables of each training program, one file each; small ones of a kind share one.

mod axolotl;
mod composer;
mod hugging_face;
mod lightning;
mod litgpt;
mod llama_factory;
mod megatron;
mod oumi;
mod pretraining;
mod reinforcement;
mod research;
mod serving;
mod starting;
mod swift;
mod torchtitan;
mod torchtune;

pub use axolotl::AXOLOTL;
pub use composer::COMPOSER;
pub use hugging_face::{ANY, BERT, DECODER, DIFFUSERS, HUGGING_FACE, LEROBOT, TRL, UNSLOTH};
pub use lightning::LIGHTNING;
pub use litgpt::{LITGPT, LITGPT_FULL, LITGPT_PRETRAIN};
pub use llama_factory::{LIKE_LLAMA_FACTORY, LLAMA_FACTORY};
pub use megatron::{AWS_SAMPLES, GPT_NEOX, MEGATRON, MEGATRON_DEEPSPEED};
pub use oumi::OUMI;
pub use pretraining::{LEVANTER, MAXTEXT, NANOTRON, NEMO};
pub use reinforcement::{OPEN_RLHF, RL2, RL2_SFT, VERL, VERL_SFT};
pub use research::{DIFFUSION_PIPE, DPO_REFERENCE, FAIRSEQ, GALORE, LLAMA_COOKBOOK, MLX, OPEN_CLIP};
pub use serving::{SERVE, SGLANG, TGI};
pub use starting::{ACCELERATE, DEEPSPEED};
pub use swift::{MEGATRON_SWIFT, SWIFT};
pub use torchtitan::TORCHTITAN;
pub use torchtune::TORCHTUNE;
