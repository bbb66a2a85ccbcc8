//! EC2 Fleets of type `maintain` for a cloud in a box, which moto does not keep: whenever one has no machine it starts another from
//! its template, in the next of its subnets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gpuplan_launch::Market;
use jiff::Timestamp;

use crate::cloud_box::{ask, ec2, value};
use crate::machines::{Machines, Start};
use crate::proxy::{Call, Rule};
use crate::server::Reply;

/// Between two looks of EC2 at its fleets.
const LOOK: Duration = Duration::from_millis(100);
const DELETED: &str = "Client.UserInitiatedShutdown";

pub struct Fleets {
    moto: String,
    machines: Arc<Machines>,
    /// Region and zone id of each subnet.
    subnets: BTreeMap<String, (String, String)>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By region and name.
    templates: BTreeMap<(String, String), Call>,
    fleets: Vec<Fleet>,
}

struct Fleet {
    id: String,
    asked: Call,
    template: Call,
    /// Every machine that it started, and the folder of each.
    started: Vec<(String, PathBuf)>,
    is_active: bool,
}

impl Fleets {
    pub fn new(moto: &str, machines: Arc<Machines>, subnets: BTreeMap<String, (String, String)>) -> Arc<Self> {
        let fleets = Arc::new(Self { moto: moto.to_owned(), machines, subnets, kept: Mutex::default() });
        let weak = Arc::downgrade(&fleets);
        thread::spawn(move || {
            while let Some(fleets) = weak.upgrade() {
                fleets.look();
                drop(fleets);
                thread::sleep(LOOK);
            }
        });
        fleets
    }

    /// Those that start machines.
    pub fn active(&self) -> usize {
        self.kept.lock().unwrap().fleets.iter().filter(|fleet| fleet.is_active).count()
    }

    /// Machines that all of them ever started.
    pub fn started(&self) -> usize {
        self.kept.lock().unwrap().fleets.iter().map(|fleet| fleet.started.len()).sum()
    }

    pub fn templates(&self) -> usize {
        self.kept.lock().unwrap().templates.len()
    }

    /// What machines asked of the AWS command line, line by line.
    pub fn asked_by_machines(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap();
        let folders = kept.fleets.iter().flat_map(|fleet| &fleet.started);
        let said = folders.map(|(_, folder)| std::fs::read_to_string(folder.join("aws-calls")).unwrap_or_default());
        said.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    pub fn rules(self: &Arc<Self>) -> Vec<Rule> {
        let fleets = || self.clone();
        let (template, templates, remove, make, list, end) =
            (fleets(), fleets(), fleets(), fleets(), fleets(), fleets());
        vec![
            Rule::answer("CreateLaunchTemplate", move |call| template.make_template(call)),
            Rule::answer("DescribeLaunchTemplates", move |call| templates.list_templates(call)),
            Rule::answer("DeleteLaunchTemplate", move |call| remove.remove_template(call)),
            Rule::answer("CreateFleet", move |call| make.make(call)),
            Rule::answer("DescribeFleets", move |call| list.list(call)),
            Rule::answer("DeleteFleets", move |call| end.end_asked(call)),
        ]
    }

    fn make_template(&self, call: &Call) -> Reply {
        let key = (call.region.clone(), call.parameter("LaunchTemplateName").unwrap_or_default());
        let mut kept = self.kept.lock().unwrap();
        if kept.templates.contains_key(&key) {
            return call.refusal(
                400,
                "InvalidLaunchTemplateName.AlreadyExistsException",
                "Launch template name already in use.",
            );
        }
        kept.templates.insert(key.clone(), call.clone());
        call.reply(ec2(
            call,
            &format!("<launchTemplate><launchTemplateId>{}</launchTemplateId></launchTemplate>", key.1),
        ))
    }

    fn list_templates(&self, call: &Call) -> Reply {
        let kept = self.kept.lock().unwrap();
        let is_named = |name: &String| call.parameter("Filter.1.Value.1").as_ref() == Some(name);
        let here = kept.templates.iter();
        let here = here.filter(|((region, name), template)| {
            *region == call.region && (is_named(name) || is_wanted(call, template))
        });
        let item = |((_, name), template): (&(String, String), &Call)| {
            format!("<item><launchTemplateId>{name}</launchTemplateId><tagSet>{}</tagSet></item>", tag_set(template))
        };
        call.reply(ec2(call, &format!("<launchTemplates>{}</launchTemplates>", here.map(item).collect::<String>())))
    }

    fn remove_template(&self, call: &Call) -> Reply {
        let key = (call.region.clone(), call.parameter("LaunchTemplateId").unwrap_or_default());
        match self.kept.lock().unwrap().templates.remove(&key) {
            Some(_) => call.reply(ec2(call, "")),
            None => call.refusal(400, "InvalidLaunchTemplateId.NotFound", "no such template"),
        }
    }

    fn make(&self, call: &Call) -> Reply {
        let mut kept = self.kept.lock().unwrap();
        let token = call.parameter("ClientToken");
        if let Some(known) = kept.fleets.iter().find(|fleet| fleet.asked.parameter("ClientToken") == token) {
            if known.asked.body != call.body {
                return call.refusal(400, "IdempotentParameterMismatch", "the token was used for another request");
            }
            let ids = known.started.first().map_or_else(String::new, |(id, _)| format!("<item>{id}</item>"));
            let started = format!("<fleetInstanceSet><item><instanceIds>{ids}</instanceIds></item></fleetInstanceSet>");
            return call.reply(ec2(call, &format!("<fleetId>{}</fleetId>{started}", known.id)));
        }
        let name = call
            .parameter("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName")
            .unwrap_or_default();
        let Some(template) = kept.templates.get(&(call.region.clone(), name)).cloned() else {
            return call.refusal(400, "InvalidLaunchTemplateName.NotFoundException", "no such template");
        };
        let is_instant = call.parameter("Type").as_deref() == Some("instant");
        if !is_instant && until(call).is_none() {
            return call.refusal(400, "InvalidParameterValue", "this box keeps fleets of type maintain that end");
        }
        let id = format!("fleet-{:08}", kept.fleets.len());
        if is_instant {
            let mut fleet =
                Fleet { id: id.clone(), asked: call.clone(), template, started: Vec::new(), is_active: false };
            self.start_one(&mut fleet);
            let started = format!("<instanceIds><item>{}</item></instanceIds>", fleet.started[0].0);
            kept.fleets.push(fleet);
            return call.reply(ec2(
                call,
                &format!("<fleetId>{id}</fleetId><fleetInstanceSet><item>{started}</item></fleetInstanceSet>"),
            ));
        }
        // Its first machine at once: a short fleet on a busy machine would be over before the next look.
        let mut fleet = Fleet { id: id.clone(), asked: call.clone(), template, started: Vec::new(), is_active: true };
        self.start_one(&mut fleet);
        kept.fleets.push(fleet);
        call.reply(ec2(call, &format!("<fleetId>{id}</fleetId>")))
    }

    fn list(&self, call: &Call) -> Reply {
        let kept = self.kept.lock().unwrap();
        let item = |fleet: &Fleet| {
            let state = if fleet.is_active { "active" } else { "deleted" };
            let tags = tag_set(&fleet.asked);
            format!(
                "<item><fleetId>{}</fleetId><fleetState>{state}</fleetState><type>maintain</type><tagSet>{tags}</tagSet></item>",
                fleet.id
            )
        };
        let here = kept.fleets.iter().filter(|fleet| fleet.asked.region == call.region).map(item);
        call.reply(ec2(call, &format!("<fleetSet>{}</fleetSet>", here.collect::<String>())))
    }

    fn end_asked(&self, call: &Call) -> Reply {
        let mut kept = self.kept.lock().unwrap();
        let id = call.parameters("FleetId").pop().unwrap_or_default();
        let Some(fleet) = kept.fleets.iter_mut().find(|fleet| fleet.id == id) else {
            let error = "<error><code>fleetIdDoesNotExist</code><message>no such fleet</message></error>";
            let item = format!("<item><fleetId>{id}</fleetId>{error}</item>");
            return call
                .reply(ec2(call, &format!("<unsuccessfulFleetDeletionSet>{item}</unsuccessfulFleetDeletionSet>")));
        };
        self.end(fleet);
        let item =
            format!("<item><fleetId>{id}</fleetId><currentFleetState>deleted_terminating</currentFleetState></item>");
        call.reply(ec2(call, &format!("<successfulFleetDeletionSet>{item}</successfulFleetDeletionSet>")))
    }

    /// The fleet, and then its machine.
    fn end(&self, fleet: &mut Fleet) {
        fleet.is_active = false;
        for (id, _) in &fleet.started {
            self.machines.end(id, DELETED);
            ask(&self.moto, &fleet.asked.region, "ec2", "TerminateInstances", &format!("&InstanceId.1={id}"));
        }
    }

    fn look(&self) {
        let mut kept = self.kept.lock().unwrap();
        for fleet in kept.fleets.iter_mut().filter(|fleet| fleet.is_active) {
            let is_told = fleet.started.iter().any(|(_, folder)| folder.join("delete-fleets").exists());
            if is_told || until(&fleet.asked).is_some_and(|until| until < Timestamp::now()) {
                self.end(fleet);
                continue;
            }
            let seen = self.machines.seen();
            if !seen.iter().any(|seen| seen.is_up() && fleet.started.iter().any(|(id, _)| *id == seen.id)) {
                self.start_one(fleet);
            }
        }
    }

    /// Waits until a machine that moto was just asked for is one here too: before it is, nobody knows its zone.
    pub fn settle(&self) {
        drop(self.kept.lock().unwrap());
    }

    fn start_one(&self, fleet: &mut Fleet) {
        let place =
            |number: usize| fleet.asked.parameter(&format!("LaunchTemplateConfigs.1.Overrides.{number}.SubnetId"));
        let subnets: Vec<String> = (1..).map_while(place).collect();
        let subnet = &subnets[fleet.started.len() % subnets.len()];
        let kind = fleet.asked.parameter("LaunchTemplateConfigs.1.Overrides.1.InstanceType").unwrap();
        let of_template = |name: &str| fleet.template.parameter(&format!("LaunchTemplateData.{name}"));
        let mut order = format!(
            "&MinCount=1&MaxCount=1&ImageId={}&InstanceType={kind}&SubnetId={subnet}&InstanceMarketOptions.MarketType=spot\
             &TagSpecification.1.ResourceType=instance",
            of_template("ImageId").unwrap()
        );
        let tag = |number: usize, part: &str| of_template(&format!("TagSpecification.1.Tag.{number}.{part}"));
        for number in (1..).take_while(|number| tag(*number, "Key").is_some()) {
            let (key, value) = (tag(number, "Key").unwrap(), tag(number, "Value").unwrap_or_default());
            order += &format!(
                "&TagSpecification.1.Tag.{number}.Key={}&TagSpecification.1.Tag.{number}.Value={}",
                plain(&key),
                plain(&value)
            );
        }
        let answer = ask(&self.moto, &fleet.asked.region, "ec2", "RunInstances", &order);
        let Some(id) = value(&answer, "instanceId") else { panic!("moto starts no machine of a fleet: {answer}") };
        let boot = BASE64_STANDARD.decode(of_template("UserData").unwrap()).unwrap();
        let zone_id = self.subnets[subnet].1.clone();
        let (region, group, fleet_id) = (fleet.asked.region.clone(), None, Some(fleet.id.clone()));
        self.machines.start(Start {
            id: id.clone(),
            region,
            zone_id,
            market: Market::Spot,
            group,
            fleet: fleet_id,
            boot,
        });
        let folder = self.machines.seen().into_iter().find(|seen| seen.id == id).unwrap().folder;
        fleet.started.push((id, folder));
    }
}

/// As a form carries it.
fn plain(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn until(call: &Call) -> Option<Timestamp> {
    call.parameter("ValidUntil")?.parse().ok()
}

fn tags(call: &Call) -> Vec<(String, String)> {
    let part = |number: usize, part: &str| call.parameter(&format!("TagSpecification.1.Tag.{number}.{part}"));
    (1..).map_while(|number| Some((part(number, "Key")?, part(number, "Value").unwrap_or_default()))).collect()
}

fn tag_set(call: &Call) -> String {
    let item = |(key, value): (String, String)| format!("<item><key>{key}</key><value>{value}</value></item>");
    tags(call).into_iter().map(item).collect()
}

/// By the one filter that is asked with: the key of a tag, or a tag.
fn is_wanted(call: &Call, template: &Call) -> bool {
    let (name, wanted) =
        (call.parameter("Filter.1.Name").unwrap_or_default(), call.parameter("Filter.1.Value.1").unwrap_or_default());
    tags(template).iter().any(|(key, value)| match name.strip_prefix("tag:") {
        Some(tag) => tag == key && wanted == *value,
        None => wanted == *key,
    })
}
