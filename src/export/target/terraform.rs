//! Terraform for the machines of a plan on AWS or Google Cloud (`terraform apply`), each of which runs the agent at boot and ends itself.

use crate::job::{CapacityType, Job};
use crate::network::efa_adapters;
use crate::script::{Position, script};
use crate::target::attached::{attached, machine_type};
use crate::{ExportError, Target};

/// Provider that `terraform validate` of this text was tried with.
const AWS_PROVIDER: &str = "5.100.0";
/// A machine of Compute Engine with an end lives no longer ("Limit the run time of a VM"). Hours.
const MOST_HOURS_OF_GCP: u32 = 120 * 24;
/// Root disk. GiB. Judged: an image with drivers and frameworks, and some checkpoints.
const DISK_GIB: u32 = 512;

pub fn render(job: &Job) -> Result<String, ExportError> {
    let name = job.dns_name(Target::Terraform, 40)?;
    let how = [
        "terraform init && terraform apply; it asks for its variables".to_owned(),
        "done: terraform destroy (a machine that has shut down keeps its disk on Google Cloud)".to_owned(),
        "interrupted: the machine is gone and stays away; `terraform apply` again rents it anew and the run goes on"
            .to_owned(),
    ];
    let resources = match job.machines().cloud.as_str() {
        "aws" => aws(job, &name)?,
        "gcp" => gcp(job, &name)?,
        other => {
            let why = format!(
                "supports only aws and gcp, not {other}; plan with --cloud aws or --cloud gcp, or export to skypilot"
            );
            return Err(ExportError::Unfit { target: Target::Terraform, why });
        }
    };
    Ok(job.comments(&how) + &resources)
}

/// What a machine does at boot, as a local of Terraform with three marks. The first line ends the machine whatever happens after.
fn boot(job: &Job) -> Result<String, ExportError> {
    let nodes = job.machines().nodes.to_string();
    let body = script(job, Position { node: "@NODE@", nodes: &nodes, first: "@FIRST@" })?;
    let minutes = u64::from(job.lifetime_hours()) * 60;
    let all = format!(
        "#!/bin/bash\nshutdown -P +{minutes}\ntrap 'shutdown -P now' EXIT\ncd @FOLDER@\nrun() {{\n{body}}}\n(run)\n"
    );
    // `${` and `%{` mean something to Terraform.
    Ok(format!("locals {{\n  boot = <<BOOT\n{}BOOT\n}}\n", all.replace("${", "$${").replace("%{", "%%{")))
}

/// Machine 0 first, since the others are told its address. `machine` takes a label, a line for the count, and the boot script.
fn machine_resources(job: &Job, address: &str, machine: impl Fn(&str, &str, &str) -> String) -> String {
    let filled = |node: &str, first: &str| {
        format!(
            "replace(replace(replace(local.boot, \"@FOLDER@\", var.folder), \"@NODE@\", {node}), \"@FIRST@\", {first})"
        )
    };
    let mut text = machine("first", "", &filled("\"0\"", "\"127.0.0.1\""));
    if job.machines().nodes > 1 {
        let count = format!("  count = {}\n\n", job.machines().nodes - 1);
        text.push_str(&machine("others", &count, &filled("tostring(count.index + 1)", address)));
    }
    text
}

fn aws(job: &Job, name: &str) -> Result<String, ExportError> {
    let machines = job.machines();
    let spot = if job.capacity_type() == CapacityType::NonPreemptible {
        String::new()
    } else {
        "  instance_market_options {\n    market_type = \"spot\"\n    spot_options {\n      instance_interruption_behavior = \"terminate\"\n      \
            spot_instance_type             = \"one-time\"\n    }\n  }\n"
            .to_owned()
    };
    let adapters = if machines.nodes > 1 { efa_adapters(&machines.instance_type) } else { 0 };
    let group = if machines.nodes > 1 {
        format!(
            "resource \"aws_placement_group\" \"close\" {{\n  name     = \"{name}\"\n  strategy = \"cluster\"\n}}\n\n"
        )
    } else {
        String::new()
    };
    let placement = if machines.nodes > 1 { "  placement_group = aws_placement_group.close.name\n" } else { "" };
    let resources = machine_resources(job, "aws_instance.first.private_ip", |label, count, boot| {
        format!(
            "\nresource \"aws_instance\" \"{label}\" {{\n{count}{placement}  launch_template {{\n    id      = aws_launch_template.machine.id\n    \
                version = aws_launch_template.machine.latest_version\n  }}\n  user_data_base64            = base64gzip({boot})\n  \
                user_data_replace_on_change = true\n  tags                        = {{ Name = \"{name}\" }}\n}}\n",
        )
    });
    Ok(format!(
        "terraform {{\n  required_providers {{\n    aws = {{ source = \"hashicorp/aws\", version = \">= {AWS_PROVIDER}\" }}\n  }}\n}}\n\n\
            provider \"aws\" {{\n  region = \"{region}\"\n}}\n\n{AWS_VARIABLES}\n{boot}\n{group}resource \"aws_launch_template\" \"machine\" {{\n  \
            name_prefix   = \"{name}-\"\n  image_id      = var.image\n  instance_type = \"{kind}\"\n  # A machine that shuts down is gone.\n  \
            instance_initiated_shutdown_behavior = \"terminate\"\n  iam_instance_profile {{\n    name = var.bucket_profile\n  }}\n  metadata_options {{\n    \
            http_tokens                 = \"required\"\n    http_put_response_hop_limit = 2\n  }}\n  block_device_mappings {{\n    \
            device_name = \"/dev/sda1\"\n    ebs {{\n      volume_size = {DISK_GIB}\n      volume_type = \"gp3\"\n      encrypted   = true\n    }}\n  \
            }}\n{spot}{interfaces}}}\n{resources}",
        region = machines.region,
        boot = boot(job)?,
        kind = machines.instance_type,
        interfaces = interfaces(adapters),
    ))
}

const AWS_VARIABLES: &str = "\
variable \"image\" {
  description = \"Machine image with GPU driver, gpuplan and your program, such as ami-0123456789abcdef0\"
  type        = string
}

variable \"folder\" {
  description = \"Folder of the image that the program starts in\"
  type        = string
}

variable \"bucket_profile\" {
  description = \"Instance profile that may read and write the bucket of the run\"
  type        = string
}

variable \"subnet\" {
  description = \"Subnet of one zone, with a way to the bucket\"
  type        = string
}

variable \"security_group\" {
  description = \"Lets machines of the run reach each other\"
  type        = string
}
";

/// Card 0 speaks IP, the others only EFA; P5 wants an address on every fourth (EC2 user guide, "EFA configuration for P5").
fn interfaces(adapters: u32) -> String {
    let one = |card: u32| {
        let kind = match (adapters, card) {
            (0, _) => "interface",
            (_, 0) => "efa",
            (32, card) if card % 4 == 0 => "efa",
            _ => "efa-only",
        };
        let device = u32::from(card > 0);
        format!(
            "  network_interfaces {{\n    network_card_index    = {card}\n    device_index          = {device}\n    interface_type        = \"{kind}\"\n    \
                subnet_id             = var.subnet\n    security_groups       = [var.security_group]\n    delete_on_termination = true\n  }}\n"
        )
    };
    (0..adapters.max(1)).map(one).collect()
}

fn gcp(job: &Job, name: &str) -> Result<String, ExportError> {
    let machines = job.machines();
    if job.lifetime_hours() > MOST_HOURS_OF_GCP {
        let why = format!(
            "would need machines for {} hours, and Google Cloud ends them after {MOST_HOURS_OF_GCP}; plan with more GPUs",
            job.lifetime_hours()
        );
        return Err(ExportError::Unfit { target: Target::Terraform, why });
    }
    let model = if job.capacity_type() == CapacityType::NonPreemptible { "STANDARD" } else { "SPOT" };
    let cards = attached(machines).map_or_else(String::new, |attached| {
        let (kind, count) = (attached.accelerator, attached.count);
        format!("  guest_accelerator {{\n    type  = \"{kind}\"\n    count = {count}\n  }}\n")
    });
    let resources = machine_resources(
        job,
        "google_compute_instance.first.network_interface[0].network_ip",
        |label, count, boot| {
            let suffix = if label == "first" { "0" } else { "${count.index + 1}" };
            format!(
                "\nresource \"google_compute_instance\" \"{label}\" {{\n{count}  name         = \"{name}-{suffix}\"\n  zone         = var.zone\n  \
                machine_type = \"{}\"\n{cards}  boot_disk {{\n    initialize_params {{\n      image = var.image\n      size  = {DISK_GIB}\n    }}\n  }}\n  \
                network_interface {{\n    subnetwork = var.subnet\n  }}\n  scheduling {{\n    provisioning_model          = \"{model}\"\n    \
                preemptible                 = {}\n    automatic_restart           = false\n    on_host_maintenance         = \"TERMINATE\"\n    \
                instance_termination_action = \"DELETE\"\n    max_run_duration {{\n      seconds = {}\n    }}\n  }}\n  service_account {{\n    \
                email  = var.bucket_account\n    scopes = [\"cloud-platform\"]\n  }}\n  metadata_startup_script = {boot}\n}}\n",
                machine_type(machines),
                model == "SPOT",
                u64::from(job.lifetime_hours()) * 3600,
            )
        },
    );
    Ok(format!(
        "terraform {{\n  required_providers {{\n    google = {{ source = \"hashicorp/google\", version = \">= 6.0\" }}\n  }}\n}}\n\n\
            provider \"google\" {{\n  project = var.project\n  region  = \"{}\"\n}}\n\n{GCP_VARIABLES}\n{}{resources}",
        machines.region,
        boot(job)?,
    ))
}

const GCP_VARIABLES: &str = "\
variable \"project\" {
  type = string
}

variable \"zone\" {
  description = \"A zone of the region that has the machine type\"
  type        = string
}

variable \"image\" {
  description = \"Machine image with GPU driver, gpuplan and your program\"
  type        = string
}

variable \"folder\" {
  description = \"Folder of the image that the program starts in\"
  type        = string
}

variable \"subnet\" {
  type = string
}

variable \"bucket_account\" {
  description = \"Service account that may read and write the bucket of the run\"
  type        = string
}
";
