# What gpuplan needs in a Google Cloud project: a bucket for runs, a service account for machines, a network rule.
# Written by `gpuplan setup gcp --print`. Nothing here costs money until a run stores something.

terraform {
  required_version = ">= 1.6"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0"
    }
  }
}

variable "project" {
  type        = string
  description = "Project that the machines belong to."
}

variable "region" {
  type        = string
  description = "Region of the bucket."
}

variable "name" {
  type        = string
  default     = "gpuplan"
  description = "Beginning of every name."
}

variable "network" {
  type    = string
  default = "default"
}

variable "quotas" {
  type        = map(number)
  default     = {}
  description = "GPUs to ask for in the region, by quota id: { \"PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region\" = 8 }."
}

provider "google" {
  project = var.project
  region  = var.region
}

resource "google_project_service" "needed" {
  for_each           = toset(["compute.googleapis.com", "storage.googleapis.com", "cloudquotas.googleapis.com"])
  service            = each.key
  disable_on_destroy = false
}

resource "google_storage_bucket" "runs" {
  name                        = "${var.name}-runs-${var.project}-${var.region}"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  # A checkpoint that was cut off half-way is billed until somebody ends it.
  lifecycle_rule {
    condition { age = 1 }
    action { type = "AbortIncompleteMultipartUpload" }
  }
}

resource "google_service_account" "machine" {
  account_id   = "${var.name}-machine"
  display_name = "gpuplan machines"
}

resource "google_storage_bucket_iam_member" "machine" {
  bucket = google_storage_bucket.runs.name
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${google_service_account.machine.email}"
}

# A machine may end machines of gpuplan, itself first of all.
resource "google_project_iam_custom_role" "machine" {
  role_id     = "${replace(var.name, "-", "_")}_machine"
  title       = "gpuplan machine"
  permissions = ["compute.instances.get", "compute.instances.delete", "compute.zoneOperations.get"]
}

resource "google_project_iam_member" "machine" {
  project = var.project
  role    = google_project_iam_custom_role.machine.id
  member  = "serviceAccount:${google_service_account.machine.email}"
  condition {
    title      = "only-gpuplan"
    expression = "resource.name.extract('/instances/{name}').startsWith('${var.name}-')"
  }
}

# No way in but from each other, which all-reduce needs.
resource "google_compute_firewall" "machine" {
  name                    = "${var.name}-machine"
  network                 = var.network
  source_service_accounts = [google_service_account.machine.email]
  target_service_accounts = [google_service_account.machine.email]
  allow { protocol = "all" }
}

resource "google_cloud_quotas_quota_preference" "gpus" {
  for_each      = var.quotas
  parent        = "projects/${var.project}"
  service       = "compute.googleapis.com"
  quota_id      = each.key
  dimensions    = { region = var.region }
  contact_email = google_service_account.machine.email
  quota_config {
    preferred_value = each.value
  }
}

output "store" {
  value = "gs://${google_storage_bucket.runs.name}"
}

output "service_account" {
  value = google_service_account.machine.email
}
