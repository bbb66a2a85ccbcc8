//! Speech: an encoder hears a window of sound, and a decoder writes it down token by token, looking at the whole window again at each.
//!
//! Whisper hears 30 seconds, however short the sound (Radford et al. 2022, arXiv 2212.04356, section 2.1). The encoder runs once a window, as
//! encoders do elsewhere, and leaves keys and values for every layer of the decoder, which no other window shares. A token of each window reads the
//! decoder's weights once and all of those keys and values.

use crate::constants::DECODER_LAYER_OPERATORS;
use crate::serving::{ENGINE_BYTES, KERNEL_SECONDS, LAYER_KERNELS, MOST_SEQUENCES, PassTime, Replica, ReplicaMemory};
use gpuplan_workload::model::LayerStack;
use gpuplan_workload::{Model, ModelKind, ServingEngine, Training};

/// Tokens that say what is wanted before the first of a transcript: start, language, task, marks of time (arXiv 2212.04356, section 2.3).
const START_TOKENS: f64 = 4.0;
/// Kernels of a decoder's layer that looks at an encoder too, for each of one that does not: three blocks in place of two.
const BLOCKS: f64 = 1.5;
/// Operators of such a layer for one token, launched one by one: three norms, six projections, the scale of two queries, two writes to a cache, two
/// attentions, two copies of heads, three sums, and three of the feed-forward block (transformers, models/whisper/modeling_whisper.py). Counted.
const LAYER_OPERATORS: f64 = 23.0;
/// What CTranslate2 takes to launch an operator. This and the next four: fitted on benchmarks/serving/speech.csv (all seconds), which has their
/// errors with the GPU left out.
const LAUNCH_SECONDS: f64 = 9e-6;
/// Of the host for a second of sound: its file decoded and its spectrogram made, before the GPU hears it.
const SPECTROGRAM_SECONDS: f64 = 1.45e-3;
/// The same where faster-whisper looks for speech to cut batches from, which it does wherever it runs them (silero-vad on the processor).
const CUTTING_SECONDS: f64 = 3e-3;
/// A step of a search with several transcripts: their best continuations are told apart on the host.
const SEARCH_SECONDS: f64 = 9.6e-3;
/// A token of a sequence in transformers, whose rules of marks of time are Python, sequence by sequence (generation/logits_process.py,
/// `WhisperTimeStampLogitsProcessor`). From three rows of one GPU.
const RULES_SECONDS: f64 = 0.9e-3;
/// Bytes of an activation of the encoder.
const HALF: f64 = 2.0;

impl Replica<'_> {
    /// Whether an encoder hears and a decoder writes.
    pub(super) fn transcribes(&self) -> bool {
        self.serving.audio.is_some() && self.model.encoder_layers > 0
    }

    fn beams(&self) -> f64 {
        f64::from(self.serving.audio.map_or(1, |audio| audio.beams))
    }

    fn encoder(&self) -> Model {
        let stack = Some(LayerStack::Encoder { decoder_layers: self.model.layers });
        let layers = self.model.encoder_layers;
        Model { kind: ModelKind::Encoder, layers, encoder_layers: 0, vocab: 0, stack, ..self.model.clone() }
    }

    /// Its scores with the encoder's tokens are counted apart: each window has keys and values of its own.
    fn decoder(&self) -> Model {
        Model { encoder_layers: 0, stack: Some(LayerStack::Decoder { encoder_tokens: 0.0 }), ..self.model.clone() }
    }

    /// Bytes of keys and values of a window in one layer of the decoder.
    fn window_bytes(&self) -> f64 {
        self.prompt * self.cache_bytes()
    }

    /// Weights, and what one window holds: its activations in the encoder, and keys and values of both kinds.
    pub(super) fn held_for_speech(&self) -> ReplicaMemory {
        let m = self.model;
        let weights = m.parameters * self.serving.weights.bytes();
        let token = f64::from(m.layers) * self.cache_bytes();
        let widest = 4.0 * f64::from(m.hidden) + m.mlp_matrices() * f64::from(m.ffn_hidden);
        let own = self.beams() * (START_TOKENS + f64::from(self.serving.answer_tokens)) * token;
        let window = f64::from(m.layers) * self.window_bytes() + self.prompt * widest * HALF + own;
        let most = self.serving.audio.and_then(|audio| audio.batch).unwrap_or(MOST_SEQUENCES);
        self.holding(weights, ENGINE_BYTES, token, window, most)
    }

    /// `windows` through the encoder.
    pub(super) fn encoded_windows(&self, windows: f64) -> PassTime {
        let encoder = self.encoder();
        let training = Training { sequence_length: self.prompt as u32, ..self.training.clone() };
        let part = self.part(&encoder, &training, self.serving, self.rates);
        let pass = part.encoded(windows);
        PassTime { launch: pass.launch + windows * self.prepared(), ..pass }
    }

    /// Of the host, before a window is heard.
    fn prepared(&self) -> f64 {
        let Some(audio) = self.serving.audio else { return 0.0 };
        let is_cut = self.serving.engine == ServingEngine::FasterWhisper && audio.batch != Some(1);
        audio.seconds * (SPECTROGRAM_SECONDS + if is_cut { CUTTING_SECONDS } else { 0.0 })
    }

    /// A token of the transcript of each of `windows`, without what the host does around it.
    pub(super) fn written(&self, windows: f64) -> PassTime {
        let decoder = self.decoder();
        let part = self.part(&decoder, self.training, self.serving, self.rates);
        let sequences = windows * self.beams();
        let context = START_TOKENS + f64::from(self.serving.answer_tokens) / 2.0;
        let token = part.closed_pass(sequences, context);
        let step = PassTime { attention: token.attention + self.cross_attention(windows, sequences), ..token };
        let layers = f64::from(self.model.layers);
        let operators = layers * LAYER_OPERATORS;
        let mut step = match self.serving.engine {
            ServingEngine::PyTorch => {
                let host = operators / DECODER_LAYER_OPERATORS * self.constants.launch_seconds * self.rates.host_time;
                let step = self.launched(step, operators, host);
                PassTime { launch: step.launch + sequences * RULES_SECONDS, ..step }
            }
            ServingEngine::FasterWhisper => self.launched(step, operators, operators * LAUNCH_SECONDS),
            ServingEngine::Vllm | ServingEngine::Sglang | ServingEngine::TensorRtLlm => {
                let launch = layers * BLOCKS * LAYER_KERNELS * KERNEL_SECONDS * self.launch_factor();
                PassTime { launch, ..step }
            }
        };
        if sequences > windows {
            step.launch += SEARCH_SECONDS;
        }
        step
    }

    /// Seconds in which every sequence attends to its window, in all layers. CTranslate2 reads a window once for all its beams
    /// (src/layers/attention.cc, `beam_size`); others keep a copy for each.
    fn cross_attention(&self, windows: f64, sequences: f64) -> f64 {
        let copies = if self.serving.engine == ServingEngine::FasterWhisper { windows } else { sequences };
        let layers = f64::from(self.model.layers);
        let bytes = layers * copies * self.window_bytes();
        let read = bytes / self.rates.memory_bandwidth * self.factors.memory.at_size(bytes / layers.max(1.0)).time;
        let flops = layers * self.scores(sequences, self.prompt, self.model.query_width());
        read.max(flops / self.rates.flash)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::band::{Regime, time_band};
    use crate::measurements::correction::Certainty;
    use crate::serving::load::tests::{on, on_replica, workload};
    use crate::serving::load::{Flow, State};
    use crate::serving::round::doubts;
    use gpuplan_workload::Workload;

    /// Speeds that were written down before the estimate was run on any of them.
    static PUBLISHED: &str = include_str!("../../../benchmarks/serving/speech.csv");

    fn asked(model: &str, engine: &str, weights: &str, keys: &str) -> Workload {
        // A compiled model without its server is run as an engine with graphs runs it.
        let engine = if engine == "compiled" { "tensorrt-llm" } else { engine };
        workload(&format!("audio_hours = 1000\nengine = \"{engine}\"\nweights = \"{weights}\"\n{keys}"), model)
    }

    fn seconds(flow: &Flow, windows: f64) -> f64 {
        let state: State = flow.state(windows).unwrap();
        windows / state.requests_per_second
    }

    /// Whole batches of so many windows, and what is left.
    fn batches(flow: &Flow, windows: f64, batch: f64) -> f64 {
        let rest = windows % batch;
        (windows / batch).floor() * seconds(flow, batch) + if rest > 0.0 { seconds(flow, rest) } else { 0.0 }
    }

    fn median(values: &mut [f64]) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// The bounds are what was found.
    #[test]
    fn speech_takes_about_as_long_as_was_published() {
        let (mut errors, mut inside, mut said) = (Vec::new(), 0, String::new());
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut reader = csv::Reader::from_reader(PUBLISHED.as_bytes());
        for row in reader.records().map(Result::unwrap) {
            let (model, gpu, engine) = (&row[0], &row[1], &row[2]);
            let number = |index: usize| row[index].parse::<f64>().unwrap();
            let (batch, new, measured) = (number(5), number(7), number(9));
            // Pipelines hear a window of 30 seconds for 20 new ones unless told otherwise.
            let sound = if engine == "pytorch" { String::new() } else { format!("audio_seconds = {new}\n") };
            let keys = format!("{sound}beams = {}\nbatch = {}\nanswer_tokens = {}", &row[4], &row[5], &row[8]);
            let workload = asked(model, engine, &row[3], &keys);
            let speed = on(gpu, 1, &workload, |flow| match row[6].parse::<f64>() {
                Ok(windows) => windows * new / batches(flow, windows, batch),
                Err(_) => batch * new / seconds(flow, batch),
            });
            let half = on_replica(gpu, 1, &workload, |replica| {
                time_band(Regime::Compute, doubts(&replica), Certainty::default(), None).1
            });
            let ratio = measured / speed;
            inside += u32::from(ratio.ln().abs() <= half.ln());
            errors.push((speed / measured - 1.0).abs());
            said.push_str(&format!(
                "{model} {gpu} {engine} {} b{} x{}: {:+.0} % (x{half:.2})\n",
                &row[3],
                &row[4],
                &row[5],
                (speed / measured - 1.0) * 100.0
            ));
            let alone = if batch == 1.0 { "alone" } else { "batch" };
            for group in [
                format!("{engine} {alone}"),
                format!("gpu {gpu}"),
                format!("model {model}"),
                format!("source {}", row[10].chars().take(24).collect::<String>()),
            ] {
                groups.entry(group).or_default().push(speed / measured);
            }
        }
        for (group, ratios) in &mut groups {
            let bias = median(ratios);
            let mut off: Vec<f64> = ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
            let (count, middle) = (ratios.len(), median(&mut off) * 100.0);
            said.push_str(&format!("{group}: {count} rows, median speed x{bias:.2}, error {middle:.1} %\n"));
        }
        let share = f64::from(inside) / errors.len() as f64;
        let middle = median(&mut errors);
        println!("{said}{} rows, median {:.1} %, {:.0} % inside the band", errors.len(), middle * 100.0, share * 100.0);
        assert!(errors.len() >= 40);
        assert!(middle <= 0.15 && share >= 0.84, "{middle:.3} {share:.2}\n{said}");
    }

    #[test]
    fn more_of_anything_takes_longer() {
        let speed = |model: &str, engine: &str, keys: &str| {
            on("a100-sxm4-80", 1, &asked(model, engine, "bf16", keys), |flow| flow.full().unwrap().requests_per_second)
        };
        let plain = speed("whisper-large-v3", "vllm", "batch = 16");
        assert!(plain > 1.2 * speed("whisper-large-v3", "vllm", "batch = 16\nanswer_tokens = 210"));
        assert!(plain > speed("whisper-large-v3", "vllm", "batch = 16\nbeams = 5"));
        assert!(plain > 2.0 * speed("whisper-large-v3", "vllm", "batch = 1"));
        assert!(speed("whisper-large-v3-turbo", "vllm", "batch = 16") > 1.3 * plain);
        assert!(plain > speed("whisper-large-v3", "pytorch", "batch = 16"));
    }

    /// 234 MiB of keys and values of a window of large-v2 (`kv cross size`, ggml-org/whisper.cpp issue 89), and 4.7 GB of faster-whisper in 16
    /// bits with one window (SYSTRAN/faster-whisper README.md).
    #[test]
    fn a_window_holds_what_was_published() {
        let workload = asked("whisper-large-v2", "faster-whisper", "bf16", "batch = 1");
        let held = on_replica("v100-sxm2-32", 1, &workload, |replica| {
            (f64::from(replica.model.layers) * replica.window_bytes(), replica.held())
        });
        assert!((held.0 / 234.38 / 1_048_576.0 - 1.0).abs() < 0.01, "{held:?}");
        let all = held.1.weights + held.1.workspace + held.1.sequence;
        assert!((4.0e9..5.5e9).contains(&all), "{held:?}");
    }
}
