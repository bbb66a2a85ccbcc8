//! Which machines a cloud says that it has: over moto, whose lists nobody here wrote, and over answers with something new in them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpuplan::clouds::ask::all;
use gpuplan::clouds::aws::catalog::machine_list::ListedMachines;
use gpuplan::clouds::aws::prices::capacity_blocks::CapacityBlocks;
use gpuplan::clouds::aws::prices::on_demand::ListedPrices;
use gpuplan::clouds::aws::prices::spot_prices::SpotPrices;
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{MachineList, MachineSource, Market, OfferQuery, PriceSource, SourceError};

use crate::contracts::aws::{patient, quick, session};
use gpuplan_testbed::answers::ec2;
use gpuplan_testbed::moto::Moto;
use gpuplan_testbed::proxy::{Fault, Proxy, Rule};

fn known(hardware: &Hardware) -> OfferQuery<'_> {
    OfferQuery::known(&Market::embedded(hardware).unwrap(), hardware, &CloudId::new("aws"))
}

fn list(source: &dyn MachineSource, known: &OfferQuery) -> Result<MachineList, SourceError> {
    all(vec![("aws", source.machines(known))], &|_| {}).unwrap().remove(0)
}

/// Pairs of machine type with GPUs and region as the files of moto have them, read with its own interpreter.
fn pairs_of_moto(moto: &Moto) -> BTreeSet<(String, String)> {
    let script = "
import json, glob, os, moto.ec2
folder = os.path.join(os.path.dirname(moto.ec2.__file__), 'resources')
def read(path):
    import gzip
    return json.load((gzip.open if path.endswith('gz') else open)(path, 'rt'))
types = read(glob.glob(folder + '/instance_types.json*')[0])
for path in glob.glob(folder + '/instance_type_offerings/region/*.json*'):
    region = os.path.basename(path).split('.')[0]
    for row in read(path):
        if 'GpuInfo' in types.get(row['InstanceType'], {}):
            print(row['InstanceType'], region)
";
    let output = Command::new(&moto.python).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// The bar: 95 % of what the cloud offers is asked, with at most 2,000 questions and so that they take 15 s at 50 ms each.
#[test]
fn aws_asks_for_what_the_cloud_offers_and_not_for_what_the_snapshot_has() {
    let Some(moto) = Moto::start("aws_asks_for_what_the_cloud_offers") else { return };
    let mut hardware = Hardware::embedded().unwrap();
    let (cloud, offered) = (CloudId::new("aws"), pairs_of_moto(&moto));
    let turned_on: BTreeSet<&str> = offered.iter().map(|(_, region)| region.as_str()).collect();
    moto.open(turned_on.iter().copied());
    let proxy = Proxy::start(Some(moto.address.clone()), Vec::new());
    let session = session(&proxy.endpoint, patient());
    let mut list = list(&ListedMachines::new(session.clone()), &known(&hardware)).unwrap();
    list.teach(&cloud, &mut hardware);
    let wanted = known(&hardware).listed(&cloud, &list).wanted;
    let name = |id| hardware.instance(id).name.clone();
    let asked: BTreeSet<(String, String)> =
        wanted.iter().flat_map(|(region, ids)| ids.iter().map(move |id| (name(*id), region.to_string()))).collect();
    // moto has offerings of regions that its list of regions does not have.
    let on: BTreeSet<String> = list.regions.keys().map(ToString::to_string).collect();
    let within: BTreeSet<_> = offered.iter().filter(|(_, region)| on.contains(region)).cloned().collect();
    let missed: Vec<_> = within.difference(&asked).collect();
    let share = 1.0 - missed.len() as f64 / within.len() as f64;
    assert!(within.len() > 700 && on.len() > 15, "{} pairs, {on:?}", within.len());
    assert!(share >= 0.95, "{share:.3}: {missed:?}");
    assert!(asked.is_subset(&offered), "nothing is asked where it is not offered");
    assert!(proxy.calls().len() < 100, "{}", proxy.calls().len());
    assert!(wanted["us-west-1"].len() > 2, "the snapshot prices two of its types");
}

/// Calls that are answered at the same time.
#[derive(Default)]
struct InFlight {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl InFlight {
    /// Answers after 50 ms.
    fn slowly(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Every call takes 50 ms; what counts is that regions are asked side by side, which no load of the computer changes. Machines, spot prices in three pages, list prices and capacity
/// blocks of everything that the catalog knows, wherever it is offered.
#[test]
fn aws_lists_and_prices_all_regions_side_by_side() {
    let hardware = Hardware::embedded().unwrap();
    let regions: Vec<String> = (0..34).map(|number| format!("xx-region-{number}")).collect();
    let flight = Arc::new(InFlight::default());
    let of_all = regions.clone();
    let names: Vec<String> = known(&hardware).instances().into_keys().map(str::to_owned).collect();
    let rules = vec![
        Rule::answer("DescribeRegions", {
            let flight = Arc::clone(&flight);
            move |call| {
                flight.slowly();
                let items = of_all.iter().map(|region| format!("<item><regionName>{region}</regionName></item>"));
                call.reply(ec2(&call.action, &format!("<regionInfo>{}</regionInfo>", items.collect::<String>())))
            }
        }),
        Rule::answer("DescribeInstanceTypeOfferings", {
            let flight = Arc::clone(&flight);
            move |call| {
                flight.slowly();
                let item = |name: &String| {
                    format!("<item><instanceType>{name}</instanceType><location>{}</location></item>", call.region)
                };
                let items: String = names.iter().map(item).collect();
                call.reply(ec2(&call.action, &format!("<instanceTypeOfferingSet>{items}</instanceTypeOfferingSet>")))
            }
        }),
        Rule::answer("DescribeInstanceTypes", {
            let flight = Arc::clone(&flight);
            move |call| {
                flight.slowly();
                call.reply(ec2(&call.action, "<instanceTypeSet/>"))
            }
        }),
        Rule::answer("DescribeSpotPriceHistory", {
            let flight = Arc::clone(&flight);
            move |call| {
                flight.slowly();
                let token = match call.parameter("NextToken").as_deref() {
                    None => "second",
                    Some("second") => "third",
                    Some(_) => "",
                };
                call.reply(ec2(&call.action, &format!("<spotPriceHistorySet/><nextToken>{token}</nextToken>")))
            }
        }),
        Rule::answer("DescribeCapacityBlockOfferings", {
            let flight = Arc::clone(&flight);
            move |call| {
                flight.slowly();
                call.reply(ec2(&call.action, "<capacityBlockOfferingSet/>"))
            }
        }),
        Rule::answer("DescribeAvailabilityZones", {
            let flight = Arc::clone(&flight);
            move |call| {
                flight.slowly();
                call.reply(ec2(&call.action, "<availabilityZoneInfo/>"))
            }
        }),
        Rule::answer("GetProducts", {
            let flight = Arc::clone(&flight);
            move |call| {
                flight.slowly();
                call.reply(r#"{"FormatVersion": "aws_v1", "PriceList": []}"#.to_owned())
            }
        }),
    ];
    let proxy = Proxy::start(None, rules);
    let session = session(&proxy.endpoint, patient());
    let cloud = CloudId::new("aws");
    let list = list(&ListedMachines::new(session.clone()), &known(&hardware)).unwrap();
    assert_eq!(list.regions.len(), 34);
    let query = known(&hardware).listed(&cloud, &list).with_history();
    let sources = (SpotPrices::new(session.clone()), ListedPrices::new(session.clone()), CapacityBlocks::new(session));
    let questions = [
        ("spot", sources.0.offers(&query)),
        ("listed", sources.1.offers(&query)),
        ("blocks", sources.2.offers(&query)),
    ];
    let answers = all(questions.into(), &|_| {}).unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let calls = proxy.calls().len();
    assert!((34 * 10..=2000).contains(&calls), "{calls} calls");
    let most = flight.most.load(Ordering::SeqCst);
    let seconds = calls as f64 * 0.05 / most as f64;
    assert!(seconds < 15.0, "{calls} calls of 50 ms, {most} at a time: {seconds:.1} s");
}

fn offering(name: &str) -> String {
    format!("<item><instanceType>{name}</instanceType><location>here</location></item>")
}

#[test]
fn aws_what_may_not_be_listed_costs_only_itself() {
    let hardware = Hardware::embedded().unwrap();
    let refuse = |action| Rule::on(action, Fault::Refuse(403, "UnauthorizedOperation", "no"));
    let offerings = || {
        Rule::answer("DescribeInstanceTypeOfferings", |call| {
            let types = [offering("p5.48xlarge"), offering("g9.24xlarge"), offering("m5.large")].concat();
            call.reply(ec2(&call.action, &format!("<instanceTypeOfferingSet>{types}</instanceTypeOfferingSet>")))
        })
    };
    let ask = |rules| {
        let proxy = Proxy::start(None, rules);
        list(&ListedMachines::new(session(&proxy.endpoint, quick())), &known(&hardware))
    };
    // Nobody may list the regions: those of the market are asked. Nobody may describe the new type: it is a note.
    let listed = ask(vec![refuse("DescribeRegions"), offerings(), refuse("DescribeInstanceTypes")]).unwrap();
    assert_eq!(listed.regions.len(), known(&hardware).wanted.len());
    assert!(
        listed
            .regions
            .values()
            .all(|names| *names == BTreeSet::from(["g9.24xlarge".to_owned(), "p5.48xlarge".to_owned()]))
    );
    assert!(listed.sheets.is_empty() && listed.notes.len() == 2, "{:?}", listed.notes);
    // One region is refused: it is absent, which is not the same as empty.
    let only = |region: &'static str| refuse("DescribeInstanceTypeOfferings").region(region);
    let listed =
        ask(vec![refuse("DescribeRegions"), only("us-east-1"), offerings(), refuse("DescribeInstanceTypes")]).unwrap();
    assert!(!listed.regions.contains_key("us-east-1") && listed.regions.contains_key("eu-west-1"));
    let error = ask(vec![refuse("*")]).unwrap_err();
    assert!(matches!(&error, SourceError::Refused { code, .. } if code == "UnauthorizedOperation"), "{error}");
}

#[test]
fn aws_a_machine_and_a_gpu_that_nobody_knows_become_rows() {
    let mut hardware = Hardware::embedded().unwrap();
    let cloud = CloudId::new("aws");
    let described = "<instanceTypeSet><item><instanceType>g9.24xlarge</instanceType><supportedUsageClasses><item>on-demand</item>\
        <item>spot</item></supportedUsageClasses><processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures>\
        </processorInfo><vCpuInfo><defaultVCpus>96</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>786432</sizeInMiB></memoryInfo>\
        <instanceStorageInfo><totalSizeInGB>7600</totalSizeInGB></instanceStorageInfo><networkInfo><networkPerformance>800 Gigabit\
        </networkPerformance></networkInfo><gpuInfo><gpus><item><name>Vera Q7</name><manufacturer>NVIDIA</manufacturer><count>4</count>\
        <memoryInfo><sizeInMiB>131072</sizeInMiB></memoryInfo></item></gpus></gpuInfo></item></instanceTypeSet>";
    let rules = vec![
        Rule::answer("DescribeRegions", |call| {
            let region = "<regionInfo><item><regionName>mx-central-1</regionName></item></regionInfo>";
            call.reply(ec2(&call.action, region))
        }),
        Rule::answer("DescribeInstanceTypeOfferings", |call| {
            let set = format!("<instanceTypeOfferingSet>{}</instanceTypeOfferingSet>", offering("g9.24xlarge"));
            call.reply(ec2(&call.action, &set))
        }),
        Rule::answer("DescribeInstanceTypes", |call| call.reply(ec2(&call.action, described))),
    ];
    let proxy = Proxy::start(None, rules);
    let mut listed = list(&ListedMachines::new(session(&proxy.endpoint, quick())), &known(&hardware)).unwrap();
    listed.teach(&cloud, &mut hardware);
    let id = hardware.find_instance(&cloud, "g9.24xlarge").unwrap();
    let (instance, gpu) = (hardware.instance(id), hardware.gpu(hardware.instance(id).node.gpu));
    assert_eq!((instance.node.devices(), instance.vcpus, instance.host_network_gbit_per_s), (4, 96, Some(800.0)));
    assert!(gpu.is_assumed() && gpu.family == "Vera Q7" && instance.sold_as.spot);
    assert!(listed.notes.iter().any(|note| note.detail.contains("no catalog has g9.24xlarge")), "{:?}", listed.notes);
    let wanted: BTreeMap<Arc<str>, _> = known(&hardware).listed(&cloud, &listed).wanted;
    assert_eq!(wanted["mx-central-1"], [id]);
}
