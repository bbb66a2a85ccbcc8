//! The contract of each port, held against every implementation. No test leaves the loopback address or reads the environment.

#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "aws")]
mod clocks;
mod engines;
#[cfg(feature = "gcp")]
mod gcp;
#[cfg(feature = "aws")]
mod launch_aws;
#[cfg(feature = "gcp")]
mod launch_google;
#[cfg(feature = "aws")]
mod machines;
mod public;

mod prices {
    use std::collections::BTreeMap;

    use gpuplan::clouds::ask;
    use gpuplan::hardware::{CloudId, Hardware};
    use gpuplan::market::{OfferQuery, Origin, PriceSource};
    use gpuplan::units::UsdPerHour;
    use jiff::Timestamp;

    /// What the doc comment of `PriceSource` promises and an answer can show. `secrets` may stand nowhere in it.
    pub fn keep_the_contract(
        source: &dyn PriceSource,
        hardware: &Hardware,
        types: &[&str],
        regions: &[&str],
        secrets: &[&str],
    ) {
        let instances: Vec<_> = types
            .iter()
            .map(|name| hardware.find_instance(&CloudId::new(source.about().cloud), name).unwrap())
            .collect();
        let wanted: BTreeMap<_, _> = regions.iter().map(|region| ((*region).into(), instances.clone())).collect();
        let query = OfferQuery::for_instances(hardware, wanted);
        let answers = ask(&[(source, query.clone()), (source, query)]).unwrap();
        let rates = answers.iter().map(|answer| {
            let answer = answer.as_ref().unwrap();
            assert!(
                !answer.offers.is_empty() && !answer.notes.is_empty(),
                "this server sells something and refuses something"
            );
            for offer in &answer.offers {
                assert_eq!(offer.quote.origin, Origin::Live);
                assert!(offer.quote.observed_at <= Timestamp::now());
                assert!(offer.quote.rate > UsdPerHour::default());
                assert!(instances.contains(&offer.instance) && regions.contains(&&*offer.place.region));
            }
            let said = format!("{answer:?}");
            assert!(secrets.iter().all(|secret| !said.contains(secret)), "{said}");
            answer
                .offers
                .iter()
                .map(|offer| (offer.instance, offer.place.clone(), offer.quote.rate))
                .collect::<Vec<_>>()
        });
        let rates: Vec<_> = rates.collect();
        assert_eq!(rates[0], rates[1], "asking twice is harmless");
    }
}

#[cfg(feature = "aws")]
#[test]
fn aws_prices_keep_the_contract() {
    let (hardware, server) =
        (gpuplan::hardware::Hardware::embedded().unwrap(), gpuplan_testbed::server::Server::start(aws::account));
    let source =
        gpuplan::clouds::aws::prices::spot_prices::SpotPrices::new(aws::session(&server.endpoint, aws::quick()));
    prices::keep_the_contract(&source, &hardware, &aws::TYPES, &["us-east-1", "us-west-1"], &aws::KEYS);
}

#[cfg(feature = "aws")]
#[test]
fn aws_other_prices_keep_the_contract() {
    let (hardware, (_proxy, sources)) = (gpuplan::hardware::Hardware::embedded().unwrap(), aws::other_price_sources());
    for source in sources {
        prices::keep_the_contract(source.as_ref(), &hardware, &aws::TYPES, &["us-east-1", "eu-west-1"], &aws::KEYS);
    }
}

#[cfg(feature = "gcp")]
#[test]
fn gcp_prices_keep_the_contract() {
    let (hardware, server) = (
        gpuplan::hardware::Hardware::embedded().unwrap(),
        gpuplan_testbed::server::Server::start(gcp::sells_in_us_central1_only),
    );
    let project = gpuplan::clouds::gcp::account::project::Project::at(&server.endpoint, "some-project");
    let source = gpuplan::clouds::gcp::prices::spot_prices::SpotPrices { project };
    prices::keep_the_contract(&source, &hardware, &["a2-highgpu-1g"], &["us-central1", "europe-west9"], &[]);
}

/// The source of a cloud that is asked over plain HTTP, at a server with these answers.
fn keeps_the_contract(
    answers: fn(&gpuplan_testbed::server::Request) -> gpuplan_testbed::server::Reply,
    source: impl Fn(&str) -> Box<dyn gpuplan::market::PriceSource>,
    types: &[&str],
    regions: &[&str],
) {
    let (hardware, server) =
        (gpuplan::hardware::Hardware::embedded().unwrap(), gpuplan_testbed::server::Server::start(answers));
    prices::keep_the_contract(&*source(&server.endpoint), &hardware, types, regions, &[public::KEY, public::CLIENT]);
}

#[test]
fn azure_prices_keep_the_contract() {
    let source = |endpoint: &str| Box::new(gpuplan::clouds::azure::retail_prices::RetailPrices::at(endpoint)) as _;
    keeps_the_contract(public::azure, source, &["Standard_ND96isr_H100_v5"], &["eastus", "westus3"]);
}

#[test]
fn lambda_prices_keep_the_contract() {
    let source = |endpoint: &str| {
        Box::new(gpuplan::clouds::lambda::instance_types::InstanceTypes::at(endpoint, public::KEY)) as _
    };
    keeps_the_contract(
        public::lambda,
        source,
        &["gpu_8x_h100_sxm5", "gpu_1x_h100_sxm5"],
        &["us-east-1", "us-west-2", "any"],
    );
}

#[test]
fn runpod_prices_keep_the_contract() {
    let source =
        |endpoint: &str| Box::new(gpuplan::clouds::runpod::gpu_types::GpuTypes::at(endpoint, public::KEY)) as _;
    keeps_the_contract(public::runpod, source, &["h100-sxm.1x", "h100-sxm.8x"], &["EU-RO-1"]);
}

#[test]
fn vast_prices_keep_the_contract() {
    let source = |endpoint: &str| Box::new(gpuplan::clouds::vast::machines::Machines::at(endpoint)) as _;
    keeps_the_contract(public::vast, source, &["h100-sxm.8x"], &["IS"]);
}

#[test]
fn verda_prices_keep_the_contract() {
    let source = |endpoint: &str| {
        Box::new(gpuplan::clouds::verda::instance_types::InstanceTypes::at(endpoint, public::CLIENT, public::KEY)) as _
    };
    keeps_the_contract(public::verda, source, &["h100-sxm.8x"], &["FIN-01", "any"]);
}

#[test]
fn oci_prices_keep_the_contract() {
    let source = |endpoint: &str| Box::new(gpuplan::clouds::oci::cost_estimator::CostEstimator::at(endpoint)) as _;
    keeps_the_contract(public::oci, source, &["BM.GPU.H100.8"], &["any"]);
}

#[test]
fn vultr_prices_keep_the_contract() {
    let source = |endpoint: &str| Box::new(gpuplan::clouds::vultr::gpu_plans::GpuPlans::at(endpoint)) as _;
    let types = ["vcg-a100-12c-120g-80vram", "vcg-a40-24c-120g-48vram", "vbm-112c-2048gb-8-h100-gpu"];
    keeps_the_contract(public::vultr, source, &types, &["ewr", "blr", "sea"]);
}

#[test]
fn akamai_prices_keep_the_contract() {
    let source = |endpoint: &str| Box::new(gpuplan::clouds::akamai::linode::Linode::at(endpoint)) as _;
    keeps_the_contract(
        public::akamai,
        source,
        &["g2-gpu-rtx4000a1-s", "g2-gpu-rtx4000a4-m"],
        &["us-ord", "id-cgk", "any"],
    );
}

#[test]
fn scaleway_prices_keep_the_contract() {
    let source = |endpoint: &str| {
        Box::new(gpuplan::clouds::scaleway::instances::Instances::at(endpoint).with_euro(endpoint)) as _
    };
    keeps_the_contract(public::scaleway, source, &["H100-1-80G", "L40S-8-48G"], &["fr-par-2", "pl-waw-2"]);
}

#[test]
fn digitalocean_prices_keep_the_contract() {
    let source = |endpoint: &str| {
        Box::new(gpuplan::clouds::digitalocean::droplet_sizes::DropletSizes::at(endpoint, public::KEY)) as _
    };
    keeps_the_contract(public::digitalocean, source, &["gpu-h100x1-80gb", "gpu-mi300x1-192gb"], &["nyc1", "tor1"]);
}

#[test]
fn nebius_tells_no_price_without_grpc_and_claims_none() {
    assert!(public::has_no_price_source("nebius"));
}

#[test]
fn crusoe_has_no_price_interface_and_claims_none() {
    assert!(public::has_no_price_source("crusoe"));
}

#[cfg(feature = "gcp")]
#[test]
fn gcp_price_list_keeps_the_contract() {
    let (hardware, fake) = (
        gpuplan::hardware::Hardware::embedded().unwrap(),
        gpuplan_testbed::fake_gce::FakeGce::start(gpuplan_testbed::gcp_project::project),
    );
    let project = gpuplan::clouds::gcp::account::project::Project::at(&fake.endpoint, "some-project");
    let source = gpuplan::clouds::gcp::prices::billing::SkuPrices::at(project, Some(gcp::SECRET));
    prices::keep_the_contract(
        &source,
        &hardware,
        &["a3-highgpu-8g", "a2-highgpu-1g"],
        &["us-central1"],
        &[gcp::SECRET],
    );
}

mod launchers {
    use std::time::{Duration, Instant};

    use gpuplan::launch::{Access, CreateRequest, Launcher, MachineId, MachineState, Market, Pool, Role};
    use jiff::Timestamp;

    pub fn pool(cloud: &str, region: &str, zone: Option<&str>, instance_type: &str) -> Pool {
        Pool {
            cloud: cloud.to_owned(),
            region: region.to_owned(),
            zone_id: zone.map(str::to_owned),
            instance_type: instance_type.to_owned(),
            market: Market::Spot,
        }
    }

    pub fn request(pool: &Pool, token: &str, lives_seconds: i64) -> CreateRequest {
        let expires_at = Timestamp::now().checked_add(jiff::SignedDuration::from_secs(lives_seconds)).unwrap();
        CreateRequest {
            run: "contract".to_owned(),
            epoch: 1,
            node: 0,
            nodes: 1,
            pool: pool.clone(),
            token: token.to_owned(),
            name: "gpuplan-contract-e1-n0".to_owned(),
            expires_at,
            // As every boot script begins.
            boot: format!(
                "#!/bin/sh\n(sleep {lives_seconds}; ${{GPUPLAN_END_MACHINE:-shutdown -P now}}) &\nsleep 3600\n"
            ),
            image: None,
            disk_gib: 100,
            tags: Vec::new(),
            most: None,
            zones: Vec::new(),
            reservation: None,
            role: Role::Work,
            access: Access::default(),
        }
    }

    /// What the doc comment of `Launcher` promises and a call can show.
    pub async fn keep_the_contract(launcher: &dyn Launcher, pool: &Pool) {
        let state = async |id: &MachineId| {
            let listed = launcher.list(Some("contract")).await.unwrap();
            listed.into_iter().find(|machine| machine.id == *id).map(|machine| machine.state)
        };
        let request = |token: &str, lives_seconds: i64| request(pool, token, lives_seconds);
        let first = launcher.create(request("token-a-0123456789", 3600)).await.unwrap();
        let again = launcher.create(request("token-a-0123456789", 3600)).await.unwrap();
        assert_eq!(first.id, again.id, "the same token is the same machine");
        let other = launcher.create(request("token-b-0123456789", 3600)).await.unwrap();
        assert_ne!(first.id, other.id);
        assert_eq!((first.run.as_str(), first.epoch, first.token.as_str()), ("contract", 1, "token-a-0123456789"));
        assert_eq!(first.pool, *pool, "the place is the one that was asked for");
        assert_eq!(launcher.list(Some("contract")).await.unwrap().len(), 2);
        assert_eq!(launcher.list(None).await.unwrap().len(), 2, "every run's machines are found by their tag");
        assert!(launcher.list(Some("another")).await.unwrap().is_empty());
        for _ in 0..2 {
            launcher.destroy(&first.id).await.unwrap();
        }
        launcher.destroy(&MachineId("never-was".to_owned())).await.unwrap();
        assert!(matches!(state(&first.id).await, None | Some(MachineState::Gone)));
        assert_eq!(state(&other.id).await, Some(MachineState::Running));
        assert!(launcher.self_destruct().is_some());
        let short = launcher.create(request("token-c-0123456789", 0)).await.unwrap();
        let until = Instant::now() + Duration::from_mins(3);
        while !matches!(state(&short.id).await, None | Some(MachineState::Gone)) {
            assert!(Instant::now() < until, "nobody has to end what is past its time");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        launcher.destroy(&other.id).await.unwrap();
    }
}

mod keepers {
    use std::time::{Duration, Instant};

    use gpuplan::launch::{Group, KeepRequest, Launcher, Machine, MachineId, MachineState};
    use jiff::{SignedDuration, Timestamp};

    /// Machines of the run that are not gone.
    async fn up(launcher: &dyn Launcher, run: &str) -> Vec<Machine> {
        let listed = launcher.list(Some(run)).await.unwrap();
        listed.into_iter().filter(|machine| machine.state == MachineState::Running).collect()
    }

    /// Waits until the cloud is so, by itself.
    async fn comes<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let until = Instant::now() + Duration::from_mins(5);
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(Instant::now() < until, "{what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What the doc comment of `Keeper` promises. `another` is a launcher that made nothing, `take` takes a machine away as an interruption does,
    /// `started` counts every machine that the cloud ever started, and `soon` is the shortest life of a group there.
    pub async fn keep_the_contract(
        [launcher, another]: [&dyn Launcher; 2],
        order: &KeepRequest,
        take: impl Fn(&MachineId),
        started: impl Fn() -> usize,
        soon: SignedDuration,
    ) {
        let (keeper, run) = (launcher.keeper().unwrap(), order.machine.run.as_str());
        let group = keeper.keep(order.clone()).await.unwrap();
        assert_eq!(keeper.keep(order.clone()).await.unwrap(), group, "the same token is the same group");
        let expected = (run, order.machine.pool.region.as_str(), order.machine.expires_at);
        assert_eq!((group.run.as_str(), group.region.as_str(), group.expires_at), expected);
        let first = comes("a machine", async || up(launcher, run).await.into_iter().next()).await;
        let is_place = |machine: &Machine| {
            order.pools.iter().any(|pool| pool.zone_id.is_none() || *pool == machine.pool)
                && machine.pool.zone_id.is_some()
        };
        assert!(is_place(&first), "its place is said: {first:?}");
        assert_eq!(first.expires_at.as_second(), order.machine.expires_at.as_second());
        take(&first.id);
        let is_next = |machine: &Machine| machine.id != first.id;
        let second = comes("the next machine", async || up(launcher, run).await.into_iter().find(is_next)).await;
        assert!(is_place(&second), "{second:?}");
        let other = another.keeper().unwrap();
        assert!(other.groups(Some("another")).await.unwrap().is_empty());
        let found = other.groups(None).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&group), "whoever asks finds it");
        for _ in 0..2 {
            other.dissolve(&group).await.unwrap();
        }
        other.dissolve(&Group { id: "nowhere/never-was".to_owned(), ..group }).await.unwrap();
        assert!(keeper.groups(Some(run)).await.unwrap().is_empty());
        comes("the end of its machine", async || up(launcher, run).await.is_empty().then_some(())).await;
        // Nobody ends this one. It may live for less than two looks of a busy machine are apart.
        let before = started();
        let mut short = order.clone();
        short.machine.token = format!("{}-2", order.machine.token);
        short.machine.expires_at = Timestamp::from_second((Timestamp::now() + soon).as_second()).unwrap();
        keeper.keep(short).await.unwrap();
        comes("its machine", async || (started() > before).then_some(())).await;
        comes("its end", async || up(launcher, run).await.is_empty().then_some(())).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(up(launcher, run).await.is_empty(), "no machine is started after");
    }
}

#[test]
fn fake_keeps_the_contract_of_a_launcher() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = gpuplan::clouds::fake::FakeCloud::at(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(launchers::keep_the_contract(&cloud, &launchers::pool("fake", "r", None, "g5.xlarge")));
}

#[cfg(feature = "gcp")]
#[test]
fn gcp_keeps_the_contract_of_a_launcher() {
    for zone in [Some("us-central1-a"), None] {
        let (folder, pool) =
            (tempfile::tempdir().unwrap(), launchers::pool("gcp", "us-central1", zone, "g2-standard-4"));
        // Google's shortest life, half a minute, takes a third of a second.
        let machines = gpuplan_testbed::gce_machines::Machines::start(folder.path(), 100.0);
        launch_google::run(launchers::keep_the_contract(&launch_google::launcher(&machines), &pool));
    }
}

#[test]
fn slurm_keeps_the_contract() {
    engines::keep_the_contract(&engines::Case {
        engine: |path| Box::new(gpuplan::clouds::slurm::Slurm::new(path)),
        name: "slurm",
        text: "#!/bin/bash\ntrue\n",
        running: "RUNNING",
        interrupted: "PENDING 1",
    });
}

#[test]
fn kubernetes_keeps_the_contract() {
    engines::keep_the_contract(&engines::Case {
        engine: |path| Box::new(gpuplan::clouds::kubernetes::Kubernetes::new(path)),
        name: "kubernetes",
        text: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: r\n",
        running: "running",
        interrupted: "interrupted",
    });
}

#[test]
fn skypilot_keeps_the_contract() {
    engines::keep_the_contract(&engines::Case {
        engine: |path| Box::new(gpuplan::clouds::skypilot::Skypilot::new(path)),
        name: "skypilot",
        text: "name: r\nrun: \"true\"\n",
        running: "RUNNING",
        interrupted: "RECOVERING 1",
    });
}
