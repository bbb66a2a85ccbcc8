//! What a sample costs a core before it is trained on, or where the work on it is all that is done: of what, and who says so.

use std::borrow::Cow;

use gpuplan_units::Bytes;
use gpuplan_units::names::word;
use gpuplan_workload::assumption::SampleWork;

const MP3: &str = "MP3 decoded by TorchCodec on one core, not resampled; its published rate";
const H264: &str = "frames of H.264 decoded by TorchCodec on one core; its published rate, by their pixels";
const TOKENIZED: &str = "split into tokens by Hugging Face tokenizers, on one core; its published rate";

/// What a sample costs before it is trained on.
pub(super) fn training_work(work: SampleWork) -> Cow<'static, str> {
    match work {
        SampleWork::DecodedByGpu => "decoded by the GPU; judged".into(),
        SampleWork::CompressedImage { format, bytes, side_pixels } => {
            let file = format!("{} of {:.0} kB", word(format), kilobytes(bytes));
            format!("{file} cropped to {side_pixels} px with Pillow, on one core; published rates, docs/input.md")
                .into()
        }
        SampleWork::DecodedImage { side_pixels } => {
            format!("decoded pictures cropped to {side_pixels} px, on one core; FFCV's published rate").into()
        }
        SampleWork::Text { .. } => TOKENIZED.into(),
        SampleWork::Audio => MP3.into(),
        SampleWork::Video => H264.into(),
        SampleWork::Copied => "copied; judged".into(),
    }
}

/// What a sample costs where the work on it is all that is done.
pub(super) fn processing_work(work: SampleWork) -> Cow<'static, str> {
    match work {
        SampleWork::CompressedImage { format, bytes, side_pixels } => {
            let file = format!("{} of {:.0} kB", word(format), kilobytes(bytes));
            let made = format!("decoded and cropped to {side_pixels:.0} px with Pillow, on one core");
            format!("{file} {made}, without encoding it again; published rates, docs/input.md").into()
        }
        SampleWork::Text { bytes: Some(bytes) } => format!("{:.1} kB {TOKENIZED}", kilobytes(bytes)).into(),
        other => training_work(other),
    }
}

fn kilobytes(bytes: Bytes) -> f64 {
    bytes.0 / 1e3
}
