//! What a machine type needs beside its name: the type of its boot disk and an image with GPU drivers. Pure.

use crate::prices::attached::Attached;

/// Image families of Google's Deep Learning VM: Ubuntu 22.04, CUDA 12.9 and driver 580, no framework. Family and project as
/// cloud.google.com/deep-learning-vm/docs/images lists them (2026); `gcloud compute images list --project
/// deeplearning-platform-release` shows those of the day.
const X86_64_IMAGE: &str =
    "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580";

/// What leads a run has no GPU and runs one static program: Canonical's own image of the system that AWS's leaders have
/// (cloud.google.com/compute/docs/images/os-details, "Ubuntu LTS").
const LEADER_IMAGE: &str = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts";

const PERSISTENT: &str = "pd-balanced";
const HYPERDISK: &str = "hyperdisk-balanced";

/// Beginnings of machine types, the boot disk that each takes, and whether the image above runs on it. Series since A3 Ultra take
/// Hyperdisk alone (the tables "Supported disk types" of cloud.google.com/compute/docs/gpus, 2026). A4X has Arm processors.
const SERIES: &[(&str, &str, Option<&str>)] = &[
    ("a2-", PERSISTENT, Some(X86_64_IMAGE)),
    ("a3-highgpu-", PERSISTENT, Some(X86_64_IMAGE)),
    ("a3-megagpu-", PERSISTENT, Some(X86_64_IMAGE)),
    ("a3-ultragpu-", HYPERDISK, Some(X86_64_IMAGE)),
    ("a4-", HYPERDISK, Some(X86_64_IMAGE)),
    ("a4x-", HYPERDISK, None),
    ("g2-", PERSISTENT, Some(X86_64_IMAGE)),
    ("g4-", HYPERDISK, Some(X86_64_IMAGE)),
    ("e2-", PERSISTENT, Some(LEADER_IMAGE)),
];

/// Of a series that brings its GPUs and, where it has them, its local SSDs (cloud.google.com/compute/docs/disks/add-local-ssd), or of N1 with the
/// cards that are attached to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub disk_type: &'static str,
    /// `None`: the user has to name one.
    pub image: Option<&'static str>,
}

pub fn shape_of(machine_type: &str) -> Option<Shape> {
    if let Some(attached) = Attached::named(machine_type) {
        // Whether the image's kernel modules drive cards before Turing is not said: NVIDIA's open ones do not (driver 580, "Open Linux
        // Kernel Modules").
        let image = (attached.kind.short == "t4").then_some(X86_64_IMAGE);
        return Some(Shape { disk_type: PERSISTENT, image });
    }
    let (_, disk_type, image) = SERIES.iter().find(|(start, ..)| machine_type.starts_with(start))?;
    Some(Shape { disk_type, image: *image })
}

/// Address of an image below `compute/v1/`: as given, or the project's own image of that name.
pub fn image_path(image: &str, project: &str) -> String {
    match image.find("projects/") {
        Some(start) => image[start..].to_owned(),
        None => format!("projects/{project}/global/images/{}", image.trim_start_matches("global/images/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};

    #[test]
    fn every_machine_type_of_the_catalog_has_a_shape() {
        let hardware = Hardware::embedded().unwrap();
        for instance in hardware.instances().iter().filter(|instance| instance.cloud == CloudId::new("gcp")) {
            assert!(shape_of(&instance.name).is_some(), "{}", instance.name);
        }
        assert_eq!(shape_of("a3-ultragpu-8g").unwrap().disk_type, "hyperdisk-balanced");
        assert_eq!(shape_of("a3-highgpu-8g").unwrap().disk_type, "pd-balanced");
        assert_eq!(shape_of("a4x-highgpu-4g").unwrap().image, None, "Arm");
        assert_eq!(shape_of("n1-standard-8"), None, "its name does not say which GPU");
        assert!(shape_of("n1-standard-8-t4x1").is_some_and(|shape| shape.image.is_some()));
        assert!(shape_of("n1-standard-8-v100x1").is_some_and(|shape| shape.image.is_none()));
    }

    #[test]
    fn an_image_is_named_in_any_usual_way() {
        let of_project = "projects/p/global/images/mine";
        assert_eq!(image_path("mine", "p"), of_project);
        assert_eq!(image_path("global/images/mine", "p"), of_project);
        assert_eq!(image_path("https://www.googleapis.com/compute/v1/projects/p/global/images/mine", "q"), of_project);
        assert_eq!(image_path("projects/d/global/images/family/f", "p"), "projects/d/global/images/family/f");
    }
}
