//! Prompts and passes of served models: no replica reads its weights faster than memory, or computes more than its chips.

use gpuplan::estimate::{Correction, Flow, Machine, Replica};
use gpuplan::hardware::{Hardware, NumberFormat};
use gpuplan::workload::file::WorkloadFile;
use gpuplan::workload::{Layout, Models, Workload};

use super::{ROUNDING, machine, oracle, sample};

/// Served tokens: short prompts with long answers, and the reverse. 0: the model reads and writes none.
const LENGTHS: [(u32, u32); 3] = [(100, 300), (400, 40), (384, 0)];
const FORMATS: [(&str, f64); 4] = [("bf16", 2.0), ("fp8", 1.0), ("int8", 1.0), ("int4", 0.5)];

/// `None`: this model is not served so.
fn workload(models: &Models, preset: &str, lengths: (u32, u32), weights: &str) -> Option<Workload> {
    let (prompt, answer) = lengths;
    let row = models.find(preset)?;
    let writes_down = row.audio_tokens_per_second > 0.0 && row.encoder_layers.is_some();
    let asked = if row.kind.counts_samples() {
        "images_per_second = 1".to_owned()
    } else if writes_down {
        // Greedy in captured graphs, and a search whose beams share a window.
        let engine = if prompt < answer { "vllm" } else { "faster-whisper" };
        format!("audio_hours = 1000000\nanswer_tokens = {answer}\nengine = \"{engine}\"")
    } else {
        format!("requests = 1000000\nprompt_tokens = {prompt}\nanswer_tokens = {answer}")
    };
    let text = format!("[model]\npreset = \"{preset}\"\n[serving]\n{asked}\nweights = \"{weights}\"\n");
    Some(WorkloadFile::parse(&text).unwrap().resolve(models, None).ok()?.workload)
}

/// The fastest unit of a chip in so many bytes or more an element. FLOP/s.
fn fastest(machine: &Machine, bytes: f64) -> f64 {
    use NumberFormat::{Bf16, Fp8, Fp16, Fp32, Int8};
    let formats: &[NumberFormat] = if bytes <= 1.0 { &[Fp8, Int8, Bf16, Fp16, Fp32] } else { &[Bf16, Fp16, Fp32] };
    let rates = formats.iter().filter_map(|format| machine.gpu.peak_tflops.get(*format));
    rates.fold(0.0, f64::max) * 1e12
}

#[test]
fn no_replica_reads_or_computes_more_than_its_gpus_can() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let (unmeasured, mut found, mut states) = (Correction::NONE, Vec::new(), 0);
    for row in models.rows() {
        for (lengths, (format, bytes)) in
            LENGTHS.into_iter().flat_map(|lengths| FORMATS.map(|format| (lengths, format)))
        {
            let Some(workload) = workload(&models, &row.id, lengths, format) else { continue };
            let serving = workload.serving.unwrap();
            for gpu in hardware.gpus() {
                for tensor in [1, 8] {
                    let machine = machine(&hardware, gpu, tensor);
                    let layout = Layout { tensor, ..Layout::default() };
                    let replica = Replica::new(&workload, &serving, machine, &unmeasured, layout);
                    let Ok(flow) = Flow::new(&replica) else { continue };
                    let gpus = f64::from(tensor);
                    let sheet = gpu.memory_bandwidth_gb_per_s * 1e9;
                    let name = format!("{} {format} {lengths:?} on {tensor} x {}", row.id, gpu.id);
                    for running in [1.0, f64::from(flow.held.sequences)] {
                        let state = flow.state(running).unwrap();
                        states += 1;
                        let read = oracle::read_weights(row) * bytes / gpus / state.pass_seconds;
                        if read > sheet * ROUNDING {
                            found.push(format!("{name}: reads {:.3} of {:.3} TB/s", read / 1e12, sheet / 1e12));
                        }
                        let passes = serving.images.map_or(1.0, |images| {
                            images.passes() * (f64::from(images.side) / f64::from(workload.model.sample_side)).powi(2)
                        });
                        let asked = passes * oracle::answer_flops(row, lengths) * state.requests_per_second / gpus;
                        let most = fastest(&machine, bytes);
                        if asked > most * ROUNDING {
                            let (asked, most) = (asked / 1e12, most / 1e12);
                            found.push(format!("{name}, {running} at once: computes {asked:.1} of {most:.1} TFLOP/s"));
                        }
                    }
                }
            }
        }
    }
    assert!(states > 5_000, "only {states} states were looked at");
    assert!(found.is_empty(), "{} of {states} states, such as\n{}", found.len(), sample(&found));
}
