//! The launcher of Google Cloud against machines that are processes here: what it asks for, what it makes of every refusal, and what
//! it finds again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gpuplan::clouds::gcp::account::permissions::GROUPS;
use gpuplan::clouds::gcp::account::project::Project;
use gpuplan::clouds::gcp::launcher::GcpLauncher;
use gpuplan::launch::block::{BlockOrder, BlockQuery};
use gpuplan::launch::{
    CreateRequest, KeepRequest, LaunchError, Launcher, Machine, MachineId, MachineState, Market, Pool,
};
use gpuplan::units::UsdPerHour;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::contracts::{keepers, launchers};
use gpuplan_testbed::gce_machines::{Fault, Machines, PROJECT, later};

pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub fn launcher(machines: &Machines) -> GcpLauncher {
    GcpLauncher::at(Project::at(machines.endpoint(), PROJECT), "ann@example.com".to_owned())
}

fn pool(zone: Option<&str>, instance_type: &str) -> Pool {
    launchers::pool("gcp", "us-central1", zone, instance_type)
}

fn request(token: &str) -> CreateRequest {
    launchers::request(&pool(Some("us-central1-a"), "g2-standard-4"), token, 3600)
}

struct Bed {
    machines: Machines,
    _folder: tempfile::TempDir,
}

fn bed() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    Bed { machines: Machines::start(folder.path(), 1.0), _folder: folder }
}

/// Until it holds; nothing here takes as long, on the busiest machine.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(3);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The body of the only insertion.
fn inserted(machines: &Machines) -> Value {
    let calls = machines.fake.calls();
    let mut inserts = calls.iter().filter(|call| call.method == "compute.instances.insert");
    let body = inserts.next().unwrap().body.clone();
    assert!(inserts.next().is_none());
    body
}

#[test]
fn gcp_one_call_says_everything_that_a_machine_is() {
    let bed = bed();
    let tags = [("team", "vision"), ("Cost Centre", "42")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let order = CreateRequest { run: "Llama_3.1".to_owned(), tags: tags.to_vec(), ..request("t") };
    let machine = run(launcher(&bed.machines).create(order.clone())).unwrap();
    assert_eq!((machine.run.as_str(), machine.state, &machine.pool), ("Llama_3.1", MachineState::Running, &order.pool));
    assert_eq!(machine.expires_at, order.expires_at);
    let body = inserted(&bed.machines);
    let scheduling = &body["scheduling"];
    let life: i64 = scheduling["maxRunDuration"]["seconds"].as_str().unwrap().parse().unwrap();
    assert!((3590..=3600).contains(&life), "{scheduling}");
    for (key, value) in [
        ("provisioningModel", json!("SPOT")),
        ("instanceTerminationAction", json!("DELETE")),
        ("onHostMaintenance", json!("TERMINATE")),
        ("automaticRestart", json!(false)),
    ] {
        assert_eq!(scheduling[key], value, "{key}");
    }
    for (name, value) in
        [("gpuplan_run", "llama_3-1"), ("gpuplan_epoch", "1"), ("gpuplan_node", "0"), ("team", "vision")]
    {
        assert_eq!(body["labels"][name], value, "{name}");
    }
    assert_eq!(body["labels"]["gpuplan_owner"], "ann-example-com");
    assert_eq!(body["labels"]["gpuplan_expires"], order.expires_at.as_second().to_string());
    assert_eq!(body["disks"][0]["initializeParams"]["labels"], body["labels"]);
    assert!(body["metadata"].to_string().contains("Cost Centre"));
    assert!(body["networkInterfaces"][0]["accessConfigs"].is_null(), "no address of its own");
    assert_eq!(body["serviceAccounts"][0]["email"], format!("gpuplan-machine@{PROJECT}.iam.gserviceaccount.com"));
    let setup: String = gpuplan::clouds::gcp::SETUP.split_whitespace().collect::<Vec<_>>().join(" ");
    for named in [
        r#"default = "gpuplan""#,
        r#"account_id = "${var.name}-machine""#,
        "for_each = toset(local.regions) name = var.name",
    ] {
        assert!(setup.contains(named), "a launch and `setup gcp` use the same names: {named}");
    }
}

#[test]
fn gcp_on_demand_is_standard_and_newer_series_take_hyperdisk() {
    let bed = bed();
    let mut order = request("t");
    (order.pool.instance_type, order.pool.market) = ("a3-ultragpu-8g".to_owned(), Market::OnDemand);
    run(launcher(&bed.machines).create(order)).unwrap();
    let body = inserted(&bed.machines);
    assert_eq!(body["scheduling"]["provisioningModel"], "STANDARD");
    let disk = &body["disks"][0]["initializeParams"];
    assert_eq!(
        (disk["diskType"].as_str(), disk["diskSizeGb"].as_str()),
        (Some("zones/us-central1-a/diskTypes/hyperdisk-balanced"), Some("100"))
    );
    let image = disk["sourceImage"].as_str().unwrap();
    assert!(image.starts_with("projects/deeplearning-platform-release/global/images/family/"), "{image}");
}

/// For a week at most, and never from a reservation; found again as what it is.
#[test]
fn gcp_flex_start_is_asked_for_as_google_sells_it() {
    let bed = bed();
    let order = |hours: i64| {
        let order = launchers::request(&pool(Some("us-central1-a"), "a3-highgpu-8g"), "t", hours * 3600);
        CreateRequest { pool: Pool { market: Market::FlexStart, ..order.pool.clone() }, ..order }
    };
    let refused = run(launcher(&bed.machines).create(order(8 * 24))).unwrap_err();
    assert!(refused.to_string().contains("168 hours at most"), "{refused}");
    let machine = run(launcher(&bed.machines).create(order(48))).unwrap();
    assert_eq!(machine.pool.market, Market::FlexStart);
    let body = inserted(&bed.machines);
    assert_eq!(body["scheduling"]["provisioningModel"], "FLEX_START");
    assert_eq!(body["reservationAffinity"]["consumeReservationType"], "NO_RESERVATION");
    let found = run(launcher(&bed.machines).list(None)).unwrap();
    assert_eq!(
        found.iter().map(|seen| (&seen.id, seen.pool.market)).collect::<Vec<_>>(),
        [(&machine.id, Market::FlexStart)]
    );
}

/// Booked once under a name of the run, found again by it, and machines stand on nothing else.
#[test]
fn gcp_a_reservation_for_a_date_is_booked_once_and_machines_stand_on_it() {
    let bed = bed();
    let (launcher, rate) = (launcher(&bed.machines), UsdPerHour::parse("90.216").unwrap());
    let seller = launcher.seller().unwrap();
    let wish = |machines| BlockQuery {
        region: "us-central1".to_owned(),
        instance_type: "a4-highgpu-8g".to_owned(),
        machines,
        hours: 48,
        rate_usd_per_hour: rate,
    };
    let offers = run(seller.offered(&wish(2))).unwrap();
    assert_eq!((offers.len(), offers[0].zone_id.as_str()), (1, "us-central1-a"));
    assert_eq!(offers[0].upfront_usd, rate.for_hours(2, 48.0).unwrap());
    assert_eq!(offers[0].ends_at.duration_since(offers[0].starts_at), SignedDuration::from_hours(48));
    assert!(run(seller.offered(&wish(81))).unwrap_err().to_string().contains("--max-nodes 80"));
    let order = |machines| BlockOrder {
        region: "us-central1".to_owned(),
        instance_type: "a4-highgpu-8g".to_owned(),
        machines,
        offer: offers[0].clone(),
        reservation: None,
    };
    assert_eq!(run(seller.bought("bed", "us-central1")).unwrap(), None);
    let name = run(seller.buy("bed", &order(2))).unwrap();
    // Whoever lost the answer asks again, or finds it by its name, and books no second one.
    assert_eq!(run(seller.buy("bed", &order(2))).unwrap(), name);
    assert_eq!(run(seller.bought("bed", "us-central1")).unwrap().as_ref(), Some(&name));
    assert_eq!(run(seller.bought("bed", "us-east4")).unwrap(), None);
    assert_eq!(run(seller.bought("other", "us-central1")).unwrap(), None);
    let refused = run(seller.buy("large", &order(5))).unwrap_err();
    assert!(matches!(&refused, LaunchError::Capacity { code } if code == "DECLINED"), "{refused}");
    let asked = launchers::request(&pool(Some("us-central1-a"), "a4-highgpu-8g"), "t", 3600);
    let asked = CreateRequest { pool: Pool { market: Market::CapacityBlock, ..asked.pool.clone() }, nodes: 2, ..asked };
    let error = run(launcher.create(asked.clone())).unwrap_err();
    assert!(matches!(error, LaunchError::Request { .. }), "nothing is rented beside the reservation: {error}");
    let machine = run(launcher.create(CreateRequest { reservation: Some(name.clone()), ..asked })).unwrap();
    let body = inserted(&bed.machines);
    assert_eq!(body["scheduling"]["provisioningModel"], "RESERVATION_BOUND");
    assert_eq!(body["reservationAffinity"]["values"], json!([name]));
    assert!(body["scheduling"]["maxRunDuration"].is_null() && body["resourcePolicies"].is_null(), "{body}");
    let found = run(launcher.list(None)).unwrap();
    assert_eq!(
        found.iter().map(|seen| (&seen.id, seen.pool.market)).collect::<Vec<_>>(),
        [(&machine.id, Market::CapacityBlock)]
    );
}

/// Google has no name for a machine with attached cards: what is offered under one is asked for as what it is, and found again as that.
#[test]
fn gcp_cards_are_attached_to_n1() {
    let bed = bed();
    let of = |zone: Option<&str>, instance_type: &str, token: &str| CreateRequest {
        pool: pool(zone, instance_type),
        ..request(token)
    };
    let somewhere = of(None, "n1-standard-8-t4x2", "t");
    let machine = run(launcher(&bed.machines).create(CreateRequest { nodes: 2, ..somewhere.clone() })).unwrap();
    assert_eq!(machine.pool, somewhere.pool);
    assert!(machine.id.0.starts_with("us-central1-a/"), "the zone that lists T4: {}", machine.id);
    let body = inserted(&bed.machines);
    assert_eq!(body["machineType"], "zones/us-central1-a/machineTypes/n1-standard-8");
    let cards = format!("projects/{PROJECT}/zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4");
    assert_eq!(body["guestAccelerators"], json!([{"acceleratorType": cards, "acceleratorCount": 2}]));
    assert!(bed.machines.policies().is_empty(), "N1 takes no placement policy");
    let listed = states(&launcher(&bed.machines), None);
    assert_eq!(listed[0].pool.instance_type, "n1-standard-8-t4x2");
    run(launcher(&bed.machines).destroy(&machine.id)).unwrap();
    // No image with a driver for cards before Turing is known.
    let refused =
        run(launcher(&bed.machines).create(of(Some("us-central1-a"), "n1-standard-8-v100x1", "u"))).unwrap_err();
    assert!(matches!(&refused, LaunchError::Request { detail, .. } if detail.contains("--image")), "{refused}");
    let own =
        CreateRequest { image: Some("large".to_owned()), ..of(Some("us-central1-a"), "n1-standard-8-v100x1", "v") };
    assert!(run(launcher(&bed.machines).create(own)).is_ok());

    let group = self::bed();
    let mut order = kept("k");
    order.machine.pool.instance_type = "n1-standard-8-t4x1".to_owned();
    let launcher = launcher(&group.machines);
    run(launcher.keeper().unwrap().keep(order)).unwrap();
    let calls = group.machines.fake.calls();
    let template = calls.iter().find(|call| call.method == "compute.regionInstanceTemplates.insert").unwrap();
    let properties = &template.body["properties"];
    assert_eq!(properties["machineType"], "n1-standard-8");
    assert_eq!(properties["guestAccelerators"][0]["acceleratorType"], "nvidia-tesla-t4", "its name alone");
    wait_for("the group starts no machine", || !group.machines.alive().is_empty());
}

#[test]
fn gcp_an_image_that_needs_more_gets_it_and_one_that_is_not_there_is_said() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    run(launcher.create(CreateRequest { image: Some("large".to_owned()), ..request("t") })).unwrap();
    assert_eq!(inserted(&bed.machines)["disks"][0]["initializeParams"]["diskSizeGb"], "300");
    let missing = run(launcher.create(CreateRequest { image: Some("none".to_owned()), ..request("u") })).unwrap_err();
    assert!(matches!(&missing, LaunchError::Request { detail, .. } if detail.contains("images/none")), "{missing}");
}

#[test]
fn gcp_what_cannot_be_asked_for_is_refused_before_it_is() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let refused = |order: CreateRequest| match run(launcher.create(order)).unwrap_err() {
        LaunchError::Request { detail, .. } => detail,
        other => panic!("{other}"),
    };
    let of = |instance_type: &str| CreateRequest { pool: pool(Some("us-central1-a"), instance_type), ..request("t") };
    assert!(refused(of("n1-standard-8")).contains("n1-standard-8"));
    assert!(refused(of("a4x-highgpu-4g")).contains("--image"), "Arm");
    let long = launchers::request(&pool(Some("us-central1-a"), "g2-standard-4"), "t", 121 * 24 * 3600);
    assert!(refused(long).contains("120 days"));
    assert!(bed.machines.inserted().is_empty());
    let nowhere = GcpLauncher::at(Project::at(bed.machines.endpoint(), ""), String::new());
    let error = run(nowhere.create(request("t"))).unwrap_err();
    assert!(
        matches!(&error, LaunchError::Credentials { detail, .. } if detail.contains("GOOGLE_CLOUD_PROJECT")),
        "{error}"
    );
}

/// HTTP 200, and an operation that failed.
#[test]
fn gcp_an_answer_is_no_machine_yet() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let missing =
        format!("The resource 'projects/{PROJECT}/zones/us-central1-a/machineTypes/g2-standard-4' was not found");
    for (code, message, expected) in [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "no resources", "no capacity (ZONE_RESOURCE_POOL_EXHAUSTED)"),
        (
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "no resources",
            "no capacity (ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS)",
        ),
        ("UNSUPPORTED_OPERATION", "Instance failed to start due to preemption.", "no capacity (UNSUPPORTED_OPERATION)"),
        (
            "QUOTA_EXCEEDED",
            "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.",
            "quota GPUS_ALL_REGIONS of the whole cloud is used up",
        ),
        ("RESOURCE_NOT_FOUND", missing.as_str(), "not sold there (RESOURCE_NOT_FOUND)"),
        (
            "SUBNET_NOT_FOUND",
            "",
            "SUBNET_NOT_FOUND: the region has no subnetwork for machines; `gpuplan setup gcp` creates it",
        ),
        ("VPC_NOT_FOUND", "", "VPC_NOT_FOUND: machines have no network; `gpuplan setup gcp` creates it"),
        ("PERMISSIONS_ERROR", "Required permission", "not allowed (PERMISSIONS_ERROR)"),
        ("INTERNAL_ERROR", "", "no clear answer (INTERNAL_ERROR)"),
        (
            "CONDITION_NOT_MET",
            "Constraint violated",
            "the request was refused (CONDITION_NOT_MET): Constraint violated",
        ),
        ("NEVER_SEEN", "who knows", "the request was refused (NEVER_SEEN): who knows"),
    ] {
        bed.machines.fails("us-central1-a", &[later(code, message)]);
        let error = run(launcher.create(request(code))).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{code}: {error}");
        let again = run(launcher.create(request(code))).unwrap_err();
        assert_eq!(error, again, "the same token is the same operation");
    }
    assert!(bed.machines.inserted().is_empty() && bed.machines.alive().is_empty());
}

#[test]
fn gcp_a_quota_comes_with_the_command_that_asks_for_more() {
    let bed = bed();
    let info = json!({"metricName": "compute.googleapis.com/preemptible_nvidia_l4_gpus", "limitName": "PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region",
        "limit": 1.0, "dimensions": {"region": "us-central1"}});
    let error = json!({"code": "QUOTA_EXCEEDED", "message": "Quota exceeded.", "errorDetails": [{"quotaInfo": info}]});
    bed.machines.fails("us-central1-a", &[Fault::Later(error)]);
    let mut order = CreateRequest { nodes: 2, ..request("t") };
    order.pool.instance_type = "g2-standard-48".to_owned();
    let LaunchError::Quota { code, request } = run(launcher(&bed.machines).create(order)).unwrap_err() else {
        panic!("no quota")
    };
    assert_eq!(code, "PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region");
    let wanted = format!(
        "--project={PROJECT} --service=compute.googleapis.com --quota-id={code} --preferred-value=9 --dimensions=region=us-central1"
    );
    assert!(
        request.starts_with("gcloud ") && request.ends_with(&wanted),
        "two machines of four beside the one that there is: {request}"
    );
}

#[test]
fn gcp_a_refusal_at_once_is_read_by_its_reason() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    for (status, reason, message, expected) in [
        (403, "quotaExceeded", "Quota 'NVIDIA_L4_GPUS' exceeded.", "quota NVIDIA_L4_GPUS is used up"),
        (
            403,
            "forbidden",
            "Required 'compute.instances.create' permission",
            "not allowed (forbidden): Required 'compute.instances.create'",
        ),
        (403, "rateLimitExceeded", "Rate Limit Exceeded", "no clear answer (rateLimitExceeded)"),
        (401, "authError", "Invalid Credentials", "not allowed (authError)"),
        (503, "backendError", "busy", "no clear answer (backendError)"),
        (500, "odd", "", "no clear answer (odd)"),
        (400, "resourceNotReady", "The resource is not ready", "no capacity (resourceNotReady)"),
        (400, "invalid", "Invalid value for field 'resource.x'", "the request was refused (invalid)"),
        (418, "teapot", "", "the request was refused (teapot)"),
    ] {
        bed.machines.fails("us-central1-a", &[Fault::Refused(status, reason, message)]);
        let error = run(launcher.create(request("t"))).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{reason}: {error}");
    }
    let asked = bed.machines.fake.calls().iter().filter(|call| call.method == "compute.instances.insert").count();
    assert_eq!(asked, 9, "the SDK asks once and leaves the rest to whoever leads the run");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = GcpLauncher::at(Project::at(&format!("http://{closed}"), PROJECT), String::new());
    let error = run(nobody.list(None)).unwrap_err();
    assert!(matches!(error, LaunchError::Unclear { .. }), "{error}");
}

#[test]
fn gcp_a_lost_answer_is_asked_for_again_and_is_one_machine() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    bed.machines.fails("us-central1-a", &[Fault::Lost]);
    let error = run(launcher.create(request("t"))).unwrap_err();
    assert!(matches!(error, LaunchError::Unclear { .. }), "{error}");
    let machine = run(launcher.create(request("t"))).unwrap();
    assert_eq!(bed.machines.alive(), [machine.id.0]);
    assert_eq!(bed.machines.inserted().len(), 1);
}

#[test]
fn gcp_an_operation_that_does_not_end_is_no_clear_answer() {
    let bed = bed();
    let launcher = launcher(&bed.machines).patient_for(Duration::from_millis(600));
    bed.machines.fails("us-central1-a", &[Fault::Endless]);
    let error = run(launcher.create(request("t"))).unwrap_err();
    assert!(matches!(&error, LaunchError::Unclear { code } if code.contains("still runs")), "{error}");
    let found = run(launcher.list(Some("contract"))).unwrap();
    assert_eq!((found.len(), found[0].token.as_str()), (1, "t"), "its token is on what it left");
}

#[test]
fn gcp_a_machine_that_is_gone_at_once_was_not_to_be_had() {
    let bed = bed();
    bed.machines.fails("us-central1-a", &[Fault::Vanishes]);
    let error = run(launcher(&bed.machines).create(request("t"))).unwrap_err();
    assert!(matches!(error, LaunchError::Capacity { .. }), "{error}");
}

#[test]
fn gcp_without_a_zone_each_one_of_the_region_is_asked_and_a_gang_stays_together() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let order = |token: &str, node: u32| CreateRequest {
        pool: pool(None, "g2-standard-4"),
        node,
        nodes: 2,
        name: format!("gpuplan-contract-e1-n{node}"),
        ..request(token)
    };
    let stockout = later("ZONE_RESOURCE_POOL_EXHAUSTED", "");
    bed.machines.fails("us-central1-a", std::slice::from_ref(&stockout));
    let first = run(launcher.create(order("t", 0))).unwrap();
    assert!(first.id.0.starts_with("us-central1-b/"), "{}", first.id);
    assert_eq!(first.pool, pool(None, "g2-standard-4"), "the place that was offered");
    let second = run(launcher.create(order("u", 1))).unwrap();
    assert!(second.id.0.starts_with("us-central1-b/"), "{}", second.id);
    let another_program = self::launcher(&bed.machines);
    let third = run(another_program.create(order("v", 2))).unwrap();
    assert!(third.id.0.starts_with("us-central1-b/"), "{}", third.id);
    bed.machines.fails("us-central1-a", std::slice::from_ref(&stockout));
    bed.machines.fails("us-central1-b", &[stockout]);
    let error = run(launcher.create(CreateRequest { epoch: 2, ..order("w", 0) })).unwrap_err();
    assert!(matches!(error, LaunchError::Capacity { .. }), "{error}");
    let elsewhere = Pool { region: "europe-west9".to_owned(), ..pool(None, "g2-standard-4") };
    let error = run(launcher.create(CreateRequest { epoch: 2, pool: elsewhere, ..order("x", 0) })).unwrap_err();
    assert!(matches!(error, LaunchError::NotSold { .. }), "{error}");
}

#[test]
fn gcp_a_gang_stands_close_and_leaves_no_policy() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let order = |token: &str, node: u32, nodes: u32| CreateRequest {
        node,
        nodes,
        name: format!("gpuplan-contract-e1-n{node}"),
        ..request(token)
    };
    let gang = [0, 1].map(|node| run(launcher.create(order(&format!("t{node}"), node, 2))).unwrap().id);
    let policies = bed.machines.policies();
    let [policy] = policies.as_slice() else { panic!("one policy: {policies:?}") };
    let path = format!("projects/{PROJECT}/regions/us-central1/resourcePolicies/{policy}");
    let alone = run(launcher.create(order("alone", 0, 1))).unwrap();
    let calls = bed.machines.fake.calls();
    let named: Vec<Value> = calls
        .iter()
        .filter(|call| call.method == "compute.instances.insert")
        .map(|call| call.body["resourcePolicies"].clone())
        .collect();
    assert_eq!(named, [json!([path]), json!([path]), Value::Null]);
    let made = calls.iter().filter(|call| call.method == "compute.resourcePolicies.insert").count();
    assert_eq!(made, 1, "each machine of the gang has the one of the first");
    run(launcher.destroy(&alone.id)).unwrap();
    run(launcher.destroy(&gang[0])).unwrap();
    states(&launcher, Some("contract"));
    assert_eq!(bed.machines.policies().len(), 1, "the other machine is still there");
    run(launcher.destroy(&gang[1])).unwrap();
    wait_for("the machines are not gone", || bed.machines.alive().is_empty());
    states(&launcher, Some("contract"));
    assert!(bed.machines.policies().is_empty(), "{:?}", bed.machines.policies());
}

#[test]
fn gcp_a_policy_of_a_process_that_died_goes_once_its_machines_are_past_their_time() {
    let bed = bed();
    let gang = |epoch: u64, token: &str, lives: i64| CreateRequest {
        nodes: 2,
        epoch,
        name: format!("gpuplan-contract-e{epoch}-n0"),
        ..launchers::request(&pool(Some("us-central1-a"), "g2-standard-4"), token, lives)
    };
    for order in [gang(1, "past", -60), gang(2, "still", 3600)] {
        let machine = run(launcher(&bed.machines).create(order)).unwrap();
        run(launcher(&bed.machines).destroy(&machine.id)).unwrap();
    }
    wait_for("the machines are not gone", || bed.machines.alive().is_empty());
    assert_eq!(bed.machines.policies().len(), 2);
    let another_program = launcher(&bed.machines);
    states(&another_program, Some("contract"));
    assert_eq!(bed.machines.policies().len(), 2, "whoever looks at one run leaves the others alone");
    states(&another_program, None);
    let left = bed.machines.policies();
    assert!(matches!(left.as_slice(), [one] if one.starts_with("gpuplan-contract-e2-")), "{left:?}");
}

#[test]
fn gcp_a_gang_of_an_account_that_may_make_no_policy_stands_anywhere_and_that_is_said() {
    let bed = bed();
    bed.machines.forbids_policies();
    let launcher = launcher(&bed.machines);
    run(launcher.create(CreateRequest { nodes: 2, ..request("t") })).unwrap();
    assert_eq!(inserted(&bed.machines)["resourcePolicies"], Value::Null);
    let said = launcher.warnings();
    assert!(matches!(said.as_slice(), [one] if one.contains("compute.resourcePolicies.create")), "{said:?}");
    assert!(launcher.warnings().is_empty());
}

fn kept(token: &str) -> KeepRequest {
    let machine = CreateRequest {
        run: "Kept_1".to_owned(),
        name: "gpuplan-kept-1-e1-n0".to_owned(),
        pool: pool(None, "g2-standard-4"),
        ..request(token)
    };
    let pools = ["us-central1-a", "us-central1-b"].map(|zone| pool(Some(zone), "g2-standard-4")).to_vec();
    KeepRequest { machine, pools }
}

#[test]
fn gcp_keeps_the_contract_of_a_keeper() {
    let everywhere = KeepRequest { pools: vec![pool(None, "g2-standard-4")], ..kept("everywhere") };
    // The next machine in one zone is called as the last one.
    let one_zone = KeepRequest { pools: vec![pool(Some("us-central1-b"), "g2-standard-4")], ..kept("one") };
    for order in [kept("two"), everywhere, one_zone] {
        let folder = tempfile::tempdir().unwrap();
        let machines = Machines::start(folder.path(), 20.0);
        let (here, another) = (launcher(&machines), launcher(&machines));
        let take = |id: &MachineId| {
            let place: Vec<&str> = id.0.split('/').take(2).collect();
            machines.preempt(&place.join("/"), Duration::ZERO);
        };
        let (started, soon) = (|| machines.inserted().len(), SignedDuration::from_secs(60));
        run(keepers::keep_the_contract([&here, &another], &order, take, started, soon));
        let (groups, templates) = machines.groups();
        assert_eq!((groups, templates), (1, 1), "what is past its time is listed until somebody ends it");
        let past = run(another.keeper().unwrap().groups(None)).unwrap();
        assert!(
            matches!(past.as_slice(), [group] if group.is_past(jiff::Timestamp::now() + SignedDuration::from_mins(2)))
        );
        run(another.keeper().unwrap().dissolve(&past[0])).unwrap();
        assert_eq!(machines.groups(), (0, 0));
    }
}

#[test]
fn gcp_a_group_says_everything_that_its_machines_are() {
    let bed = bed();
    let order = kept("t");
    let launcher = launcher(&bed.machines);
    let group = run(launcher.keeper().unwrap().keep(order.clone())).unwrap();
    let calls = bed.machines.fake.calls();
    let body = |method: &str| calls.iter().find(|call| call.method == method).unwrap().body.clone();
    let template = body("compute.regionInstanceTemplates.insert");
    let properties = &template["properties"];
    let ends: jiff::Timestamp = properties["scheduling"]["terminationTime"].as_str().unwrap().parse().unwrap();
    assert_eq!(ends, order.machine.expires_at, "one time for all, whenever each is started");
    assert_eq!(properties["scheduling"]["provisioningModel"], "SPOT");
    assert_eq!(properties["serviceAccounts"][0]["email"], format!("gpuplan-kept@{PROJECT}.iam.gserviceaccount.com"));
    assert_eq!(properties["networkInterfaces"][0]["accessConfigs"], Value::Null, "it has no address of its own");
    assert_eq!(properties["disks"][0]["autoDelete"], true);
    let made = body("compute.regionInstanceGroupManagers.insert");
    assert_eq!((&made["targetSize"], &made["distributionPolicy"]["targetShape"]), (&json!(1), &json!("ANY")));
    assert_eq!(made["instanceLifecyclePolicy"]["onRepair"]["allowChangingZone"], "YES");
    assert!(group.id.starts_with("us-central1/gpuplan-kept-1-"), "{}", group.id);
    let two = [Some("us-central1-a"), Some("us-central1-b")];
    let zones = made["distributionPolicy"]["zones"].as_array().unwrap().iter();
    assert!(zones.map(|zone| zone["zone"].as_str().unwrap().rsplit_once('/').map(|(_, zone)| zone)).eq(two));
}

#[test]
fn gcp_a_group_whose_answer_is_lost_is_one_group() {
    let bed = bed();
    let here = launcher(&bed.machines);
    // Once and the tries after it: whoever launches is told that nothing is known.
    bed.machines.loses_groups(3);
    let error = run(here.keeper().unwrap().keep(kept("t"))).unwrap_err();
    assert!(matches!(error, LaunchError::Unclear { .. }), "{error}");
    bed.machines.loses_groups(1);
    let another = launcher(&bed.machines);
    let group = run(another.keeper().unwrap().keep(kept("t"))).unwrap();
    assert_eq!(run(another.keeper().unwrap().groups(Some("Kept_1"))).unwrap(), [group]);
    wait_for("a machine", || !bed.machines.alive().is_empty());
    assert_eq!((bed.machines.groups(), bed.machines.alive().len()), ((1, 1), 1));
}

#[test]
fn gcp_a_group_that_cannot_be_made_says_why() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let keeper = launcher.keeper().unwrap();
    let nowhere = KeepRequest {
        machine: CreateRequest { pool: pool(None, "a3-ultragpu-8g"), ..kept("n").machine },
        pools: vec![pool(None, "a3-ultragpu-8g")],
    };
    let error = run(keeper.keep(nowhere)).unwrap_err();
    assert!(matches!(error, LaunchError::NotSold { .. }), "{error}");
    run(keeper.keep(kept("t"))).unwrap();
    bed.machines.is_silent("us-central1", true);
    let error = run(keeper.groups(None)).unwrap_err();
    assert!(matches!(&error, LaunchError::Unclear { code } if code.contains("us-central1")), "{error}");
    bed.machines.keeps_nothing();
    let error = run(keeper.keep(kept("u"))).unwrap_err();
    let LaunchError::NotSetUp { missing, command, .. } = &error else { panic!("{error}") };
    assert!(missing.contains("gpuplan-kept@") && command == "TF_VAR_keep_alive=true gpuplan setup gcp", "{error}");
    assert_eq!(bed.machines.groups(), (1, 1), "nothing is made that could not be ended");
}

fn states(launcher: &dyn Launcher, run_name: Option<&str>) -> Vec<Machine> {
    run(launcher.list(run_name)).unwrap()
}

#[test]
fn gcp_every_page_is_read_and_runs_with_alike_labels_are_told_apart() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    for (index, name) in ["a.b", "a.b", "a.b", "A-B", "other"].into_iter().enumerate() {
        run(launcher.create(CreateRequest { run: name.to_owned(), ..request(&format!("t{index}")) })).unwrap();
    }
    let another_program = self::launcher(&bed.machines);
    assert_eq!(
        [Some("a.b"), Some("A-B"), Some("other"), Some("none"), None].map(|name| states(&another_program, name).len()),
        [3, 1, 1, 0, 5]
    );
}

#[test]
fn gcp_a_zone_that_does_not_answer_is_no_empty_list() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    run(launcher.create(request("t"))).unwrap();
    bed.machines.is_silent("us-central1-a", true);
    for name in [None, Some("contract")] {
        let error = run(launcher.list(name)).unwrap_err();
        assert!(matches!(&error, LaunchError::Unclear { code } if code.contains("us-central1-a")), "{error}");
    }
    bed.machines.is_silent("us-central1-a", false);
    assert_eq!(states(&launcher, None).len(), 1);
}

#[test]
fn gcp_a_preempted_machine_is_ending_and_then_taken() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let machine = run(launcher.create(request("t"))).unwrap();
    bed.machines.preempt(&machine.id.0, Duration::from_hours(1));
    assert_eq!(states(&launcher, None)[0].state, MachineState::Ending, "it still costs money");
    bed.machines.preempt(&machine.id.0, Duration::ZERO);
    wait_for("the machine is not gone", || bed.machines.alive().is_empty());
    let gone = states(&launcher, Some("contract"));
    assert_eq!((gone.len(), gone[0].state, gone[0].was_taken), (1, MachineState::Gone, true), "{gone:?}");
    assert_eq!(gone[0].reason.as_deref(), Some("compute.instances.preempted"));
    assert!(states(&self::launcher(&bed.machines), None).is_empty(), "a program that never saw it has no need to");
    assert_eq!(run(launcher.destroy(&machine.id)), Ok(()));
}

#[test]
fn gcp_a_machine_that_somebody_deleted_is_gone_and_was_not_taken() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let machine = run(launcher.create(request("t"))).unwrap();
    run(self::launcher(&bed.machines).destroy(&machine.id)).unwrap();
    let gone = states(&launcher, Some("contract"));
    assert_eq!((gone.len(), gone[0].state, gone[0].was_taken), (1, MachineState::Gone, false), "{gone:?}");
    assert_eq!(gone[0].reason.as_deref(), Some("delete"));
}

#[test]
fn gcp_a_stopped_machine_still_pays_for_its_disk_and_is_deleted() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let boot = "#!/bin/sh\nsleep 60 &\nsetsid sleep 60 &\nwait\n".to_owned();
    let machine = run(launcher.create(CreateRequest { boot: boot.clone(), ..request("t") })).unwrap();
    bed.machines.stops(&machine.id.0);
    let listed = states(&launcher, None);
    assert_eq!(listed[0].state, MachineState::Ending);
    assert!(listed[0].reason.as_deref().is_some_and(|reason| reason.contains("disk")), "{listed:?}");
    let other = run(launcher.create(CreateRequest { boot, ..request("u") })).unwrap();
    wait_for("the processes did not begin", || bed.machines.processes(&other.id.0).len() >= 3);
    for machine in [&machine, &other] {
        run(launcher.destroy(&machine.id)).unwrap();
        run(launcher.destroy(&machine.id)).unwrap();
        assert!(bed.machines.processes(&machine.id.0).is_empty(), "its whole tree is gone");
    }
    assert!(bed.machines.alive().is_empty());
    assert!(states(&launcher, None).iter().all(|machine| machine.state == MachineState::Gone));
    run(launcher.destroy(&MachineId("us-central1-a/gpuplan-never-was".to_owned()))).unwrap();
}

/// Permissions of each method, as its reference names them; those of the insertion by what its body says.
const NEEDED: &[(&str, &[&str])] = &[
    (
        "compute.instances.insert",
        &[
            "compute.instances.create",
            "compute.instances.setLabels",
            "compute.instances.setMetadata",
            "compute.instances.setServiceAccount",
            "compute.disks.create",
            "compute.disks.setLabels",
            "compute.subnetworks.use",
            "compute.resourcePolicies.use",
            "iam.serviceAccounts.actAs",
        ],
    ),
    ("compute.instances.get", &["compute.instances.get"]),
    ("compute.instances.delete", &["compute.instances.delete"]),
    ("compute.instances.aggregatedList", &["compute.instances.list"]),
    ("compute.machineTypes.aggregatedList", &["compute.machineTypes.list"]),
    ("compute.acceleratorTypes.aggregatedList", &["compute.acceleratorTypes.list"]),
    ("compute.zoneOperations.wait", &["compute.zoneOperations.get"]),
    ("compute.zoneOperations.list", &["compute.zoneOperations.list"]),
    ("compute.resourcePolicies.insert", &["compute.resourcePolicies.create"]),
    ("compute.resourcePolicies.get", &["compute.resourcePolicies.get"]),
    ("compute.resourcePolicies.delete", &["compute.resourcePolicies.delete"]),
    ("compute.resourcePolicies.aggregatedList", &["compute.resourcePolicies.list"]),
    ("compute.regionInstanceTemplates.insert", &["compute.instanceTemplates.create"]),
    ("compute.regionInstanceTemplates.delete", &["compute.instanceTemplates.delete"]),
    ("compute.instanceTemplates.aggregatedList", &["compute.instanceTemplates.list"]),
    (
        "compute.regionInstanceGroupManagers.insert",
        &["compute.instanceGroupManagers.create", "compute.instanceTemplates.useReadOnly"],
    ),
    ("compute.regionInstanceGroupManagers.delete", &["compute.instanceGroupManagers.delete"]),
    ("compute.instanceGroupManagers.aggregatedList", &["compute.instanceGroupManagers.list"]),
    ("compute.regionOperations.get", &["compute.regionOperations.get"]),
    // Everybody may ask what they may.
    (
        "POST /v1/projects/some-project/serviceAccounts/gpuplan-kept@some-project.iam.gserviceaccount.com:testIamPermissions",
        &[],
    ),
    // Google's own images are for everybody.
    ("compute.images.getFromFamily", &[]),
];

#[test]
fn gcp_the_permissions_of_the_documentation_are_those_of_the_calls() {
    let bed = bed();
    let launcher = launcher(&bed.machines);
    let order = CreateRequest { pool: pool(None, "g2-standard-4"), ..request("t") };
    let machine = run(launcher.create(order)).unwrap();
    bed.machines.preempt(&machine.id.0, Duration::ZERO);
    wait_for("the machine is not gone", || bed.machines.alive().is_empty());
    states(&launcher, None);
    let other = run(launcher.create(CreateRequest { nodes: 2, ..request("u") })).unwrap();
    run(launcher.destroy(&other.id)).unwrap();
    wait_for("the machine is not gone", || bed.machines.alive().is_empty());
    states(&launcher, None);
    let keeper = launcher.keeper().unwrap();
    let group = run(keeper.keep(kept("k"))).unwrap();
    assert_eq!(run(keeper.groups(None)).unwrap(), std::slice::from_ref(&group));
    run(keeper.dissolve(&group)).unwrap();
    let called: BTreeSet<String> = bed.machines.fake.calls().into_iter().map(|call| call.method).collect();
    let known: BTreeSet<String> = NEEDED.iter().map(|(method, _)| (*method).to_owned()).collect();
    assert_eq!(called, known, "every method that a launch calls, and no other");
    let needed: BTreeSet<&str> = NEEDED.iter().flat_map(|(_, permissions)| *permissions).copied().collect();
    let page = include_str!("../../docs/launch.md");
    let section = page.split("\n## ").find(|section| section.starts_with("On Google Cloud")).unwrap();
    let list = section.split("```").find(|block| block.starts_with("permissions\n")).unwrap();
    let documented: BTreeSet<&str> = list.split_whitespace().filter(|word| word.contains('.')).collect();
    assert_eq!(documented, needed);
    let asked: Vec<String> = GROUPS.iter().map(|group| group.question().to_string()).collect();
    // Asked of the accounts themselves (`gcp_the_account_says_who_it_is_what_it_may_and_how_much`).
    for permission in needed.iter().filter(|permission| **permission != "iam.serviceAccounts.actAs") {
        assert!(
            asked.iter().any(|group| group.contains(&format!("\"{permission}\""))),
            "`gpuplan doctor` does not ask for {permission}"
        );
    }
}

/// What leads a run on Google Cloud may do what a launch needs, but for groups; and it acts as machines that work, and as nobody else.
#[test]
fn gcp_a_leader_may_what_a_launch_needs_and_no_more() {
    let all: BTreeSet<&str> = NEEDED.iter().flat_map(|(_, permissions)| *permissions).copied().collect();
    let of_groups = ["compute.instanceTemplates.", "compute.instanceGroupManagers.", "compute.regionOperations."];
    let needed = all.into_iter().filter(|one| !of_groups.iter().any(|start| one.starts_with(start)));
    let needed: BTreeSet<&str> = needed.filter(|one| *one != "iam.serviceAccounts.actAs").collect();
    let resource = |name: &str| {
        let (_, rest) = gpuplan::clouds::gcp::SETUP.split_once(&format!("resource \"{name}\"")).unwrap();
        rest.split_once("\n}\n").unwrap().0
    };
    let role = resource("google_project_iam_custom_role\" \"leader");
    let granted: BTreeSet<&str> = role.split('"').filter(|word| word.starts_with("compute.")).collect();
    assert_eq!(granted, needed);
    let acts_as = resource("google_service_account_iam_member\" \"leader_starts_machines");
    assert!(
        acts_as.contains("google_service_account.machine.name") && acts_as.contains("roles/iam.serviceAccountUser")
    );
    assert_eq!(gpuplan::clouds::gcp::SETUP.matches("roles/iam.serviceAccountUser").count(), 1);
}

/// `gpuplan ssh` comes in through Identity-Aware Proxy, whose addresses Google names (cloud.google.com/iap/docs/using-tcp-forwarding).
#[test]
fn gcp_the_setup_lets_the_proxy_in_and_nobody_else() {
    let rules: Vec<&str> = gpuplan::clouds::gcp::SETUP
        .split("resource \"")
        .filter(|resource| resource.starts_with("google_compute_firewall\""))
        .collect();
    let from_outside: Vec<&&str> = rules.iter().filter(|rule| rule.contains("source_ranges")).collect();
    assert_eq!((rules.len(), from_outside.len()), (2, 1));
    let proxy = from_outside[0];
    assert!(
        proxy.contains("source_ranges           = [\"35.235.240.0/20\"]") && proxy.contains("ports    = [\"22\"]"),
        "{proxy}"
    );
}
