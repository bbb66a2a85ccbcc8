# What gpuplan needs in a Google Cloud project: a bucket for runs, a service account for machines, a network of their own.
# Written by `gpuplan setup gcp --print`. Nothing here costs money until a run stores something; `nat` does while machines run.

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
  description = "Beginning of every name; a launch is told another one by GPUPLAN_GCP_NAME."
}

variable "regions" {
  type        = list(string)
  default     = []
  description = "Regions that machines may run in; none: that of the bucket. Later ones come last: the order gives addresses."
}

variable "nat" {
  type        = bool
  default     = false
  description = "Machines reach the internet too, not only Google's services."
}

variable "quotas" {
  type        = map(number)
  default     = {}
  description = "GPUs to ask for in the region, by quota id: { \"PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region\" = 8 }."
}

variable "keep_alive" {
  type        = bool
  default     = false
  description = "An account for machines of `--keep-alive group`. It may delete any managed instance group of the project."
}

variable "leader" {
  type        = bool
  default     = false
  description = "An account for machines of `launch --leader gcp`. It rents and ends machines, as whoever launches."
}

variable "undelete_days" {
  type        = number
  default     = 7
  description = "Days for which a deleted object can be brought back, 7 to 90, or 0 for none."
}

locals {
  regions = length(var.regions) > 0 ? var.regions : [var.region]
  # What agents write below runs/RUN. A condition has room for twelve operators, so there are two.
  written = {
    checkpoints = ["epochs/", "manifests/", "data/", "nodes/", "start/", "wanted/", "parts/", "leaving/"]
    words       = ["status/", "billed/", "logs/", "events/", "dataset.json", "sweep.json", "result.json"]
  }
  # The place stands right behind the name of the run, and not somewhere below it.
  is_written = { for name, places in local.written : name => join(" ", [
    "resource.name.extract('/runs/{run}/') != '' &&",
    "(${join(" || ", [for place in places : "resource.name.extract('/runs/{run}/${place}') == resource.name.extract('/runs/{run}/')"])})",
  ]) }
  accounts = concat(["machine"], var.keep_alive ? ["kept"] : [])
  emails   = { machine = google_service_account.machine.email, kept = one(google_service_account.kept[*].email) }
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
  # What was deleted or overwritten can be brought back for some days. It is billed meanwhile.
  soft_delete_policy { retention_duration_seconds = var.undelete_days * 86400 }
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

# A machine reads the bucket and writes what agents write below runs/RUN. It cannot change what other machines would run, agents, folders of jobs,
# data, specifications, or the script for a machine that waits, nor who leads a run, what it may cost and when it is to stop.
resource "google_project_iam_custom_role" "reads" {
  role_id = "${replace(var.name, "-", "_")}_reads"
  title   = "gpuplan machine reads runs"
  # An upload in parts makes no object without the permission below.
  permissions = [
    "storage.objects.get", "storage.objects.list", "storage.multipartUploads.create", "storage.multipartUploads.abort",
    "storage.multipartUploads.list", "storage.multipartUploads.listParts",
  ]
}

resource "google_project_iam_custom_role" "writes" {
  role_id     = "${replace(var.name, "-", "_")}_writes"
  title       = "gpuplan machine writes its part of runs"
  permissions = ["storage.objects.create", "storage.objects.delete"]
}

resource "google_storage_bucket_iam_member" "reads" {
  for_each = toset(local.accounts)
  bucket   = google_storage_bucket.runs.name
  role     = google_project_iam_custom_role.reads.id
  member   = "serviceAccount:${local.emails[each.key]}"
}

resource "google_storage_bucket_iam_member" "writes" {
  for_each = { for pair in setproduct(local.accounts, keys(local.written)) : join("-", pair) => pair }
  bucket   = google_storage_bucket.runs.name
  role     = google_project_iam_custom_role.writes.id
  member   = "serviceAccount:${local.emails[each.value[0]]}"
  condition {
    title      = "only-${each.value[1]}"
    expression = local.is_written[each.value[1]]
  }
}

# A machine may end machines of gpuplan, itself first of all; every run's machines are called so.
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
    expression = "resource.name.extract('/instances/{name}').startsWith('gpuplan-')"
  }
}

# A machine whose run is over ends the group that would start the next one. No condition of IAM can name a group, so no other machine may.
resource "google_service_account" "kept" {
  count        = var.keep_alive ? 1 : 0
  account_id   = "${var.name}-kept"
  display_name = "gpuplan machines that a group starts"
}

resource "google_project_iam_member" "kept" {
  count   = var.keep_alive ? 1 : 0
  project = var.project
  role    = google_project_iam_custom_role.machine.id
  member  = "serviceAccount:${google_service_account.kept[0].email}"
  condition {
    title      = "only-gpuplan"
    expression = "resource.name.extract('/instances/{name}').startsWith('gpuplan-')"
  }
}

resource "google_project_iam_custom_role" "kept" {
  count       = var.keep_alive ? 1 : 0
  role_id     = "${replace(var.name, "-", "_")}_kept"
  title       = "gpuplan machine of a group"
  permissions = ["compute.instanceGroupManagers.delete"]
}

resource "google_project_iam_member" "ends_group" {
  count   = var.keep_alive ? 1 : 0
  project = var.project
  role    = google_project_iam_custom_role.kept[0].id
  member  = "serviceAccount:${google_service_account.kept[0].email}"
}

# A machine that leads a run does what whoever launches may do, but starts no other leader: it may act as the account of machines alone. Only gpuplan
# itself runs there.
resource "google_service_account" "leader" {
  count        = var.leader ? 1 : 0
  account_id   = "${var.name}-leader"
  display_name = "gpuplan machines that lead a run"
}

resource "google_storage_bucket_iam_member" "leader" {
  count  = var.leader ? 1 : 0
  bucket = google_storage_bucket.runs.name
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${google_service_account.leader[0].email}"
}

resource "google_project_iam_custom_role" "leader" {
  count   = var.leader ? 1 : 0
  role_id = "${replace(var.name, "-", "_")}_leader"
  title   = "gpuplan machine that leads a run"
  permissions = [
    "compute.acceleratorTypes.list", "compute.disks.create", "compute.disks.setLabels", "compute.instances.create",
    "compute.instances.delete", "compute.instances.get", "compute.instances.list", "compute.instances.setLabels",
    "compute.instances.setMetadata", "compute.instances.setServiceAccount", "compute.machineTypes.list",
    "compute.resourcePolicies.create", "compute.resourcePolicies.delete", "compute.resourcePolicies.get",
    "compute.resourcePolicies.list", "compute.resourcePolicies.use", "compute.subnetworks.use", "compute.zoneOperations.get",
    "compute.zoneOperations.list",
  ]
}

resource "google_project_iam_member" "leader" {
  count   = var.leader ? 1 : 0
  project = var.project
  role    = google_project_iam_custom_role.leader[0].id
  member  = "serviceAccount:${google_service_account.leader[0].email}"
}

resource "google_service_account_iam_member" "leader_starts_machines" {
  count              = var.leader ? 1 : 0
  service_account_id = google_service_account.machine.name
  role               = "roles/iam.serviceAccountUser"
  member             = "serviceAccount:${google_service_account.leader[0].email}"
}

# Machines have no address of their own: they reach Google's services through their subnetwork, and nobody reaches them.
resource "google_compute_network" "machine" {
  name                    = var.name
  auto_create_subnetworks = false
  depends_on              = [google_project_service.needed]
}

resource "google_compute_subnetwork" "machine" {
  for_each                 = toset(local.regions)
  name                     = var.name
  region                   = each.key
  network                  = google_compute_network.machine.id
  ip_cidr_range            = cidrsubnet("10.64.0.0/10", 10, index(local.regions, each.key))
  private_ip_google_access = true
}

# `gpuplan ssh`, `exec`, `cp` and `forward` come in through Identity-Aware Proxy, whose addresses these are.
resource "google_compute_firewall" "proxy" {
  name                    = "${var.name}-proxy"
  network                 = google_compute_network.machine.id
  source_ranges           = ["35.235.240.0/20"]
  target_service_accounts = concat([google_service_account.machine.email], google_service_account.kept[*].email, google_service_account.leader[*].email)
  allow {
    protocol = "tcp"
    ports    = ["22"]
  }
}

# No other way in but from each other, which all-reduce needs.
resource "google_compute_firewall" "machine" {
  name                    = "${var.name}-machine"
  network                 = google_compute_network.machine.id
  source_service_accounts = [google_service_account.machine.email]
  target_service_accounts = [google_service_account.machine.email]
  allow { protocol = "all" }
}

resource "google_compute_router" "machine" {
  for_each = toset(var.nat ? local.regions : [])
  name     = var.name
  region   = each.key
  network  = google_compute_network.machine.id
}

resource "google_compute_router_nat" "machine" {
  for_each                           = google_compute_router.machine
  name                               = var.name
  router                             = each.value.name
  region                             = each.key
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
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
