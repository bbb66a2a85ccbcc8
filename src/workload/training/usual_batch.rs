//! How many tokens a step of a pre-training usually has.

/// Batch in tokens by model size, each up to so many parameters: Brown et al. 2020 (arXiv 2005.14165) table 2.1.
const OF_GPT3: [(f64, f64); 3] = [(0.76e9, 0.5e6), (2.7e9, 1e6), (13e9, 2e6)];

/// That of its largest model, of 175B parameters, and of what is nearer to it than to the next: up to sqrt(175B x 405B). BLOOM 176B and Falcon
/// 180B were trained on 4M tokens a step.
pub const LARGEST_OF_GPT3: f64 = 266e9;
const TOKENS_OF_THE_LARGEST: f64 = 3.2e6;

/// What that table does not reach: Llama 3 405B (Grattafiori et al. 2024, arXiv 2407.21783 section 3.4.1).
const TOKENS_BEYOND: f64 = 16e6;

/// Tokens of an optimizer step where nobody says how many: those of the published recipe for a model of so many parameters.
pub fn pretraining_batch_tokens(parameters: f64) -> f64 {
    if parameters > LARGEST_OF_GPT3 {
        return TOKENS_BEYOND;
    }
    let row = OF_GPT3.iter().find(|(most, _)| parameters <= *most);
    row.map_or(TOKENS_OF_THE_LARGEST, |(_, tokens)| *tokens)
}
