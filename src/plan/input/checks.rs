//! What is known about the input of a workload on one instance type, and what cannot be checked.

use crate::context::Context;
use crate::explanation::Warning;
use crate::explanation::warning::MissingInput;
use crate::input::disks::fits_on_local_disks;
use crate::input::feeding::passes;
use gpuplan_estimate::feeding;
use gpuplan_estimate::input::bytes_of_a_sample;
use gpuplan_hardware::InstanceId;
use gpuplan_workload::{DataKind, FileLayout, Storage, Workload};

/// A GET of S3 Standard in us-east-1 (Amazon S3 pricing, recalled).
const S3_REQUEST_USD: f64 = 0.0004 / 1000.0;

/// What was counted of the input, what was not, and why. Requests to a served model bring their own input.
pub fn warnings(context: Context, instance: InstanceId) -> Vec<Warning> {
    let workload = context.workload;
    if workload.serving.is_some() {
        return Vec::new();
    }
    let mut found: Vec<Warning> = measured_host(context, instance).into_iter().collect();
    if found.is_empty() || workload.data.as_ref().is_some_and(|data| data.reading.kind.is_some()) {
        found.extend(unchecked(context, instance));
    }
    found.extend(requests(workload));
    found
}

/// Requests to a bucket that is read in every pass: no catalog has their price.
fn requests(workload: &Workload) -> Option<Warning> {
    let data = workload.data.as_ref()?;
    let is_one_each = data.reading.storage == Storage::ObjectStore && data.reading.files() == FileLayout::OneEach;
    let requests = data.samples.filter(|_| is_one_each)? * passes(workload);
    Some(Warning::UnpricedRequests { requests, list_price_usd: requests * S3_REQUEST_USD })
}

/// The parts of the input that cannot be checked.
fn unchecked(context: Context, instance: InstanceId) -> Option<Warning> {
    let workload = context.workload;
    let usual_kind = if workload.model.kind.counts_samples() { "jpeg" } else { "tokens" }.to_owned();
    let Some(data) = &workload.data else { return Some(Warning::InputUnchecked { usual_kind }) };
    let machine = context.world.hardware.instance(instance);
    let cost = feeding::cpu_seconds(&workload.model, &workload.training, data);
    let Some(kind) = data.reading.kind else {
        return Some(match cost {
            Some(_) => Warning::StorageUnchecked { usual_kind, knows_vcpus: machine.vcpus > 0 },
            None => Warning::InputUnchecked { usual_kind },
        });
    };
    let mut missing = Vec::new();
    if cost.is_none() && matches!(kind, DataKind::Audio | DataKind::Video) {
        let key = if kind == DataKind::Audio { "seconds_per_sample" } else { "frames_per_sample" };
        missing.push(MissingInput::RecordingCost { data_kind: kind.word().to_owned(), key: key.to_owned() });
    } else if cost.is_none() {
        missing.push(MissingInput::SampleCost);
    } else if machine.vcpus == 0 {
        missing.push(MissingInput::Vcpus);
    }
    if bytes_of_a_sample(data).is_none() {
        missing.push(MissingInput::SampleBytes);
    } else if data.reading.storage != Storage::ObjectStore && !fits_on_local_disks(machine, data) {
        let is_known = matches!(machine.cloud.as_str(), "aws" | "gcp" | "azure");
        missing.extend((!is_known).then_some(MissingInput::DiskRates));
    }
    (!missing.is_empty()).then_some(Warning::InputPartlyUnchecked { missing })
}

/// Whether the measured host of this instance type's GPU counts.
fn measured_host(context: Context, instance: InstanceId) -> Option<Warning> {
    let (world, workload) = (context.world, context.workload);
    let gpu = world.gpu_of(instance);
    let host = world.correction.host(gpu)?;
    let is_counted = workload.data.as_ref().is_some_and(|data| {
        bytes_of_a_sample(data).is_some() || feeding::cpu_seconds(&workload.model, &workload.training, data).is_some()
    });
    Some(Warning::MeasuredHost {
        gpu: gpu.name.clone(),
        processor: host.processor.clone(),
        measured: host.words(),
        is_counted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::World;
    use crate::limits::Limits;
    use gpuplan_estimate::Correction;
    use gpuplan_hardware::Hardware;
    use gpuplan_market::Market;
    use gpuplan_workload::Models;
    use gpuplan_workload::file::WorkloadFile;

    #[test]
    fn what_cannot_be_checked_is_named() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let world = World { hardware: &hardware, market: &market, correction: &Correction::NONE };
        let warned = |data: &str, cloud: &str, name: &str| {
            let text = format!(
                "model = {{ preset = \"resnet-50\" }}\ntraining = {{ epochs = 9, global_batch = 64 }}\n[data]\nsamples = 1000000\n{data}"
            );
            let workload =
                WorkloadFile::parse(&text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload;
            let id = hardware.instance_ids().find(|id| {
                let one = hardware.instance(*id);
                one.cloud.as_str() == cloud && one.name == name
            });
            assert!((passes(&workload) - 9.0).abs() < 1e-9);
            warnings(Context { world, workload: &workload, limits: &Limits::default() }, id.unwrap())
        };
        let partly = |missing: MissingInput| vec![Warning::InputPartlyUnchecked { missing: vec![missing] }];
        let jpeg = "kind = \"jpeg\"\nsize = \"100GB\"";
        assert_eq!(warned(jpeg, "aws", "p4d.24xlarge"), []);
        let unkind = warned("size = \"100GB\"", "aws", "p4d.24xlarge");
        assert!(matches!(&unkind[..], [Warning::InputUnchecked { usual_kind }] if usual_kind == "jpeg"));
        let video = warned("kind = \"video\"\nsize = \"100GB\"", "aws", "p4d.24xlarge");
        let (data_kind, key) = ("video".to_owned(), "frames_per_sample".to_owned());
        assert_eq!(video, partly(MissingInput::RecordingCost { data_kind, key }));
        let unsized_jpeg = warned("kind = \"jpeg\"", "aws", "p4d.24xlarge");
        let missing = vec![MissingInput::SampleCost, MissingInput::SampleBytes];
        assert_eq!(unsized_jpeg, [Warning::InputPartlyUnchecked { missing }]);
        let nebius = warned(jpeg, "nebius", "gpu-h100-sxm_8gpu-128vcpu-1600gb");
        assert_eq!(nebius, partly(MissingInput::DiskRates));
        // No source says how many vCPUs it has.
        let novita = warned(jpeg, "novita", "a100-sxm.1x");
        assert!(
            matches!(&novita[..], [Warning::InputPartlyUnchecked { missing }] if missing[0] == MissingInput::Vcpus)
        );
        let bucket = warned(&format!("{jpeg}\nstorage = \"object-store\""), "aws", "p4d.24xlarge");
        let requests = Warning::UnpricedRequests { requests: 9e6, list_price_usd: 9e6 * S3_REQUEST_USD };
        assert!(bucket.contains(&requests), "{bucket:?}");
    }
}
