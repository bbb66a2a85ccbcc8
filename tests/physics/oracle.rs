//! What a step has to compute and to move at the very least, counted from a row of the model catalog.

use gpuplan::estimate::Setting;
use gpuplan::workload::catalog::ModelRow;
use gpuplan::workload::training::LoraTargets;
use gpuplan::workload::{Lora, MlpKind, ModelKind, Precision, Shard, Task, Training};

/// Adapters as small as they come, so that what they add is nothing.
pub const ADAPTERS: Lora = Lora { rank: 1, targets: LoraTargets::ALL_LINEAR, dropout: false };

/// Forward, gradient of the input, gradient of the weight: a product each.
fn passes(task: Task) -> f64 {
    match task {
        _ if !task.has_backward() => 1.0,
        // A frozen base has no gradients of weights.
        _ if task.has_adapters() => 2.0,
        _ => 3.0,
    }
}

/// FLOPs of one optimizer step of all GPUs.
pub fn flops(row: &ModelRow, training: &Training, samples: f64) -> f64 {
    let tokens = f64::from(training.sequence_length);
    let forward = if row.kind.is_transformer() {
        transformer(row, tokens, training.task)
    } else {
        let native = f64::from(row.sample_side.unwrap_or(0));
        let area = if native > 0.0 { (tokens / native).powi(2) } else { 1.0 };
        row.forward_gflop_per_sample.unwrap_or(0.0) * 1e9 * area
    };
    forward * passes(training.task) * samples
}

/// Multiplications and additions of one sample's forward pass. Scores of a causal layer count once for each pair of tokens.
fn transformer(row: &ModelRow, tokens: f64, task: Task) -> f64 {
    let size = |value: Option<u32>| f64::from(value.unwrap_or(0));
    let (hidden, layers, encoder_layers) = (size(row.hidden), size(row.layers), size(row.encoder_layers));
    let heads = size(row.heads);
    let head = row.head_dim.map_or(hidden / heads, f64::from);
    let (query, keys) = (heads * head, row.kv_heads.map_or(heads, f64::from) * head);
    let encoder_tokens = row.encoder_tokens.map_or(tokens, f64::from);
    // Keys and values that come from low ranks have fewer weights than they have width; the wide product alone is counted.
    let projections = match row.kv_lora_rank {
        Some(rank) => hidden * (f64::from(rank) + heads * size(row.v_head_dim)),
        None => hidden * (2.0 * query + 2.0 * keys),
    };
    let value = row.v_head_dim.map_or(head, f64::from);
    let (scores, full) = (heads * (head + value), matches!(row.kind, ModelKind::Encoder | ModelKind::Vit));
    let matrices = if row.mlp == Some(MlpKind::Glu) { 3.0 } else { 2.0 };
    let dense = matrices * hidden * row.ffn_hidden.map_or(4.0 * hidden, f64::from);
    let met = size(row.experts_per_token) + size(row.shared_experts);
    let mixture = matrices * hidden * row.expert_ffn_hidden.or(row.ffn_hidden).map_or(0.0, f64::from) * met;
    let is_mixture = row.experts.is_some();
    // A hybrid has attention, a recurrence or a feed-forward block in a layer, and not all of them.
    let attending = row.attention_layers.map_or(layers, f64::from);
    let blocks = row.feed_forward_layers.map_or(layers, f64::from);
    let dense_layers = if is_mixture { size(row.dense_layers) } else { blocks };
    let feed_forward = dense_layers * dense + (blocks - dense_layers) * mixture;
    let pairs = if full { tokens * tokens } else { tokens * tokens / 2.0 };
    let mut products = tokens * (attending * projections + feed_forward) + attending * pairs * scores;
    if encoder_layers > 0.0 {
        products += encoder_tokens * encoder_layers * (projections + dense)
            + encoder_layers * encoder_tokens * encoder_tokens * scores
            // Cross attention: queries and output of the decoder's tokens, keys and values of the encoder's.
            + layers * (tokens * 2.0 * hidden * query + encoder_tokens * 2.0 * hidden * keys)
            + layers * tokens * encoder_tokens * scores;
    }
    // Masked language models look at the vocabulary for some tokens, and fine-tuned encoders not at all.
    if !full && task != Task::InferencePrefill {
        products += tokens * hidden * size(row.vocab);
    }
    2.0 * products
}

fn weight_bytes(precision: Precision) -> f64 {
    match precision {
        Precision::Fp32 | Precision::Tf32 | Precision::AmpFp16 => 4.0,
        _ => 2.0,
    }
}

/// Weights that every token of a large batch meets; experts are left out, since few tokens may meet few of them, and so are parts
/// beside the layers, such as tables of which a token reads a row.
fn dense_parameters(row: &ModelRow) -> f64 {
    row.active_parameters.unwrap_or(row.parameters)
        - row.other_parameters
        - f64::from(row.vocab.unwrap_or(0)) * f64::from(row.hidden.unwrap_or(0))
}

/// Bytes that the memory of a GPU reads and writes: its weights in both passes, and of what it trains the gradient twice, weight
/// and two moments once each way, in 16 bits or more. States that ranks split are left out.
pub fn memory_bytes(row: &ModelRow, training: &Training, setting: &Setting) -> f64 {
    let weights = dense_parameters(row);
    // Arithmetic in fewer bits may read fewer.
    let narrow = match training.precision {
        Precision::Fp8 | Precision::Mxfp8 => 1.0,
        Precision::Nvfp4 => 0.5,
        precision => weight_bytes(precision).min(2.0),
    };
    let reads = if training.task.has_backward() { 2.0 } else { 1.0 };
    let trains = training.task.has_optimizer() && !training.task.has_adapters();
    let alone = setting.layout.shard == Shard::None;
    let states = if trains && alone { 2.0 * 2.0 + 3.0 * 2.0 * 2.0 } else { 0.0 };
    let held = f64::from(setting.layout.model_parallel());
    weights / held * (setting.micro_steps() * reads * narrow + states)
}

/// Gradients that whole copies of a model exchange; none where nothing or only adapters are trained.
pub fn gradient_bytes(row: &ModelRow, training: &Training) -> f64 {
    let trains = training.task.has_backward() && !training.task.has_adapters();
    if trains { dense_parameters(row) * weight_bytes(training.precision).min(2.0) } else { 0.0 }
}

/// What a rank of a split model sends to sum up activations: twice in the forward pass of every layer of its stage, and twice in the
/// backward pass.
pub fn tensor_bytes(row: &ModelRow, training: &Training, setting: &Setting) -> f64 {
    let layers = f64::from(row.layers.unwrap_or(0)) / f64::from(setting.layout.pipeline);
    let tokens = f64::from(setting.micro_batch) * f64::from(training.sequence_length) * setting.micro_steps();
    let passes = if training.task.has_backward() { 2.0 } else { 1.0 };
    // 16 bits, or 32 where arithmetic has as many.
    let bytes = 2.0 * tokens * f64::from(row.hidden.unwrap_or(0));
    2.0 * passes * layers * bytes * ring(setting.layout.tensor)
}

/// Times that each member of a group sends its data when everyone gets the sum: twice all but its own part.
pub fn ring(members: u32) -> f64 {
    let members = f64::from(members.max(1));
    2.0 * (members - 1.0) / members
}

/// Weights that a pass over running sequences reads; of a mixture, those that one token meets.
pub fn read_weights(row: &ModelRow) -> f64 {
    if row.encoder_layers.is_none_or(|layers| layers == 0) {
        return dense_parameters(row);
    }
    // A decoder that looks at an encoder: two blocks of attention and one that feeds forward.
    let size = |value: Option<u32>| f64::from(value.unwrap_or(0));
    let (hidden, heads) = (size(row.hidden), size(row.heads));
    let query = heads * row.head_dim.map_or(hidden / heads, f64::from);
    let matrices = if row.mlp == Some(MlpKind::Glu) { 3.0 } else { 2.0 };
    // Keys and values of the encoder are there already.
    let attention = hidden * (4.0 * query + 2.0 * query * size(row.kv_heads.or(row.heads)) / heads);
    size(row.layers) * (attention + matrices * hidden * row.ffn_hidden.map_or(4.0 * hidden, f64::from))
}

/// FLOPs of a request: its prompt, and every token of its answer through every weight that a token meets. Scores of the answer and
/// the vocabulary are left out. Of speech: a window through the encoder, and its transcript through the decoder.
pub fn answer_flops(row: &ModelRow, (prompt, answer): (u32, u32)) -> f64 {
    if row.encoder_layers.is_some_and(|layers| layers > 0) {
        return transformer(row, f64::from(answer), Task::InferencePrefill);
    }
    let samples = row.kind.counts_samples();
    let tokens = row.native_tokens().filter(|_| samples).unwrap_or(prompt);
    let prompts = if row.kind.is_transformer() {
        transformer(row, f64::from(tokens), Task::InferencePrefill)
    } else {
        row.forward_gflop_per_sample.unwrap_or(0.0) * 1e9
    };
    let writes = matches!(row.kind, ModelKind::Decoder | ModelKind::Moe) && !samples;
    prompts + if writes { 2.0 * dense_parameters(row).max(0.0) * f64::from(answer) } else { 0.0 }
}
