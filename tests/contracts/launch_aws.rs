//! The launcher of AWS on a cloud in a box: its contract, every refusal, a lost answer, gangs, and what it leaves behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpuplan::clouds::aws::account::AwsAccount;
use gpuplan::clouds::aws::account::session::Session;
use gpuplan::clouds::aws::launcher::AwsLauncher;
use gpuplan::launch::block::{BlockOrder, BlockQuery};
use gpuplan::launch::{
    Access, CreateRequest, Group, KeepRequest, LaunchError, Launcher, Machine, MachineId, MachineState, Market, Pool,
    Role,
};
use gpuplan::market::AccountSource;
use gpuplan::market::bucket::{Loss, Writers};
use gpuplan::units::UsdPerHour;
use jiff::{SignedDuration, Timestamp};

use crate::contracts::aws::patient;
use gpuplan_testbed::answers;
use gpuplan_testbed::cloud_box::{CloudBox, IMAGE, KEYS};
use gpuplan_testbed::proxy::{Call, Fault, Rule};

fn launcher(endpoint: &str) -> AwsLauncher {
    AwsLauncher::new(Session::at(endpoint, KEYS[0], KEYS[1], patient()))
}

pub fn pool(zone: Option<&str>, market: Market) -> Pool {
    Pool {
        cloud: "aws".to_owned(),
        region: "us-east-1".to_owned(),
        zone_id: zone.map(str::to_owned),
        instance_type: "g5.xlarge".to_owned(),
        market,
    }
}

fn request(token: &str, pool: Pool) -> CreateRequest {
    CreateRequest {
        run: "bed".to_owned(),
        epoch: 1,
        node: 0,
        nodes: 1,
        pool,
        token: token.to_owned(),
        name: "gpuplan-bed-e1-n0".to_owned(),
        expires_at: Timestamp::now() + SignedDuration::from_hours(1),
        boot: "#!/bin/sh\nsleep 600\n".to_owned(),
        image: None,
        disk_gib: 100,
        tags: vec![("team".to_owned(), "vision".to_owned())],
        most: None,
        zones: Vec::new(),
        reservation: None,
        role: Role::Work,
        access: Access::default(),
    }
}

fn spot() -> Pool {
    pool(Some("use1-az1"), Market::Spot)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn until(launcher: &AwsLauncher, id: &MachineId, is_so: impl Fn(&Machine) -> bool) -> Machine {
    let begun = Instant::now();
    loop {
        let listed = launcher.list(Some("bed")).await.unwrap();
        if let Some(machine) = listed.into_iter().find(|machine| machine.id == *id).filter(|machine| is_so(machine)) {
            return machine;
        }
        assert!(begun.elapsed() < Duration::from_mins(10), "{id} does not come to be so");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// `refuse-STATUS-CODE-...` as a token is refused so.
fn refused_code(call: &Call) -> Option<(u16, String)> {
    let token = call.parameter("ClientToken")?;
    let mut words = token.strip_prefix("refuse-")?.splitn(3, '-');
    Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
}

/// On one box, since it takes seconds to start.
#[test]
fn aws_launcher_in_a_box() {
    let lost_fleet = AtomicUsize::new(0);
    let (lost, denies) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let denies_next_end = denies.clone();
    let has_no_role = Arc::new(AtomicBool::new(false));
    let refuses = has_no_role.clone();
    let rules = vec![
        Rule::on("RunInstances", Fault::Lost).when(move |call| {
            call.parameter("ClientToken").as_deref() == Some("lost") && lost.fetch_add(1, Ordering::SeqCst) == 0
        }),
        Rule::on("RunInstances", Fault::Refuse(403, "UnauthorizedOperation", "You are not authorized.")).when(|call| {
            let kinds = (1..=3).filter_map(|number| call.parameter(&format!("TagSpecification.{number}.ResourceType")));
            call.parameter("ClientToken").as_deref() == Some("disks") && kinds.into_iter().any(|kind| kind == "volume")
        }),
        Rule::answer("RunInstances", |call| {
            let (status, code) = refused_code(call).unwrap();
            // Some refusals repeat the whole signed request.
            call.refusal(status, &code, &format!("no, {} of {}", KEYS[1], KEYS[0]))
        })
        .when(|call| refused_code(call).is_some()),
        Rule::on(
            "TerminateInstances",
            Fault::Refuse(400, "InvalidInstanceID.NotFound", "The instance ID does not exist"),
        )
        .when(move |_| denies.swap(false, Ordering::SeqCst)),
        Rule::on(
            "CreateSchedule",
            Fault::Refuse(
                400,
                "ValidationException",
                "The execution role you provide must allow AWS EventBridge Scheduler to assume the role.",
            ),
        )
        .when(move |_| refuses.swap(false, Ordering::SeqCst)),
        Rule::on("CreateFleet", Fault::Lost).when(move |call| {
            call.parameter("ClientToken").as_deref() == Some("lost-fleet")
                && lost_fleet.fetch_add(1, Ordering::SeqCst) == 0
        }),
        Rule::answer("CreateFleet", |call| {
            let item =
                |code: &str| format!("<item><errorCode>{code}</errorCode><errorMessage>no</errorMessage></item>");
            let full = [item("InsufficientInstanceCapacity"), item("UnfulfillableCapacity")].concat();
            let is_full = call.parameter("ClientToken").as_deref() == Some("full-fleet");
            let errors = if is_full {
                item("InsufficientInstanceCapacity")
            } else {
                full + &item("MaxSpotInstanceCountExceeded")
            };
            call.reply(answers::ec2(
                "CreateFleet",
                &format!("<fleetId>fleet-none</fleetId><errorSet>{errors}</errorSet>"),
            ))
        })
        .when(|call| ["full-fleet", "quota-fleet"].map(Some).contains(&call.parameter("ClientToken").as_deref())),
        Rule::on("DescribeSpotPriceHistory", Fault::Refuse(403, "UnauthorizedOperation", "You are not authorized."))
            .when(|call| call.body.contains("p4d.24xlarge")),
        Rule::on("DescribeInstances", Fault::Refuse(503, "RequestLimitExceeded", "Request limit exceeded."))
            .region("us-west-2")
            .when(|call| call.body.contains("busy-there")),
    ];
    let rules = rules
        .into_iter()
        .chain(blocks())
        .chain(answers::quotas(vec![("L-3819A6DF", "All G and VT Spot Instance Requests", 8.0)]))
        .collect();
    let Some(cloud) = CloudBox::start("aws_launcher_in_a_box", rules) else { return };
    let launcher = launcher(&cloud.endpoint);
    run(async {
        crate::contracts::launchers::keep_the_contract(&launcher, &spot()).await;
        a_machine_is_what_was_ordered(&cloud, &launcher).await;
        a_machine_without_a_schedule_is_said(&launcher, &has_no_role).await;
        a_spot_machine_has_a_highest_price(&cloud, &launcher).await;
        a_block_is_bought_once_and_machines_stand_on_it(&cloud, &launcher).await;
        a_lost_answer_leaves_one_machine(&cloud, &launcher).await;
        a_token_means_one_request(&cloud).await;
        disks_without_tags_are_better_than_no_machine(&launcher).await;
        a_machine_that_is_not_known_yet_is_not_over(&cloud, &launcher, &denies_next_end).await;
        who_ended_a_machine_is_listed(&cloud, &launcher).await;
        another_process_ends_what_it_did_not_start(&cloud, &launcher).await;
        a_gang_stands_close_and_leaves_no_group(&cloud, &launcher).await;
        a_fleet_keeps_one_machine_until_it_is_ended(&cloud, &launcher).await;
        any_zone_is_left_to_the_cloud(&launcher).await;
        prices_of_the_moment_are_told(&launcher).await;
        spot_of_any_zone_is_one_call_for_all_of_them(&cloud, &launcher).await;
        every_refusal_says_what_comes_next(&launcher).await;
        thirty_refusals_are_thirty_calls(&cloud, &launcher).await;
        a_region_that_does_not_answer_hides_nothing(&launcher).await;
        what_a_bucket_does_to_checkpoints_is_read(&cloud).await;
        a_run_has_a_role_of_its_own_where_the_account_allows_it(&cloud).await;
    });
    assert!(cloud.world.up().is_empty(), "{:?}", cloud.world.up());
    the_policy_allows_what_was_done_and_no_more(&cloud);
}

async fn a_machine_is_what_was_ordered(cloud: &CloudBox, launcher: &AwsLauncher) {
    let machine = launcher.create(request("plain", spot())).await.unwrap();
    let listed = until(launcher, &machine.id, |machine| machine.state == MachineState::Running).await;
    assert_eq!((&listed.pool, &listed.token, listed.epoch), (&spot(), &"plain".to_owned(), 1));
    assert_eq!(listed.expires_at, machine.expires_at);
    let seen = cloud.world.up().into_iter().find(|seen| seen.id == machine.id.0).unwrap();
    assert_eq!((seen.zone_id.as_str(), seen.market), ("use1-az1", Market::Spot));
    let asked = cloud.calls().into_iter().rfind(|call| call.action == "RunInstances").unwrap();
    for (parameter, expected) in [
        ("ImageId", IMAGE),
        ("IamInstanceProfile.Name", "gpuplan-machine"),
        ("MetadataOptions.HttpTokens", "required"),
        ("BlockDeviceMapping.1.Ebs.Encrypted", "true"),
        ("InstanceInitiatedShutdownBehavior", "terminate"),
        ("MaxCount", "1"),
    ] {
        assert_eq!(asked.parameter(parameter).as_deref(), Some(expected), "{parameter}");
    }
    assert!(
        asked.body.contains("Value=vision") && asked.body.contains("arn%3Aaws%3A"),
        "the user's tag, and the owner: {}",
        asked.body
    );
    assert!(asked.parameter("InstanceMarketOptions.SpotOptions.MaxPrice").is_none(), "nobody said a price");
    let schedule = || cloud.schedule(&format!("gpuplan-{}", machine.id));
    let (expires, scheduled) = (machine.expires_at, schedule().expect("its end is scheduled"));
    let at = (expires + SignedDuration::from_mins(5)).strftime("at(%Y-%m-%dT%H:%M:%S)").to_string();
    assert!(scheduled.contains(&at) && scheduled.contains(&machine.id.0), "{at}: {scheduled}");
    assert!(scheduled.contains(":role/gpuplan-end") && scheduled.contains("ec2:terminateInstances"), "{scheduled}");
    // The next run that has the machine ends earlier. Moved twice it stands there; and where there is none it is made.
    let earlier = expires - SignedDuration::from_mins(30);
    let moved = (earlier + SignedDuration::from_mins(5)).strftime("at(%Y-%m-%dT%H:%M:%S)").to_string();
    for _ in 0..2 {
        assert!(launcher.ends_by(&machine, earlier).await, "{:?}", launcher.warnings());
        let scheduled = schedule().expect("it is still scheduled");
        assert!(scheduled.contains(&moved) && !scheduled.contains(&at), "{moved}: {scheduled}");
        assert!(scheduled.contains(&machine.id.0) && scheduled.contains(":role/gpuplan-end"), "{scheduled}");
    }
    cloud.unschedule(&format!("gpuplan-{}", machine.id));
    assert!(launcher.ends_by(&machine, earlier).await && schedule().is_some_and(|made| made.contains(&moved)));
    launcher.destroy(&machine.id).await.unwrap();
    assert_eq!(schedule(), None, "who ended the machine deletes it");
    assert_eq!(launcher.warnings(), Vec::<String>::new());
    let gone = until(launcher, &machine.id, |machine| machine.state == MachineState::Gone).await;
    assert!(!gone.was_taken && gone.reason.as_deref() == Some("Client.UserInitiatedShutdown"), "{gone:?}");
}

/// A setup from before there were schedules has no role for them: the machine is there all the same, and that is said once.
async fn a_machine_without_a_schedule_is_said(launcher: &AwsLauncher, refuses: &AtomicBool) {
    refuses.store(true, Ordering::SeqCst);
    let machine = launcher.create(request("unscheduled", spot())).await.unwrap();
    let said = launcher.warnings();
    assert!(
        matches!(said.as_slice(), [one] if one.contains(&machine.id.0) && one.contains("gpuplan setup aws")),
        "{said:?}"
    );
    assert!(launcher.warnings().is_empty());
    launcher.destroy(&machine.id).await.unwrap();
    // The same machine once more, as after a lost answer, keeps the schedule that it has.
    let one = launcher.create(request("scheduled-twice", spot())).await.unwrap();
    let two = launcher.create(request("scheduled-twice", spot())).await.unwrap();
    assert_eq!((&one.id, launcher.warnings()), (&two.id, Vec::new()));
    launcher.destroy(&one.id).await.unwrap();
}

/// What may be paid at most goes with every spot machine, and with no other.
async fn a_spot_machine_has_a_highest_price(cloud: &CloudBox, launcher: &AwsLauncher) {
    let bids =
        |token: &str, pool: Pool| CreateRequest { most: UsdPerHour::parse("0.4404").ok(), ..request(token, pool) };
    for (token, market, most) in [("bid", Market::Spot, Some("0.4404")), ("firm", Market::OnDemand, None)] {
        let machine = launcher.create(bids(token, Pool { market, ..spot() })).await.unwrap();
        let asked = cloud.calls().into_iter().rfind(|call| call.action == "RunInstances").unwrap();
        assert_eq!(asked.parameter("InstanceMarketOptions.SpotOptions.MaxPrice").as_deref(), most, "{token}");
        launcher.destroy(&machine.id).await.unwrap();
    }
    let anywhere = || pool(None, Market::Spot);
    let zones = ["use1-az1", "use1-az4"].map(str::to_owned).to_vec();
    let machine = launcher.create(CreateRequest { zones, ..bids("bid-anywhere", anywhere()) }).await.unwrap();
    let asked = cloud.calls().into_iter().rfind(|call| call.action == "CreateFleet").unwrap();
    let place =
        |number: usize, what: &str| asked.parameter(&format!("LaunchTemplateConfigs.1.Overrides.{number}.{what}"));
    assert_eq!([1, 2].map(|number| place(number, "MaxPrice")), [Some("0.4404".to_owned()), Some("0.4404".to_owned())]);
    assert_eq!(place(3, "SubnetId"), None, "no zone whose price nobody knows: {}", asked.body);
    assert_ne!(place(1, "SubnetId"), place(2, "SubnetId"));
    launcher.destroy(&machine.id).await.unwrap();
    let unknown = CreateRequest { zones: vec!["use1-az99".to_owned()], ..bids("bid-nowhere", anywhere()) };
    let error = launcher.create(unknown).await.unwrap_err();
    assert!(matches!(&error, LaunchError::NotSold { .. }), "{error}");
}

/// What was bought, and what EC2 says of it. moto has none of it.
fn blocks() -> Vec<Rule> {
    let sold = answers::capacity_blocks(vec![
        ("g5.xlarge", "us-east-1b", 30, "900.10"),
        ("g5.xlarge", "us-east-1a", 10, "480"),
    ]);
    let bought: Arc<std::sync::Mutex<Option<Call>>> = Arc::default();
    let seen = bought.clone();
    vec![
        sold,
        Rule::answer("PurchaseCapacityBlock", move |call| {
            *bought.lock().unwrap() = Some(call.clone());
            let reservation =
                "<capacityReservation><capacityReservationId>cr-1</capacityReservationId></capacityReservation>";
            call.reply(answers::ec2("PurchaseCapacityBlock", reservation))
        }),
        Rule::answer("DescribeCapacityReservations", move |call| {
            let purchase = seen.lock().unwrap();
            let is_marked = |purchase: &&Call| {
                purchase.body.contains(&format!("Value={}", call.parameter("Filter.1.Value.1").unwrap()))
            };
            let item = "<item><capacityReservationId>cr-1</capacityReservationId><state>scheduled</state></item>";
            let found = purchase.as_ref().filter(is_marked).map_or("", |_| item);
            call.reply(answers::ec2(
                "DescribeCapacityReservations",
                &format!("<capacityReservationSet>{found}</capacityReservationSet>"),
            ))
        }),
    ]
}

async fn a_block_is_bought_once_and_machines_stand_on_it(cloud: &CloudBox, launcher: &AwsLauncher) {
    let seller = launcher.seller().unwrap();
    let (region, instance_type) = ("us-east-1".to_owned(), "g5.xlarge".to_owned());
    let rate_usd_per_hour = UsdPerHour::parse("10").unwrap();
    let wish = BlockQuery { region, instance_type, machines: 2, hours: 24, rate_usd_per_hour };
    let offers = seller.offered(&wish).await.unwrap();
    let asked = cloud.calls().into_iter().rfind(|call| call.action == "DescribeCapacityBlockOfferings").unwrap();
    assert_eq!(["InstanceCount", "CapacityDurationHours"].map(|name| asked.parameter(name).unwrap()), ["2", "24"]);
    let fees: Vec<String> = offers.iter().map(|offer| offer.upfront_usd.to_string()).collect();
    assert_eq!(
        (fees, offers[0].zone_id.as_str()),
        (vec!["480.00".to_owned(), "900.10".to_owned()], "use1-az6"),
        "the earliest first"
    );
    assert_eq!(offers[0].ends_at.duration_since(offers[0].starts_at), SignedDuration::from_hours(24));
    assert_eq!(seller.bought("bed", "us-east-1").await.unwrap(), None);
    let BlockQuery { region, instance_type, machines, .. } = wish;
    let order = BlockOrder { region, instance_type, machines, offer: offers[0].clone(), reservation: None };
    assert_eq!(seller.buy("bed", &order).await.unwrap(), "cr-1");
    let paid: Vec<Call> = cloud.calls().into_iter().filter(|call| call.action == "PurchaseCapacityBlock").collect();
    assert_eq!((paid.len(), paid[0].parameter("CapacityBlockOfferingId").as_deref()), (1, Some("cb-10")));
    assert!(
        paid[0].body.contains("gpuplan%3Arun") && paid[0].body.contains("capacity-reservation"),
        "{}",
        paid[0].body
    );
    // Whoever lost the answer finds it by its mark, and buys no second one.
    assert_eq!(seller.bought("bed", "us-east-1").await.unwrap().as_deref(), Some("cr-1"));
    assert_eq!(seller.bought("other", "us-east-1").await.unwrap(), None);
    let in_block = pool(Some("use1-az1"), Market::CapacityBlock);
    let error = launcher.create(request("no-block", in_block.clone())).await.unwrap_err();
    assert!(matches!(error, LaunchError::Request { .. }), "nothing is rented beside the block: {error}");
    let machine = CreateRequest { reservation: Some("cr-1".to_owned()), ..request("in-block", in_block) };
    let machine = launcher.create(machine).await.unwrap();
    let asked = cloud.calls().into_iter().rfind(|call| call.action == "RunInstances").unwrap();
    assert_eq!(asked.parameter("InstanceMarketOptions.MarketType").as_deref(), Some("capacity-block"));
    let target = asked.parameter("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId");
    assert_eq!(target.as_deref(), Some("cr-1"));
    launcher.destroy(&machine.id).await.unwrap();
}

async fn a_lost_answer_leaves_one_machine(cloud: &CloudBox, launcher: &AwsLauncher) {
    let calls = || cloud.calls().iter().filter(|call| call.action == "RunInstances").count();
    let before = calls();
    let error = launcher.create(request("lost", spot())).await.unwrap_err();
    assert!(matches!(error, LaunchError::Unclear { .. }), "{error}");
    assert_eq!(calls() - before, 1, "nobody repeats it but the one who asked");
    // As the controller does, later, when the life that is left is another one.
    let machine = launcher.create(request("lost", spot())).await.unwrap();
    assert_eq!(cloud.world.up().len(), 1, "{:?}", cloud.world.up());
    launcher.destroy(&machine.id).await.unwrap();
}

async fn a_token_means_one_request(cloud: &CloudBox) {
    // Two processes, so that the second does not remember the first.
    let (first, second) = (launcher(&cloud.endpoint), launcher(&cloud.endpoint));
    let machine = first.create(request("twice", spot())).await.unwrap();
    let other = CreateRequest { disk_gib: 500, ..request("twice", spot()) };
    let error = second.create(other).await.unwrap_err();
    assert!(matches!(&error, LaunchError::Request { code, .. } if code == "IdempotentParameterMismatch"), "{error}");
    first.destroy(&machine.id).await.unwrap();
}

async fn disks_without_tags_are_better_than_no_machine(launcher: &AwsLauncher) {
    let machine = launcher.create(request("disks", spot())).await.unwrap();
    assert_eq!(machine.run, "bed");
    launcher.destroy(&machine.id).await.unwrap();
}

async fn a_machine_that_is_not_known_yet_is_not_over(
    cloud: &CloudBox,
    launcher: &AwsLauncher,
    denies_next_end: &AtomicBool,
) {
    let machine = launcher.create(request("young", spot())).await.unwrap();
    denies_next_end.store(true, Ordering::SeqCst);
    let error = launcher.destroy(&machine.id).await.unwrap_err();
    assert!(matches!(&error, LaunchError::Unclear { code } if code == "InvalidInstanceID.NotFound"), "{error}");
    assert_eq!(cloud.world.up().len(), 1);
    launcher.destroy(&machine.id).await.unwrap();
}

async fn who_ended_a_machine_is_listed(cloud: &CloudBox, launcher: &AwsLauncher) {
    let taken = launcher.create(request("taken", spot())).await.unwrap();
    cloud.world.take(&taken.id.0, Duration::ZERO);
    let taken = until(launcher, &taken.id, |machine| machine.state == MachineState::Gone).await;
    assert!(taken.was_taken && taken.reason.as_deref() == Some("Server.SpotInstanceTermination"), "{taken:?}");
    let boot = "#!/bin/sh\nshutdown -P now\nsleep 600\n".to_owned();
    let over = launcher.create(CreateRequest { boot, ..request("over", spot()) }).await.unwrap();
    let over = until(launcher, &over.id, |machine| machine.state == MachineState::Gone).await;
    assert!(!over.was_taken && over.reason.as_deref() == Some("Client.InstanceInitiatedShutdown"), "{over:?}");
}

async fn another_process_ends_what_it_did_not_start(cloud: &CloudBox, first: &AwsLauncher) {
    let there = Pool { region: "us-west-2".to_owned(), zone_id: Some("usw2-az1".to_owned()), ..spot() };
    let machine = first.create(request("elsewhere", there)).await.unwrap();
    let second = launcher(&cloud.endpoint);
    second.destroy(&machine.id).await.unwrap();
    assert!(cloud.world.up().is_empty());
}

async fn a_gang_stands_close_and_leaves_no_group(cloud: &CloudBox, launcher: &AwsLauncher) {
    let member = |node: u32| CreateRequest {
        node,
        nodes: 2,
        name: format!("gpuplan-bed-e9-n{node}"),
        epoch: 9,
        ..request(
            &format!("gang-{node}"),
            Pool { instance_type: "p4d.24xlarge".to_owned(), ..pool(None, Market::OnDemand) },
        )
    };
    let (one, two) = (launcher.create(member(0)).await.unwrap(), launcher.create(member(1)).await.unwrap());
    let up = cloud.world.up();
    assert!(up.len() == 2 && up[0].zone_id == up[1].zone_id, "one zone, whichever: {up:?}");
    assert!(up.iter().all(|seen| seen.group.as_deref() == Some("gpuplan-bed-e9")), "{up:?}");
    let asked = cloud.calls().into_iter().rfind(|call| call.action == "RunInstances").unwrap();
    let kind = |number: usize| asked.parameter(&format!("NetworkInterface.{number}.InterfaceType"));
    let kinds: Vec<String> = (1..).map_while(kind).collect();
    assert_eq!(kinds, ["efa", "efa-only", "efa-only", "efa-only"], "a p4d has four cards");
    launcher.destroy(&one.id).await.unwrap();
    launcher.list(Some("bed")).await.unwrap();
    assert_eq!(cloud.world.groups(), 1, "one machine still stands in it");
    launcher.destroy(&two.id).await.unwrap();
    launcher.list(Some("bed")).await.unwrap();
    assert_eq!(cloud.world.groups(), 0);
    // A group of a process that died is swept once its time is over.
    let past = CreateRequest { expires_at: Timestamp::now() - SignedDuration::from_secs(5), ..member(0) };
    let left = CreateRequest { token: "gang-left".to_owned(), ..past };
    let machine = launcher.create(left).await.unwrap();
    let another = crate::contracts::launch_aws::launcher(&cloud.endpoint);
    another.destroy(&machine.id).await.unwrap();
    another.list(Some("bed")).await.unwrap();
    assert_eq!(cloud.world.groups(), 1);
    another.list(None).await.unwrap();
    assert_eq!(cloud.world.groups(), 0);
}

/// Waits until the cloud is so, by itself.
async fn comes<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_mins(10), "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn a_fleet_keeps_one_machine_until_it_is_ended(cloud: &CloudBox, launcher: &AwsLauncher) {
    let keeper = launcher.keeper().unwrap();
    let machine = CreateRequest {
        run: "kept".to_owned(),
        name: "gpuplan-kept-e1-n0".to_owned(),
        ..request("fleet", pool(None, Market::Spot))
    };
    let pools = ["use1-az1", "use1-az2"].map(|zone| pool(Some(zone), Market::Spot)).to_vec();
    let order = KeepRequest { machine, pools };
    let other = crate::contracts::launch_aws::launcher(&cloud.endpoint);
    let suite = CreateRequest { run: "suite".to_owned(), token: "suite".to_owned(), ..order.machine.clone() };
    let suite = KeepRequest { machine: suite, ..order.clone() };
    let take = |id: &MachineId| cloud.world.take(&id.0, Duration::ZERO);
    let (started, soon) = (|| cloud.world.fleets.started(), SignedDuration::from_secs(3));
    crate::contracts::keepers::keep_the_contract([launcher, &other], &suite, take, started, soon).await;
    launcher.list(None).await.unwrap();
    assert_eq!((cloud.world.fleets.active(), cloud.world.fleets.templates()), (0, 0), "nothing of it is left");
    let group = keeper.keep(order.clone()).await.unwrap();
    assert_eq!(keeper.keep(order.clone()).await.unwrap(), group, "the same token is the same group");
    assert_eq!(
        (group.run.as_str(), group.region.as_str(), group.expires_at),
        ("kept", "us-east-1", order.machine.expires_at)
    );
    let first = comes("a machine", || cloud.world.up().into_iter().next()).await;
    assert!(["use1-az1", "use1-az2"].contains(&first.zone_id.as_str()) && first.market == Market::Spot, "{first:?}");
    let listed = launcher.list(Some("kept")).await.unwrap();
    assert_eq!(
        (listed.len(), listed[0].pool.zone_id.as_deref()),
        (1, Some(first.zone_id.as_str())),
        "its machines bear the marks of the run"
    );
    assert_eq!(listed[0].expires_at.as_second(), order.machine.expires_at.as_second());
    cloud.world.take(&first.id, Duration::ZERO);
    let second = comes("the next machine", || cloud.world.up().into_iter().next()).await;
    assert_ne!(second.zone_id, first.zone_id, "nobody asked for it");
    // Another process, which made nothing.
    let another = crate::contracts::launch_aws::launcher(&cloud.endpoint);
    let another = another.keeper().unwrap();
    assert!(another.groups(Some("bed")).await.unwrap().is_empty());
    let found = another.groups(None).await.unwrap();
    assert_eq!(found.iter().map(|group| (&group.id, &group.owner)).collect::<Vec<_>>(), [(&group.id, &group.owner)]);
    another.dissolve(&found[0]).await.unwrap();
    assert!(cloud.world.up().is_empty() && keeper.groups(Some("kept")).await.unwrap().is_empty());
    another.dissolve(&found[0]).await.unwrap();
    let unknown = Group { id: "fleet-unknown".to_owned(), ..group };
    another.dissolve(&unknown).await.unwrap();
    assert_eq!((cloud.world.fleets.active(), cloud.world.fleets.templates()), (0, 0), "nothing of it is left");
    // EC2 ends a fleet whose time is over, and a template that was left is swept.
    let end = Timestamp::from_second(Timestamp::now().as_second() + 3).unwrap();
    let soon = CreateRequest { token: "fleet-2".to_owned(), expires_at: end, ..order.machine };
    keeper.keep(KeepRequest { machine: soon, pools: order.pools }).await.unwrap();
    comes("its machine", || cloud.world.up().into_iter().next()).await;
    comes("its end", || (cloud.world.fleets.active() == 0 && cloud.world.up().is_empty()).then_some(())).await;
    launcher.list(None).await.unwrap();
    assert_eq!(cloud.world.fleets.templates(), 0);
}

async fn prices_of_the_moment_are_told(launcher: &AwsLauncher) {
    let unknown = Pool { instance_type: "g99.xlarge".to_owned(), ..spot() };
    let prices = launcher.spot_prices(&[(spot(), vec![]), (unknown, vec![])]).await.unwrap();
    assert!(prices[0].is_some_and(|price| price > UsdPerHour::default()) && prices[1].is_none(), "{prices:?}");
    let denied = [(Pool { instance_type: "p4d.24xlarge".to_owned(), ..spot() }, vec![])];
    for said in [1, 0] {
        let refused = launcher.spot_prices(&denied).await.unwrap_err();
        assert!(matches!(&refused, LaunchError::Credentials { .. }), "{refused}");
        let warnings = launcher.warnings();
        assert!(warnings.len() == said && warnings.iter().all(|it| it.contains("gpuplan setup aws")), "{warnings:?}");
    }
}

async fn any_zone_is_left_to_the_cloud(launcher: &AwsLauncher) {
    let machine = launcher.create(request("any", pool(None, Market::OnDemand))).await.unwrap();
    let listed = until(launcher, &machine.id, |_| true).await;
    assert_eq!(listed.pool, pool(None, Market::OnDemand), "the pool is the one that was ordered");
    launcher.destroy(&machine.id).await.unwrap();
    let nowhere = Pool { zone_id: Some("use1-az99".to_owned()), ..spot() };
    let error = launcher.create(request("nowhere", nowhere)).await.unwrap_err();
    assert!(matches!(&error, LaunchError::NotSold { code } if code.contains("use1-az99")), "{error}");
    let closed = Pool { region: "ap-south-2".to_owned(), zone_id: None, ..spot() };
    let error = launcher.create(request("closed", closed)).await.unwrap_err();
    assert!(matches!(&error, LaunchError::NotSold { code } if code.contains("not enabled")), "{error}");
    let unknown = Pool { instance_type: "g99.xlarge".to_owned(), ..spot() };
    let error = launcher.create(request("unknown", unknown)).await.unwrap_err();
    assert!(matches!(&error, LaunchError::NotSold { code } if code.contains("does not know g99.xlarge")), "{error}");
    let image = CreateRequest { image: Some("ami-nowhere".to_owned()), ..request("image", spot()) };
    let error = launcher.create(image).await.unwrap_err();
    assert!(matches!(&error, LaunchError::Request { code, .. } if code == "InvalidAMIID.NotFound"), "{error}");
}

async fn spot_of_any_zone_is_one_call_for_all_of_them(cloud: &CloudBox, launcher: &AwsLauncher) {
    let anywhere = || pool(None, Market::Spot);
    let error = launcher.create(request("lost-fleet", anywhere())).await.unwrap_err();
    assert!(matches!(error, LaunchError::Unclear { .. }), "{error}");
    // As the controller does, later, with links that were made anew.
    let again = CreateRequest { boot: "#!/bin/sh\nsleep 500\n".to_owned(), ..request("lost-fleet", anywhere()) };
    let machine = launcher.create(again).await.unwrap();
    let up = cloud.world.up();
    assert!(up.len() == 1 && up[0].id == machine.id.0 && up[0].market == Market::Spot, "{up:?}");
    let listed = until(launcher, &machine.id, |_| true).await;
    assert_eq!((&listed.pool, listed.token.as_str()), (&anywhere(), "lost-fleet"), "the order is recognised");
    assert!(launcher.keeper().unwrap().groups(None).await.unwrap().is_empty(), "it starts no other machine");
    launcher.destroy(&machine.id).await.unwrap();
    assert!(cloud.world.up().is_empty() && cloud.world.fleets.templates() == 0);
    for (token, code) in
        [("full-fleet", "no capacity (InsufficientInstanceCapacity)"), ("quota-fleet", "quota L-3819A6DF of 8 vCPUs")]
    {
        let error = launcher.create(request(token, anywhere())).await.unwrap_err();
        assert!(error.to_string().starts_with(code), "{error}");
    }
}

async fn every_refusal_says_what_comes_next(launcher: &AwsLauncher) {
    let refused = async |status: u16, code: &str| {
        let error = launcher.create(request(&format!("refuse-{status}-{code}"), spot())).await.unwrap_err();
        assert!(KEYS.iter().all(|key| !format!("{error:?} {error}").contains(key)), "{error:?}");
        error
    };
    for (status, code) in [
        (500, "InsufficientInstanceCapacity"),
        (500, "InsufficientHostCapacity"),
        (500, "InsufficientReservedInstanceCapacity"),
        (400, "UnfulfillableCapacity"),
        (400, "SpotMaxPriceTooLow"),
    ] {
        assert_eq!(refused(status, code).await, LaunchError::Capacity { code: code.to_owned() });
    }
    assert!(matches!(refused(400, "Unsupported").await, LaunchError::NotSold { .. }));
    for code in ["MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded"] {
        let LaunchError::Quota { code: said, request } = refused(400, code).await else { panic!("{code} is a quota") };
        assert_eq!(said, format!("L-3819A6DF of 8 vCPUs in us-east-1 ({code})"));
        assert!(request.ends_with("--quota-code L-3819A6DF --desired-value 4 --region us-east-1"), "{request}");
    }
    for (status, code) in [
        (403, "UnauthorizedOperation"),
        (401, "AuthFailure"),
        (400, "ExpiredToken"),
        (403, "OptInRequired"),
        (400, "PendingVerification"),
        (403, "Blocked"),
    ] {
        assert!(matches!(refused(status, code).await, LaunchError::Credentials { .. }), "{code}");
    }
    for code in ["InvalidSubnetID.NotFound", "InvalidGroup.NotFound"] {
        assert!(matches!(refused(400, code).await, LaunchError::NotSetUp { .. }), "{code}");
    }
    for code in ["InvalidAMIID.NotFound", "InvalidParameterValue", "SomethingNew"] {
        assert!(matches!(refused(400, code).await, LaunchError::Request { .. }), "{code}");
    }
    for code in
        ["RequestLimitExceeded", "ServerInternal", "ServiceUnavailable", "InternalError", "Unavailable", "Throttling"]
    {
        assert_eq!(refused(503, code).await, LaunchError::Unclear { code: code.to_owned() });
    }
}

/// Moving on costs one call a place: what a region is like is known after the first.
async fn thirty_refusals_are_thirty_calls(cloud: &CloudBox, launcher: &AwsLauncher) {
    let before = cloud.calls().len();
    for number in 0..30 {
        let zone = ["use1-az1", "use1-az2", "use1-az4"][number % 3];
        let token = format!("refuse-500-InsufficientInstanceCapacity-{number}");
        launcher.create(request(&token, pool(Some(zone), Market::Spot))).await.unwrap_err();
    }
    assert_eq!(cloud.calls().len() - before, 30);
}

async fn a_region_that_does_not_answer_hides_nothing(launcher: &AwsLauncher) {
    let error = launcher.list(Some("busy-there")).await.unwrap_err();
    assert_eq!(error, LaunchError::Unclear { code: "RequestLimitExceeded".to_owned() });
}

/// Of the setup with `role_per_run`. Without its policy, machines have the role of the setup.
async fn a_run_has_a_role_of_its_own_where_the_account_allows_it(cloud: &CloudBox) {
    let bucket = "gpuplan-runs-123456789012-us-east-1";
    let access = Access {
        run: "bed".to_owned(),
        store: format!("s3://{bucket}/team"),
        secrets: vec!["gpuplan/hf-token".to_owned()],
        runs_within: None,
        is_shared: false,
    };
    let order = |token: &str, pool: Pool| CreateRequest { access: access.clone(), ..request(token, pool) };
    let account = AwsAccount::new(Session::at(&format!("http://{}", cloud.store()), KEYS[0], KEYS[1], patient()));
    cloud.make_bucket(bucket);
    let rents = async |launcher: &AwsLauncher, token: &str| {
        let machine = launcher.create(order(token, spot())).await.unwrap();
        let asked = cloud.calls().into_iter().rfind(|call| call.action == "RunInstances").unwrap();
        launcher.destroy(&machine.id).await.unwrap();
        asked.parameter("IamInstanceProfile.Name").unwrap()
    };
    let shares = launcher(&cloud.endpoint);
    assert_eq!(rents(&shares, "shared-role").await, "gpuplan-machine");
    shares.forget(&access).await.unwrap();
    assert_eq!(shares.warnings(), Vec::<String>::new(), "it is as it was set up");
    assert!(matches!(account.bucket(bucket, "team/runs/").await.unwrap().writers, Writers::OfAnyRun { .. }));
    let document =
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}"#;
    let made = cloud.iam("CreatePolicy", &format!("&PolicyName=gpuplan-run&PolicyDocument={document}"));
    assert!(made.contains("policy/gpuplan-run"), "{made}");
    assert_eq!(account.bucket(bucket, "team/runs/").await.unwrap().writers, Writers::OfTheRun);

    let one = launcher(&cloud.endpoint);
    let profile = rents(&one, "own-role-1").await;
    assert!(profile.starts_with("bed-") && profile.len() == "bed-".len() + 12, "{profile}");
    assert_eq!(rents(&one, "own-role-2").await, profile);
    assert_eq!(rents(&launcher(&cloud.endpoint), "own-role-3").await, profile, "whoever leads it next finds it");
    let of = |action: &str| cloud.calls().into_iter().filter(|call| call.action == action).collect::<Vec<_>>();
    let made = of("CreateRole");
    let [create] = made.as_slice() else { panic!("made once: {made:?}") };
    for (parameter, expected) in [
        ("Path", "/gpuplan/"),
        ("PermissionsBoundary", "arn:aws:iam::123456789012:policy/gpuplan-run"),
        ("Tags.member.1.Value", "bed"),
        ("Tags.member.2.Key", "gpuplan-prefix"),
        ("Tags.member.2.Value", "team/runs/bed"),
        ("Tags.member.3.Value", "hf-token"),
    ] {
        assert_eq!(create.parameter(parameter).as_deref(), Some(expected), "{parameter}");
    }
    let role = cloud.iam("GetRole", &format!("&RoleName={profile}"));
    assert!(role.contains("ec2.amazonaws.com") && role.contains("<PermissionsBoundaryArn>"), "{role}");
    let attached = cloud.iam("ListAttachedRolePolicies", &format!("&RoleName={profile}"));
    assert!(attached.contains("policy/gpuplan-run<") && attached.matches("<PolicyArn>").count() == 1, "{attached}");
    let elsewhere = Access { store: "s3://runs/team".to_owned(), ..access.clone() };
    let machine = one.create(CreateRequest { access: elsewhere, ..request("not-ours", spot()) }).await.unwrap();
    one.destroy(&machine.id).await.unwrap();
    assert_eq!(of("CreateRole").len(), 1, "the policy has no words for another bucket");
    let kept = one.create(order("own-role-anywhere", pool(None, Market::Spot))).await.unwrap();
    one.destroy(&kept.id).await.unwrap();
    let template = of("CreateLaunchTemplate").pop().unwrap();
    assert_eq!(template.parameter("LaunchTemplateData.IamInstanceProfile.Name").as_deref(), Some(profile.as_str()));

    for _ in 0..2 {
        one.forget(&access).await.unwrap();
        assert!(cloud.iam("GetRole", &format!("&RoleName={profile}")).contains("NoSuchEntity"));
        let gone = cloud.iam("GetInstanceProfile", &format!("&InstanceProfileName={profile}"));
        assert!(gone.contains("NoSuchEntity"), "{gone}");
    }
    assert_eq!(rents(&one, "own-role-again").await, profile, "a run that begins again");
    one.forget(&access).await.unwrap();
    assert_eq!(one.warnings(), Vec::<String>::new());
}

/// Signed as S3 wants it, and in the words of S3.
async fn what_a_bucket_does_to_checkpoints_is_read(cloud: &CloudBox) {
    cloud.make_bucket("ruled");
    let account = AwsAccount::new(Session::at(&format!("http://{}", cloud.store()), KEYS[0], KEYS[1], patient()));
    let rules = account.bucket("ruled", "team/runs/").await.unwrap();
    assert!(rules.losses.is_empty() && rules.can_undelete == Some(false), "{rules:?}");
    let rule = |id: &str, prefix: &str, days: u32| {
        format!(
            "<Rule><ID>{id}</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>Enabled</Status><Expiration><Days>{days}</Days></Expiration></Rule>"
        )
    };
    let all = rule("thirty", "team/", 30) + &rule("scratch", "tmp/", 1);
    cloud.put("/ruled?lifecycle", &format!("<LifecycleConfiguration>{all}</LifecycleConfiguration>"));
    cloud.put("/ruled?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
    let rules = account.bucket("ruled", "team/runs/").await.unwrap();
    let losses: Vec<_> = rules.losses.iter().map(|loss| (loss.rule.as_str(), loss.loss, loss.after_days)).collect();
    assert_eq!((losses.as_slice(), rules.can_undelete), ([("thirty", Loss::Deleted, Some(30))].as_slice(), Some(true)));
    assert!(account.bucket("nowhere", "runs/").await.is_err());
}

/// A program on a machine may delete and overwrite what agents write: it can be brought back, and nobody whom the setup lets in can prevent that.
#[test]
fn aws_the_bucket_of_a_setup_keeps_what_was_deleted() {
    let setup = gpuplan::clouds::aws::SETUP;
    let versions = setup.split_once("resource \"aws_s3_bucket_versioning\" \"runs\"").unwrap().1;
    let versions = versions.split_once("\n}\n").unwrap().0;
    assert!(versions.contains("aws_s3_bucket.runs.id") && versions.contains("status = \"Enabled\""), "{versions}");
    assert!(!setup.contains("DeleteObjectVersion") && !setup.contains("PutBucketVersioning"));
}

/// The policies of `setup.tf`, which `docs/launch.md` repeats, against every call that this test saw.
fn the_policy_allows_what_was_done_and_no_more(cloud: &CloudBox) {
    let policy = ["launch", "run_roles"].map(|name| {
        let resource = format!("resource \"aws_iam_policy\" \"{name}\"");
        gpuplan::clouds::aws::SETUP.split_once(&resource).unwrap().1.split_once("\n}\n").unwrap().0
    });
    let policy = policy.concat();
    let is_action = |text: &&str| {
        text.split_once(':').is_some_and(|(service, action)| {
            service.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
                && action.starts_with(|c: char| c.is_ascii_uppercase())
                && action.chars().all(char::is_alphanumeric)
        })
    };
    // What stands in a condition is no action.
    let actions = policy.lines().filter(|line| !line.contains("Condition")).flat_map(|line| line.split('"'));
    let allowed: BTreeSet<&str> = actions.filter(is_action).collect();
    let calls = cloud.calls();
    let done: BTreeSet<String> = calls.iter().map(|call| format!("{}:{}", call.service, call.action)).collect();
    // Everybody may ask who they are.
    let missing: Vec<&String> =
        done.iter().filter(|action| *action != "sts:GetCallerIdentity" && !allowed.contains(action.as_str())).collect();
    assert!(missing.is_empty(), "the policy does not allow {missing:?}");
    // Needed by calls of another name, or once in the life of an account, or by the store and by `gpuplan ssh`.
    let unseen = [
        "ec2:CreateTags",
        "iam:PassRole",
        "iam:TagRole",
        "iam:CreateServiceLinkedRole",
        "servicequotas:ListServiceQuotas",
    ];
    let elsewhere = ["s3:", "ssm:", "ssmmessages:"];
    let is_idle = |action: &&&str| {
        !done.contains(**action)
            && !unseen.contains(*action)
            && !elsewhere.iter().any(|service| action.starts_with(service))
    };
    let idle: Vec<&&str> = allowed.iter().filter(is_idle).collect();
    assert!(idle.is_empty(), "the policy allows what no launch does: {idle:?}");
    let page = include_str!("../../docs/launch.md");
    let unsaid: Vec<&&str> = allowed.iter().filter(|action| !page.contains(**action)).collect();
    assert!(unsaid.is_empty(), "docs/launch.md does not name {unsaid:?}");
}
