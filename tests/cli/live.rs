//! Prices from clouds that run here: moto behind the fault proxy as AWS, a server that refuses everything as the others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::support::Ran;
use gpuplan_testbed::answers::{self as answers, Spot};
use gpuplan_testbed::moto::Moto;
use gpuplan_testbed::proxy::{Fault, Proxy, Rule};
use gpuplan_testbed::server::{Reply, Server};

const KEY: &str = "AKIAPLANTEDPLANTED00";
const SECRET: &str = "planted/secret/of/the/account/0123456789";
/// One machine with an A10G, which zones of us-east-1 price differently.
const QUESTION: [&str; 10] = [
    "examples/resnet-50-imagenet.toml",
    "--cloud",
    "aws",
    "--gpus",
    "A10G:1",
    "--spot",
    "--max-nodes",
    "1",
    "--deadline",
    "90d",
];

/// The cheapest believable zone is b; c was not repeated for days, d asks far less than its neighbours.
fn market() -> Vec<Spot> {
    let spot = |zone, price, hours_ago| Spot { machine: "g5.xlarge", zone, price, hours_ago };
    vec![
        spot("us-east-1a", "0.5100", 2),
        spot("us-east-1b", "0.4200", 1),
        spot("us-east-1b", "0.4600", 300),
        spot("us-east-1c", "0.3900", 70),
        spot("us-east-1d", "0.0500", 3),
    ]
}

struct Clouds {
    aws: String,
    others: String,
    home: tempfile::TempDir,
}

impl Clouds {
    fn run(&self, arguments: &[&str], more: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .env("COLUMNS", "120")
            .stdin(Stdio::null());
        command.env("GPUPLAN_HOME", self.home.path()).env("HOME", self.home.path());
        command.env("AWS_ENDPOINT_URL", &self.aws).env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_REGION", "us-east-1");
        command.env("GOOGLE_CLOUD_PROJECT", "some-project").env("GPUPLAN_AZURE_PRICES_ENDPOINT", &self.others);
        for cloud in ["GCP", "AZURE", "LAMBDA", "RUNPOD", "VAST", "VERDA", "NEBIUS", "OCI", "CRUSOE"] {
            command.env(format!("GPUPLAN_{cloud}_ENDPOINT"), &self.others);
        }
        let output = command.envs(more.iter().copied()).output().unwrap();
        let ran = Ran {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        };
        assert!(
            !ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET) && !ran.stderr.contains(KEY),
            "{}",
            ran.stderr
        );
        ran
    }

    fn plan(&self, more: &[&str], environment: &[(&str, &str)]) -> (Value, String) {
        let ran = self.run(&[&["plan"], &QUESTION[..], &["--output", "json"], more].concat(), environment);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        (ran.json(), ran.stderr)
    }
}

fn rules() -> Vec<Rule> {
    let quotas = vec![
        ("L-DB2E81BA", "Running On-Demand G and VT instances", 64.0),
        ("L-3819A6DF", "All G and VT Spot Instance Requests", 0.0),
    ];
    let mut rules = answers::quotas(quotas);
    rules.push(answers::spot_history(market(), 3));
    rules.push(Rule::on(
        "RunInstances",
        Fault::Refuse(403, "UnauthorizedOperation", "You are not authorized to perform this operation."),
    ));
    // A busy region costs only itself.
    rules.push(
        Rule::on("DescribeAvailabilityZones", Fault::Refuse(503, "RequestLimitExceeded", "Request limit exceeded."))
            .region("eu-west-1"),
    );
    rules
}

/// Regions of AWS that have a price, all of which are asked.
fn regions() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogs/prices/aws.csv");
    let mut reader = csv::Reader::from_path(path).unwrap();
    let column = reader.headers().unwrap().iter().position(|name| name == "region").unwrap();
    reader.records().map(|row| row.unwrap()[column].to_owned()).collect()
}

/// `None` where moto cannot run, which is said under the name of the test.
fn clouds(test: &str) -> Option<(Clouds, (Moto, Proxy, Server))> {
    let moto = Moto::start(test)?;
    moto.open(regions().iter().map(String::as_str));
    let proxy = Proxy::start(Some(moto.address.clone()), rules());
    let refusing = Server::start(|_| Reply::Text(404, "text/plain", "nothing here".to_owned()));
    let home = tempfile::tempdir().unwrap();
    let clouds = Clouds { aws: proxy.endpoint.clone(), others: refusing.endpoint.clone(), home };
    Some((clouds, (moto, proxy, refusing)))
}

#[test]
fn live_prices_are_taken_kept_and_doubted() {
    let Some((mut clouds, servers)) = clouds("live_prices_are_taken_kept_and_doubted") else { return };
    refreshes(&clouds);
    recommends_the_cheapest_eligible_zone(&clouds);
    names_what_is_missing(&clouds);
    drop(servers);
    clouds.aws = closed_port();
    clouds.others.clone_from(&clouds.aws);
    gives_the_same_plan_from_the_cache(&clouds);
}

fn refreshes(clouds: &Clouds) {
    let ran = clouds.run(&["refresh", "--history"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line = ran.stdout.lines().find(|line| line.contains("aws-spot-history")).unwrap();
    assert!(line.contains("answered") && line.contains('4'), "{line}");
    assert!(
        ran.stdout.lines().any(|line| line.contains("azure-retail-prices") && line.contains("failed")),
        "{}",
        ran.stdout
    );
    let history = clouds.run(&["prices", "A10G", "--cloud", "aws", "--history"], &[]);
    assert_eq!(history.code, 0, "{}", history.stderr);
    assert!(
        history.stdout.contains("use1-az1") && history.stdout.contains("-9 %") && history.stdout.contains('█'),
        "{}",
        history.stdout
    );
    let document = clouds.run(&["prices", "A10G", "--cloud", "aws", "--history", "--output", "json"], &[]).json();
    crate::schemas::assert_valid("prices-history", "prices --history", &document);
}

fn recommends_the_cheapest_eligible_zone(clouds: &Clouds) {
    let (plan, _) = clouds.plan(&["--live"], &[]);
    let best = &plan["recommendation"];
    let chosen = (best["zone_id"].as_str(), best["rate_usd_per_hour"].as_str(), best["price"]["origin"].as_str());
    assert_eq!(chosen, (Some("use1-az1"), Some("0.42"), Some("live")), "{best:#}");
    let notes = plan["notes"].to_string();
    assert!(notes.contains("use1-az2, spot at $0.39: its cloud has not repeated this price for days"), "{notes}");
    assert!(notes.contains("use1-az4, spot at $0.05: "), "{notes}");
    for plan in crate::cli::support::plans(&plan) {
        assert!(plan["price"]["origin"].is_string() && plan["price"]["observed_at"].is_string());
    }
    let reasons: Vec<_> =
        plan["rejected"].as_array().unwrap().iter().map(|line| line["reason"].as_str().unwrap()).collect();
    assert!(reasons.contains(&"price-stale") && reasons.contains(&"price-suspect"), "{reasons:?}");
    let table = clouds.run(&[&["plan", "--live", "--max-age", "10m", "--details"], &QUESTION[..]].concat(), &[]);
    assert!(table.stdout.contains("$0.4200 an hour a machine, cached price seen"), "{}", table.stdout);
    assert!(
        table.stdout.lines().filter(|line| line.contains("g5.xlarge") || line.contains(" x A10G")).count() > 1,
        "{}",
        table.stdout
    );
}

fn names_what_is_missing(clouds: &Clouds) {
    let ran = clouds.run(&[&["doctor"], &QUESTION[..]].concat(), &[]);
    assert_eq!(ran.code, 7, "a quota is in the way: {}{}", ran.stdout, ran.stderr);
    for part in [
        "123456789012",
        "denied: ec2:RunInstances",
        "quota BLOCKS: L-3819A6DF",
        "4 of 0 vCPUs",
        "to ask for more: aws service-quotas",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
}

#[test]
fn a_catalog_folder_is_rebuilt_from_live_prices() {
    let Some((clouds, _servers)) = clouds("a_catalog_folder_is_rebuilt_from_live_prices") else { return };
    let folder = clouds.home.path().join("catalogs");
    fs::create_dir_all(folder.join("prices")).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogs");
    for name in ["SNAPSHOT.toml", "prices/aws.csv"] {
        fs::copy(root.join(name), folder.join(name)).unwrap();
    }
    let refresh = ["catalog", "refresh", folder.to_str().unwrap(), "--cloud", "aws"];
    let ran = clouds.run(&refresh, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("aws: ") && ran.stdout.contains(" as before"), "{}", ran.stdout);
    let manifest = fs::read_to_string(folder.join("SNAPSHOT.toml")).unwrap();
    for part in [
        "id = \"aws-spot-history@",
        "/?Action=DescribeSpotPriceHistory\"",
        "sha256 = \"",
        "parser_version = \"gpuplan ",
        "fetched_at = \"",
    ] {
        assert!(manifest.contains(part), "{part}");
    }
    let prices = fs::read_to_string(folder.join("prices/aws.csv")).unwrap();
    assert!(
        prices.lines().any(|row| row.starts_with("g5.xlarge,us-east-1,use1-az1,spot,,0.42,list,")),
        "the live price is in the file"
    );
    // Three times as many rows as any answer has: a refresh that loses rows keeps the old file.
    let thrice = |(index, row): (usize, &str)| [row.to_owned(), format!("{row}{index}"), format!("{row}x{index}")];
    let (header, rows) = prices.split_once('\n').unwrap();
    let many = rows.lines().enumerate().flat_map(thrice).collect::<Vec<_>>().join("\n");
    let many = format!("{header}\n{many}");
    fs::write(folder.join("prices/aws.csv"), &many).unwrap();
    let ran = clouds.run(&refresh, &[]);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    assert!(ran.stderr.contains("rows are fewer than 90 %"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(folder.join("prices/aws.csv")).unwrap(), many);
}

fn gives_the_same_plan_from_the_cache(clouds: &Clouds) {
    let (live, said) = clouds.plan(&["--live"], &[]);
    assert!(said.contains("cannot reach"), "{said}");
    let (offline, _) = clouds.plan(&[], &[("GPUPLAN_OFFLINE", "1")]);
    for plan in [live, offline] {
        let best = &plan["recommendation"];
        let chosen = (best["zone_id"].as_str(), best["rate_usd_per_hour"].as_str(), best["price"]["origin"].as_str());
        assert_eq!(chosen, (Some("use1-az1"), Some("0.42"), Some("cached")), "{best:#}");
        // As doctor was told.
        let quota =
            (best["quota"]["state"].as_str(), best["quota"]["account"].as_str(), best["quota"]["limit"].as_f64());
        assert_eq!(quota, (Some("exceeded"), Some("123456789012"), Some(0.0)), "{best:#}");
    }
    let (stale, _) = clouds.plan(&["--accept-stale-prices"], &[("GPUPLAN_OFFLINE", "1")]);
    assert_eq!(stale["recommendation"]["price"]["stale"], true, "an older price asks less, and was asked for");
    let ran = clouds.run(&["refresh", "--cloud", "aws"], &[]);
    assert_eq!(ran.code, 8, "nothing answered: {}", ran.stderr);
    assert!(Path::new(&clouds.home.path().join("prices.sqlite")).exists());
}

/// An address where nothing listens any more.
fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A machine and a GPU that no catalog has: found in a list, priced, planned at an assumed speed, and known afterwards without the cloud.
#[test]
fn a_machine_and_a_gpu_that_nobody_knows_are_found_and_planned() {
    let described = "<instanceTypeSet><item><instanceType>g9.24xlarge</instanceType><supportedUsageClasses><item>on-demand</item>\
        <item>spot</item></supportedUsageClasses><processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures>\
        </processorInfo><vCpuInfo><defaultVCpus>96</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>786432</sizeInMiB></memoryInfo>\
        <networkInfo><networkPerformance>800 Gigabit</networkPerformance></networkInfo><gpuInfo><gpus><item><name>Vera Q7</name>\
        <manufacturer>NVIDIA</manufacturer><count>4</count><memoryInfo><sizeInMiB>98304</sizeInMiB></memoryInfo></item></gpus></gpuInfo>\
        </item></instanceTypeSet>";
    let says = |action: &'static str, body: &'static str| {
        Rule::answer(action, move |call| call.reply(answers::ec2(&call.action, body)))
    };
    let rules = vec![
        says("DescribeRegions", "<regionInfo><item><regionName>us-east-1</regionName></item></regionInfo>"),
        says(
            "DescribeInstanceTypeOfferings",
            "<instanceTypeOfferingSet><item><instanceType>g9.24xlarge</instanceType><location>use1-az1</location></item>\
             </instanceTypeOfferingSet>",
        ),
        says("DescribeInstanceTypes", described),
        says(
            "DescribeAvailabilityZones",
            "<availabilityZoneInfo><item><zoneName>us-east-1b</zoneName><zoneId>use1-az1</zoneId></item></availabilityZoneInfo>",
        ),
        answers::spot_history(
            vec![Spot { machine: "g9.24xlarge", zone: "us-east-1b", price: "4.2000", hours_ago: 1 }],
            1000,
        ),
    ];
    let proxy = Proxy::start(None, rules);
    let refusing = Server::start(|_| Reply::Text(404, "text/plain", "nothing here".to_owned()));
    let mut clouds =
        Clouds { aws: proxy.endpoint.clone(), others: refusing.endpoint.clone(), home: tempfile::tempdir().unwrap() };
    let refreshed = clouds.run(&["refresh", "--cloud", "aws"], &[]);
    assert_eq!(refreshed.code, 0, "{}", refreshed.stderr);
    assert!(refreshed.stdout.contains("no catalog has g9.24xlarge"), "{}", refreshed.stdout);
    clouds.aws = closed_port();
    let question = [
        "plan",
        QUESTION[0],
        "--cloud",
        "aws",
        "--gpus",
        "Vera Q7:4",
        "--deadline",
        "90d",
        "--spot",
        "--max-nodes",
        "1",
        "--output",
        "json",
    ];
    let ran = clouds.run(&question, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let best = ran.json()["recommendation"].clone();
    assert_eq!(
        (best["instance_type"].as_str(), best["rate_usd_per_hour"].as_str()),
        (Some("g9.24xlarge"), Some("4.20"))
    );
    let step = &best["step_seconds"];
    let width = step["high"].as_f64().unwrap() / step["low"].as_f64().unwrap();
    assert!(width > 1.5, "a speed that is assumed has a wide band: {step}");
    let left = clouds.run(&["prices", "--cloud", "aws", "--region", "us-east-1", "--output", "json"], &[]);
    let named = left.json()["offers"].as_array().unwrap().iter().all(|offer| offer["instance_type"] == "g9.24xlarge");
    assert!(named, "the cloud lists nothing else there: {}", left.stdout);
    let moved = clouds.run(&["prices", "--since", "7d", "--cloud", "aws", "--region", "us-east-1"], &[]);
    assert!(moved.stdout.contains("new") && moved.stdout.contains("gone"), "{}{}", moved.stdout, moved.stderr);
}

/// One region that has one machine type, sold ahead for a fee whatever the span.
fn sells_blocks() -> Proxy {
    let says = |action: &'static str, body: &'static str| {
        Rule::answer(action, move |call| call.reply(answers::ec2(&call.action, body)))
    };
    Proxy::start(
        None,
        vec![
            says("DescribeRegions", "<regionInfo><item><regionName>us-east-1</regionName></item></regionInfo>"),
            says(
                "DescribeInstanceTypeOfferings",
                "<instanceTypeOfferingSet><item><instanceType>p5.48xlarge</instanceType><location>use1-az1</location></item>\
                 </instanceTypeOfferingSet>",
            ),
            says("DescribeInstanceTypes", "<instanceTypeSet/>"),
            says(
                "DescribeAvailabilityZones",
                "<availabilityZoneInfo><item><zoneName>us-east-1b</zoneName><zoneId>use1-az1</zoneId></item></availabilityZoneInfo>",
            ),
            answers::capacity_blocks(vec![("p5.48xlarge", "us-east-1b", 40, "9061.6320")]),
        ],
    )
}

/// A block is asked for as the plan needs it: so many machines for so many days; and the plan waits for its start and pays all of it.
#[test]
fn capacity_for_a_date_is_asked_for_as_the_plan_needs_it() {
    let proxy = sells_blocks();
    let refusing = Server::start(|_| Reply::Text(404, "text/plain", "nothing here".to_owned()));
    let clouds =
        Clouds { aws: proxy.endpoint.clone(), others: refusing.endpoint.clone(), home: tempfile::tempdir().unwrap() };
    let question = [
        "plan",
        "--model",
        "llama-3.1-8b",
        "--task",
        "full-fine-tune",
        "--tokens",
        "10B",
        "--cloud",
        "aws",
        "--gpus",
        "H100:16",
        "--live",
        "--purchase",
        "capacity-block",
        "--output",
        "json",
    ];
    let ran = clouds.run(&question, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let plan = ran.json();
    let best = &plan["recommendation"];
    let hours = best["run_hours"]["p90"].as_f64().unwrap();
    let asked: Vec<(String, String)> = proxy
        .calls()
        .iter()
        .filter(|call| call.action == "DescribeCapacityBlockOfferings" && call.region == "us-east-1")
        .filter(|call| call.parameter("InstanceType").as_deref() == Some("p5.48xlarge"))
        .map(|call| ["InstanceCount", "CapacityDurationHours"].map(|name| call.parameter(name).unwrap()).into())
        .collect();
    assert_eq!(asked.len(), 2, "once for a day, once for the plan: {asked:?}");
    let (count, span) = (asked[1].0.as_str(), asked[1].1.parse::<f64>().unwrap());
    assert_eq!((asked[0].clone(), count), (("1".to_owned(), "24".to_owned()), "2"));
    let work = hours - 40.0;
    assert!(span > work && span - work < 24.6, "{span} h for {work} h of work");
    assert_eq!(best["nodes"], 2);
    let booked =
        plan["warnings"].as_array().unwrap().iter().map(Value::to_string).find(|note| note.contains("up front"));
    assert!(booked.as_ref().is_some_and(|note| note.contains("2 machines") && note.contains("$9,062")), "{booked:?}");
    let cost: f64 = best["cost_usd"]["expected"].as_str().unwrap().parse().unwrap();
    assert!((9061.632..9061.632 * 1.05).contains(&cost), "the whole fee, and what is stored: {cost}");
    // Two days are too little for the wait and the work.
    let late = clouds.run(&[&question[..], &["--deadline", "44h"]].concat(), &[]);
    assert_eq!(late.code, 3, "{}{}", late.stdout, late.stderr);
    let until = proxy.calls().iter().rev().find_map(|call| call.parameter("EndDateRange"));
    assert!(until.is_some(), "a block that ends after the deadline is of no use");
}

/// The token that `aws sso login` leaves, in a file named by the SHA-1 of the session's name.
const TOKEN_FILE: &str = "ee0bfd2552fbd840c02cc48b6e823320543c450f.json";

/// Profiles as companies write them, against a stand-in that answers for the portal of single sign-on and for STS.
#[test]
fn companies_sign_in_with_single_sign_on_and_with_a_program() {
    let server = Server::start(|request| {
        if request.path.starts_with("/federation/credentials") {
            assert_eq!(request.header("x-amz-sso_bearer_token"), "the-cached-token");
            let keys = "{\"roleCredentials\":{\"accessKeyId\":\"ASIAFROMSSO\",\"secretAccessKey\":\"s\",\"sessionToken\":\"t\",\"expiration\":4102444800000}}";
            return Reply::Text(200, "application/json", keys.to_owned());
        }
        if request.body.contains("Action=GetCallerIdentity") {
            let key = request.header("authorization").split(['=', '/']).nth(1).unwrap_or_default().to_owned();
            let said = format!(
                "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult><Arn>arn:{key}</Arn>\
                 <UserId>u</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
            );
            return Reply::Text(200, "text/xml", said);
        }
        Reply::Text(404, "text/plain", "nothing here".to_owned())
    });
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = home.path().join(".aws").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "config",
        "[profile work]\nregion = us-east-1\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = researcher\n\
         [sso-session corp]\nsso_region = us-east-1\nsso_start_url = https://corp.awsapps.com/start\n\
         [profile ci]\nregion = us-east-1\ncredential_process = echo '{\"Version\":1,\"AccessKeyId\":\"AKIAFROMPROGRAM\",\"SecretAccessKey\":\"s\"}'\n",
    );
    write(
        &format!("sso/cache/{TOKEN_FILE}"),
        "{\"accessToken\":\"the-cached-token\",\"expiresAt\":\"2099-01-01T00:00:00Z\",\"region\":\"us-east-1\",\"startUrl\":\"https://corp.awsapps.com/start\"}",
    );
    let doctor = |profile: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(["doctor", "--cloud", "aws", "--output", "json"]).env_clear().stdin(Stdio::null());
        command
            .env("HOME", home.path())
            .env("GPUPLAN_HOME", home.path())
            .env("PATH", std::env::var_os("PATH").unwrap());
        command.env("AWS_PROFILE", profile).env("AWS_ENDPOINT_URL", &server.endpoint);
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    for (profile, key, way) in
        [("work", "ASIAFROMSSO", "single sign-on"), ("ci", "AKIAFROMPROGRAM", "a program that prints credentials")]
    {
        let found = doctor(profile)["clouds"][0].clone();
        let account = &found["account"]["found"];
        assert_eq!(
            (account["account"].as_str(), account["principal"].as_str()),
            (Some("123456789012"), Some(format!("arn:{key}").as_str())),
            "{found:#}"
        );
        let tried = found["credentials"].as_array().unwrap();
        assert!(
            tried.iter().any(|place| place["place"] == format!("profile {profile}") && place["found"] == way),
            "{found:#}"
        );
    }
    let nobody = doctor("nobody")["clouds"][0].clone();
    assert!(nobody["account"]["missing"].is_string(), "{nobody:#}");
}
