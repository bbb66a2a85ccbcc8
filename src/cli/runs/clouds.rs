//! Clouds that machines are rented from: how each names its buckets, sets up an account and opens a shell.

use std::process::Command;

use gpuplan_clouds::{aws, gcp};
use gpuplan_launch::Pool;

/// What `launch` and the commands after it need to know of a cloud.
pub struct RentalCloud {
    pub name: &'static str,
    /// Scheme of the addresses of its buckets.
    pub bucket_scheme: &'static str,
    /// Where permissions are checked when no plan names a region.
    pub default_region: &'static str,
    /// What a launch needs in an account, as Terraform.
    pub setup: &'static str,
    /// Opens a shell on the machine with this id by the cloud's own tool, which needs no open port.
    pub shell: fn(&Pool, &str) -> Command,
}

/// One entry a cloud.
static CLOUDS: [RentalCloud; 2] = [
    RentalCloud {
        name: aws::CLOUD,
        bucket_scheme: "s3",
        default_region: "us-east-1",
        setup: aws::SETUP,
        shell: |pool, id| {
            let mut session = Command::new("aws");
            session.args(["ssm", "start-session", "--region", &pool.region, "--target", id]);
            session
        },
    },
    RentalCloud {
        name: gcp::CLOUD,
        bucket_scheme: "gs",
        default_region: "us-central1",
        setup: gcp::SETUP,
        shell: |pool, id| {
            let (zone, name) = id.rsplit_once('/').unwrap_or((pool.place(), id));
            let mut session = Command::new("gcloud");
            session.args(["compute", "ssh", name, "--zone", zone, "--tunnel-through-iap"]);
            session
        },
    },
];

/// `None` for a cloud that is only planned for, and for the stand-in on this machine.
pub fn rental_cloud(name: &str) -> Option<&'static RentalCloud> {
    CLOUDS.iter().find(|cloud| cloud.name == name)
}

/// Names of the clouds that `setup` takes.
pub fn rental_clouds() -> impl Iterator<Item = &'static str> {
    CLOUDS.iter().map(|cloud| cloud.name)
}
