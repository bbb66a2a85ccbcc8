//! A cloud in a box: moto behind the fault proxy, where an accepted RunInstances is a real machine that runs its boot script.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gpuplan_launch::Market;

use crate::fleets::Fleets;
use crate::machines::{Machines, Seen, Start, TAKEN};
use crate::moto::Moto;
use crate::proxy::{Call, Proxy, Rule};
use crate::server::Reply;

pub const KEYS: [&str; 2] = ["AKIAOFTHEBOX", "secret-of-the-box"];
/// Regions that are enabled for the account.
pub const REGIONS: [&str; 2] = ["us-east-1", "us-west-2"];
/// The newest of the images that the box lists, and an older one. GiB of its disk.
pub const IMAGE: &str = "ami-0000000000000002b";
const OLD_IMAGE: &str = "ami-0000000000000001a";
const DISK: u32 = 75;
const MACHINE: &str = "gpuplan-machine";
/// Raw user data. Bytes.
const LARGEST_BOOT: usize = 16 << 10;

pub struct CloudBox {
    pub endpoint: String,
    pub world: Arc<World>,
    proxy: Proxy,
    moto: Moto,
}

/// What moto does not know of its machines.
pub struct World {
    moto: String,
    machines: Arc<Machines>,
    /// Region and zone id of each subnet.
    subnets: BTreeMap<String, (String, String)>,
    /// What was said to a token, and in answer to what.
    tokens: Mutex<BTreeMap<(String, String), (String, String)>>,
    /// Region and name, and the tags in XML.
    groups: Mutex<BTreeMap<(String, String), String>>,
    pub fleets: Arc<Fleets>,
}

impl CloudBox {
    /// `None` where moto cannot be had, which is said. `rules` come before those of the box.
    pub fn start(test: &str, mut rules: Vec<Rule>) -> Option<Self> {
        let moto = Moto::start(test)?;
        let mut subnets = BTreeMap::new();
        for region in REGIONS {
            set_up(&moto.address, region);
            let answer = ask(&moto.address, region, "ec2", "DescribeSubnets", "");
            for item in answer.split("<availabilityZoneId>").skip(1) {
                let zone = item.split('<').next().unwrap().to_owned();
                subnets.insert(value(item, "subnetId").unwrap(), (region.to_owned(), zone));
            }
        }
        let profile = format!("&InstanceProfileName={MACHINE}");
        assert!(
            ask(&moto.address, "us-east-1", "iam", "CreateInstanceProfile", &profile).contains("InstanceProfileId")
        );
        let address = moto.address.clone();
        let ended = move |region: &str, id: &str| drop(terminate(&address, region, id));
        let machines = Machines::new(moto.python.clone(), &moto.address, ended);
        let fleets = Fleets::new(&moto.address, machines.clone(), subnets.clone());
        rules.extend(fleets.rules());
        let (tokens, groups) = (Mutex::default(), Mutex::default());
        let world = Arc::new(World { moto: moto.address.clone(), machines, subnets, tokens, groups, fleets });
        rules.extend(world.clone().rules());
        let proxy = Proxy::start(Some(moto.address.clone()), rules);
        Some(Self { endpoint: proxy.endpoint.clone(), world, proxy, moto })
    }

    pub fn calls(&self) -> Vec<Call> {
        self.proxy.calls()
    }

    /// Host and port of the store.
    pub fn store(&self) -> &str {
        &self.moto.address
    }

    pub fn make_bucket(&self, name: &str) {
        self.put(&format!("/{name}"), "");
    }

    /// Writes an object, or a setting of a bucket.
    pub fn put(&self, path: &str, body: &str) {
        let answer = http(&self.moto.address, "PUT", path, "us-east-1", "s3", body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Reads an object; `None`: there is none.
    pub fn object(&self, path: &str) -> Option<String> {
        let answer = http(&self.moto.address, "GET", path, "us-east-1", "s3", "");
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }

    /// Asks IAM beside the program, as whoever sets up the account.
    pub fn iam(&self, action: &str, parameters: &str) -> String {
        ask(&self.moto.address, "us-east-1", "iam", action, parameters)
    }

    /// What is scheduled under this name; `None`: nothing.
    pub fn schedule(&self, name: &str) -> Option<String> {
        let answer = http(&self.moto.address, "GET", &format!("/schedules/{name}"), "us-east-1", "scheduler", "");
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }

    /// As somebody else deletes it.
    pub fn unschedule(&self, name: &str) {
        let path = format!("/schedules/{name}");
        let answer = http(&self.moto.address, "DELETE", &path, "us-east-1", "scheduler", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Keys below a prefix, as a list of the bucket shows them.
    pub fn keys(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let answer =
            http(&self.moto.address, "GET", &format!("/{bucket}?list-type=2&prefix={prefix}"), "us-east-1", "s3", "");
        answer.split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
    }
}

impl World {
    pub fn machines(&self) -> Vec<Seen> {
        self.machines.seen()
    }

    pub fn up(&self) -> Vec<Seen> {
        self.machines().into_iter().filter(Seen::is_up).collect()
    }

    pub fn console(&self, id: &str) -> String {
        self.machines.console(id)
    }

    pub fn groups(&self) -> usize {
        self.groups.lock().unwrap().len()
    }

    /// As AWS takes a spot machine: a word, some time, the end.
    pub fn take(&self, id: &str, after: Duration) {
        if !after.is_zero() {
            self.machines.notify(id, after);
            std::thread::sleep(after);
        }
        let seen = self.machines().into_iter().find(|seen| seen.id == id).unwrap();
        self.machines.end(id, TAKEN);
        drop(terminate(&self.moto, &seen.region, id));
    }

    fn rules(self: Arc<Self>) -> Vec<Rule> {
        let world = || self.clone();
        let (run, end, list, make, remove, groups) = (world(), world(), world(), world(), world(), world());
        let regions = REGIONS.map(|region| format!("<item><regionName>{region}</regionName></item>")).concat();
        vec![
            Rule::answer("DescribeRegions", move |call| {
                call.reply(ec2(call, &format!("<regionInfo>{regions}</regionInfo>")))
            }),
            Rule::answer("DescribeImages", images),
            Rule::around("RunInstances", move |call, go_on| run.run(call, go_on)),
            Rule::around("TerminateInstances", move |call, go_on| {
                for id in call.parameters("InstanceId") {
                    end.machines.end(&id, "Client.UserInitiatedShutdown");
                }
                go_on()
            }),
            Rule::around("DescribeInstances", move |_, go_on| list.with_what_is_known(go_on())),
            Rule::answer("CreatePlacementGroup", move |call| make.make_group(call)),
            Rule::answer("DeletePlacementGroup", move |call| remove.remove_group(call)),
            Rule::answer("DescribePlacementGroups", move |call| groups.list_groups(call)),
        ]
    }

    /// What moto leaves out: tokens, images, user data that is too large, groups; and then there is a machine.
    fn run(&self, call: &Call, go_on: &dyn Fn() -> Reply) -> Reply {
        if call.parameter("DryRun").as_deref() == Some("true") {
            return go_on();
        }
        let token = (call.region.clone(), call.parameter("ClientToken").unwrap_or_default());
        let mut tokens = self.tokens.lock().unwrap();
        if let Some((asked, said)) = tokens.get(&token) {
            if *asked != call.body {
                return call.refusal(400, "IdempotentParameterMismatch", "the token was used for another request");
            }
            return call.reply(said.clone());
        }
        if call.parameter("ImageId").is_none_or(|image| ![IMAGE, OLD_IMAGE].contains(&image.as_str())) {
            return call.refusal(400, "InvalidAMIID.NotFound", "the image does not exist");
        }
        let boot = BASE64_STANDARD.decode(call.parameter("UserData").unwrap_or_default()).unwrap_or_default();
        if boot.len() > LARGEST_BOOT {
            return call.refusal(400, "InvalidParameterValue", "user data is limited to 16384 bytes");
        }
        let group = call.parameter("Placement.GroupName");
        let is_known = |group: &String| self.groups.lock().unwrap().contains_key(&(call.region.clone(), group.clone()));
        if group.as_ref().is_some_and(|group| !is_known(group)) {
            return call.refusal(400, "InvalidPlacementGroup.Unknown", "the placement group does not exist");
        }
        let reply = go_on();
        let Reply::Text(200, _, body) = &reply else { return reply };
        let Some(id) = value(body, "instanceId") else { return reply };
        let subnet = value(body, "subnetId").unwrap_or_default();
        let spot = call.parameter("InstanceMarketOptions.MarketType").as_deref() == Some("spot");
        self.machines.start(Start {
            id,
            region: call.region.clone(),
            zone_id: self.subnets.get(&subnet).map(|(_, zone)| zone.clone()).unwrap_or_default(),
            market: if spot { Market::Spot } else { Market::OnDemand },
            group,
            fleet: None,
            boot,
        });
        tokens.insert(token, (call.body.clone(), body.clone()));
        reply
    }

    /// moto says of every machine that ended that a person ended it.
    fn with_what_is_known(&self, reply: Reply) -> Reply {
        let Reply::Text(status, kind, mut body) = reply else { return reply };
        self.fleets.settle();
        for seen in self.machines() {
            // moto names the zone of an account, and not the one that all accounts know.
            if let Some(at) = body.find(&format!("<instanceId>{}</instanceId>", seen.id)) {
                let inside = at + body[at..].find("<placement>").expect("a machine has a place") + "<placement>".len();
                body.insert_str(inside, &format!("<availabilityZoneId>{}</availabilityZoneId>", seen.zone_id));
            }
            let (Some(reason), Some(at)) = (seen.reason, body.find(&format!("<instanceId>{}</instanceId>", seen.id)))
            else {
                continue;
            };
            // moto writes the reason of a machine before its id.
            let from = body[..at].rfind("<stateReason>").expect("a machine has a reason of its state");
            let to = from + body[from..].find("</stateReason>").unwrap();
            body.replace_range(from..to, &format!("<stateReason><code>{reason}</code><message>{reason}</message>"));
        }
        Reply::Text(status, kind, body)
    }

    fn make_group(&self, call: &Call) -> Reply {
        if call.parameter("DryRun").as_deref() == Some("true") {
            return call.refusal(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.");
        }
        let key = (call.region.clone(), call.parameter("GroupName").unwrap_or_default());
        let mut groups = self.groups.lock().unwrap();
        if groups.contains_key(&key) {
            return call.refusal(400, "InvalidPlacementGroup.Duplicate", "the placement group exists");
        }
        let tag = |number: usize| {
            let part = |part: &str| call.parameter(&format!("TagSpecification.1.Tag.{number}.{part}"));
            Some(format!("<item><key>{}</key><value>{}</value></item>", part("Key")?, part("Value")?))
        };
        groups.insert(key, (1..).map_while(tag).collect());
        call.reply(ec2(call, "<return>true</return>"))
    }

    fn remove_group(&self, call: &Call) -> Reply {
        let key = (call.region.clone(), call.parameter("GroupName").unwrap_or_default());
        if self.up().iter().any(|seen| seen.region == key.0 && seen.group.as_ref() == Some(&key.1)) {
            return call.refusal(400, "InvalidPlacementGroup.InUse", "the placement group is in use");
        }
        match self.groups.lock().unwrap().remove(&key) {
            Some(_) => call.reply(ec2(call, "<return>true</return>")),
            None => call.refusal(400, "InvalidPlacementGroup.Unknown", "the placement group does not exist"),
        }
    }

    fn list_groups(&self, call: &Call) -> Reply {
        let groups = self.groups.lock().unwrap();
        let here = groups.iter().filter(|((region, _), _)| *region == call.region);
        let item = |((_, name), tags): (&(String, String), &String)| {
            format!(
                "<item><groupName>{name}</groupName><strategy>cluster</strategy><state>available</state><tagSet>{tags}</tagSet></item>"
            )
        };
        call.reply(ec2(call, &format!("<placementGroupSet>{}</placementGroupSet>", here.map(item).collect::<String>())))
    }
}

/// The deep-learning image of AWS in two versions, the older listed last.
fn images(call: &Call) -> Reply {
    let ids = call.parameters("ImageId");
    let all = [(IMAGE, "2026-10-06T08:00:00.000Z"), (OLD_IMAGE, "2026-09-18T08:00:00.000Z")];
    let found: Vec<_> = all.iter().filter(|(id, _)| ids.is_empty() || ids.iter().any(|asked| asked == id)).collect();
    if found.len() < ids.len() {
        return call.refusal(400, "InvalidAMIID.NotFound", "the image does not exist");
    }
    let items = found.iter().fold(String::new(), |mut text, (id, made_at)| {
        let disk = format!("<item><deviceName>/dev/sda1</deviceName><ebs><volumeSize>{DISK}</volumeSize></ebs></item>");
        let _ = write!(
            text,
            "<item><imageId>{id}</imageId><creationDate>{made_at}</creationDate><rootDeviceName>/dev/sda1</rootDeviceName>\
             <blockDeviceMapping>{disk}</blockDeviceMapping></item>"
        );
        text
    });
    call.reply(ec2(call, &format!("<imagesSet>{items}</imagesSet>")))
}

pub fn ec2(call: &Call, content: &str) -> String {
    let action = &call.action;
    format!(
        "<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>{content}</{action}Response>"
    )
}

/// Content of the first element of this name.
pub fn value(xml: &str, name: &str) -> Option<String> {
    let rest = xml.split_once(&format!("<{name}>"))?.1;
    Some(rest.split_once('<')?.0.to_owned())
}

/// What `setup.tf` makes in a region, in the network that every account has.
fn set_up(moto: &str, region: &str) {
    let network = value(&ask(moto, region, "ec2", "DescribeVpcs", ""), "vpcId").unwrap();
    let group = format!("&GroupName={MACHINE}&GroupDescription=machines&VpcId={network}");
    let made = ask(moto, region, "ec2", "CreateSecurityGroup", &group);
    assert!(made.contains("<groupId>"), "{made}");
}

fn terminate(moto: &str, region: &str, id: &str) -> String {
    ask(moto, region, "ec2", "TerminateInstances", &format!("&InstanceId.1={id}"))
}

pub fn ask(moto: &str, region: &str, service: &str, action: &str, parameters: &str) -> String {
    let version = if service == "iam" { "2010-05-08" } else { "2016-11-15" };
    http(moto, "POST", "/", region, service, &format!("Action={action}&Version={version}{parameters}"))
}

/// moto wants a signature in form only.
fn http(moto: &str, method: &str, path: &str, region: &str, service: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(moto).unwrap();
    let signed = format!(
        "AWS4-HMAC-SHA256 Credential=box/20260101/{region}/{service}/aws4_request, SignedHeaders=host, Signature=x"
    );
    // moto takes any request of the second type for a query.
    let kind = match body {
        "" => "",
        xml if xml.starts_with('<') => "Content-Type: application/xml\r\n",
        _ => "Content-Type: application/x-www-form-urlencoded\r\n",
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {moto}\r\nAuthorization: {signed}\r\n{kind}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
