//! Managed instance groups of the stand-in for Compute Engine: templates, and groups of one that start a machine whenever they have none. The
//! next machine is called as the last one, as Google does; none is started after the time that its template names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fake_gce::{Answer, Call};
use crate::gce_machines::{PROJECT, TOKEN};

/// What the token of the account of machines of groups is: it alone ends groups.
pub const KEPT_TOKEN: &str = "ya29.planted-kept";
/// What Google hangs on to the name of a group for its machine.
const END: &str = "x7k2";

type Key = (String, String);

struct Group {
    body: Value,
    made: Instant,
    at: Timestamp,
    /// Machines that it started.
    starts: usize,
}

/// A machine to start: its place and name, what it is, and the seconds that it may live.
pub struct Start {
    pub zone: String,
    pub machine: String,
    pub body: Value,
    pub life: f64,
}

#[derive(Default)]
pub struct Groups {
    templates: BTreeMap<Key, Value>,
    kept: BTreeMap<Key, Group>,
    /// Operations, and the machine whose end each waits for.
    operations: BTreeMap<String, Option<String>>,
    pub is_not_set_up: bool,
    /// So many answers to insertions of groups are lost.
    pub loses: usize,
}

fn of<'a>(call: &'a Call, name: &str) -> &'a str {
    call.parameters.get(name).map_or("", String::as_str)
}

fn refused(status: u16, reason: &'static str, message: &str) -> Answer {
    Answer::Refused(status, reason, message.to_owned())
}

fn text<'a>(body: &'a Value, key: &str) -> &'a str {
    body[key].as_str().unwrap_or_default()
}

impl Groups {
    /// `None`: the call is not about groups.
    pub fn answer(&mut self, call: &Call, silent: &BTreeSet<String>) -> Option<Answer> {
        let key = |name: &str| (of(call, "region").to_owned(), of(call, name).to_owned());
        Some(match call.method.as_str() {
            "compute.regionInstanceTemplates.insert" => self.make_template(call),
            "compute.regionInstanceTemplates.delete" => self.delete_template(&key("instanceTemplate")),
            "compute.instanceTemplates.aggregatedList" => {
                listed("instanceTemplates", self.templates.iter().map(|((region, _), body)| (region, body)), silent)
            }
            "compute.regionInstanceGroupManagers.insert" => self.make_group(call),
            "compute.regionInstanceGroupManagers.delete" => self.delete_group(call, &key("instanceGroupManager")),
            "compute.instanceGroupManagers.aggregatedList" => {
                listed("instanceGroupManagers", self.kept.iter().map(|((region, _), one)| (region, &one.body)), silent)
            }
            method if method.starts_with(&format!("POST /v1/projects/{PROJECT}/serviceAccounts/gpuplan-kept@")) => {
                if self.is_not_set_up {
                    refused(404, "notFound", "Unknown service account")
                } else {
                    Answer::Json(json!({"permissions": call.body["permissions"]}))
                }
            }
            _ => return None,
        })
    }

    pub fn groups(&self) -> usize {
        self.kept.len()
    }

    pub fn templates(&self) -> usize {
        self.templates.len()
    }

    /// What an operation waits for; `None`: there is no such operation.
    pub fn waits_for(&self, operation: &str) -> Option<Option<String>> {
        self.operations.get(operation).cloned()
    }

    /// Machines that groups lack, in the zone after the last one. `speed`: how much faster than life time passes.
    pub fn lacking(&mut self, is_there: impl Fn(&str) -> bool, speed: f64) -> Vec<Start> {
        let mut starts = Vec::new();
        for ((region, name), group) in &mut self.kept {
            let zones = group.body["distributionPolicy"]["zones"].as_array().unwrap();
            let machine = |zone: &str| format!("{zone}/{name}-{END}");
            let zones: Vec<&str> = zones.iter().map(|zone| text(zone, "zone").rsplit_once('/').unwrap().1).collect();
            if zones.iter().any(|zone| is_there(&machine(zone))) {
                continue;
            }
            let template = text(&group.body, "instanceTemplate").rsplit_once('/').unwrap().1.to_owned();
            let properties = &self.templates[&(region.clone(), template)]["properties"];
            let ends: Timestamp = text(&properties["scheduling"], "terminationTime").parse().unwrap();
            let life = ends.duration_since(group.at).as_secs_f64() - group.made.elapsed().as_secs_f64() * speed;
            // Google refuses a machine that would live for less.
            if life < 30.0 {
                continue;
            }
            let zone = zones[group.starts % zones.len()];
            group.starts += 1;
            starts.push(Start {
                zone: zone.to_owned(),
                machine: machine(zone),
                body: instance(properties, zone, &format!("{name}-{END}")),
                life,
            });
        }
        starts
    }

    fn make_template(&mut self, call: &Call) -> Answer {
        let (region, name) = (of(call, "region"), text(&call.body, "name"));
        let properties = &call.body["properties"];
        let ends = text(&properties["scheduling"], "terminationTime").parse::<Timestamp>();
        let left = ends.map(|ends| ends.duration_since(Timestamp::now()).as_secs_f64());
        let disk = text(&properties["disks"][0]["initializeParams"], "diskType");
        // Names alone, for no zone is known yet; one limit, and not both.
        let cards = properties["guestAccelerators"].as_array().into_iter().flatten();
        if text(properties, "machineType").contains('/')
            || disk.contains('/')
            || cards.into_iter().any(|card| text(card, "acceleratorType").contains('/'))
            || !properties["scheduling"]["maxRunDuration"].is_null()
            || !left.is_ok_and(|left| (29.0..=120.0 * 86400.0).contains(&left))
        {
            return refused(400, "invalid", "Invalid value for field 'resource.properties'");
        }
        let key = (region.to_owned(), name.to_owned());
        if self.templates.contains_key(&key) {
            return refused(409, "alreadyExists", &format!("The resource '{name}' already exists"));
        }
        self.templates.insert(key, placed(&call.body, region));
        self.begun("insert", region, name, None)
    }

    fn make_group(&mut self, call: &Call) -> Answer {
        let (region, name, body) = (of(call, "region"), text(&call.body, "name"), &call.body);
        let template = text(body, "instanceTemplate").rsplit_once('/').map(|(_, name)| name.to_owned());
        let is_known = template.is_some_and(|name| self.templates.contains_key(&(region.to_owned(), name)));
        let zones = body["distributionPolicy"]["zones"].as_array().map_or(0, Vec::len);
        let base = text(body, "baseInstanceName");
        // A machine changes its zone only in a group that Google does not spread evenly.
        let may_move = body["distributionPolicy"]["targetShape"] == "ANY"
            && body["updatePolicy"]["instanceRedistributionType"] == "NONE";
        if !is_known || zones == 0 || base.len() > 58 || body["targetSize"] != 1 || !may_move {
            return refused(
                400,
                "invalid",
                "Invalid value for field 'resource': The referenced template, zones or name",
            );
        }
        let key = (region.to_owned(), name.to_owned());
        if self.kept.contains_key(&key) {
            return self.or_lost(refused(409, "alreadyExists", &format!("The resource '{name}' already exists")));
        }
        let group = Group { body: placed(body, region), made: Instant::now(), at: Timestamp::now(), starts: 0 };
        self.kept.insert(key, group);
        let begun = self.begun("insert", region, name, None);
        self.or_lost(begun)
    }

    fn or_lost(&mut self, answer: Answer) -> Answer {
        let is_lost = self.loses > 0;
        self.loses = self.loses.saturating_sub(1);
        if is_lost { Answer::Lost } else { answer }
    }

    fn delete_template(&mut self, key: &Key) -> Answer {
        let end = format!("regions/{}/instanceTemplates/{}", key.0, key.1);
        if self.kept.values().any(|group| text(&group.body, "instanceTemplate").ends_with(&end)) {
            return refused(400, "resourceInUseByAnotherResource", "The template is already being used");
        }
        match self.templates.remove(key) {
            Some(_) => self.begun("delete", &key.0, &key.1, None),
            None => refused(404, "notFound", &format!("The resource '{end}' was not found")),
        }
    }

    /// The group is gone at once, its operation when its machine is.
    fn delete_group(&mut self, call: &Call, key: &Key) -> Answer {
        let key_of_call = call.headers.get("authorization");
        if key_of_call.is_some_and(|given| *given == format!("Bearer {TOKEN}")) {
            return refused(403, "forbidden", "Required 'compute.instanceGroupManagers.delete' permission");
        }
        if key_of_call.is_some_and(|given| *given != format!("Bearer {KEPT_TOKEN}")) {
            return refused(401, "authError", "Invalid Credentials");
        }
        match self.kept.remove(key) {
            Some(_) => self.begun("delete", &key.0, &key.1, Some(format!("{}-{END}", key.1))),
            None => refused(404, "notFound", &format!("The resource '{}' was not found", key.1)),
        }
    }

    fn begun(&mut self, kind: &str, region: &str, target: &str, waits_for: Option<String>) -> Answer {
        let name = format!("operation-{kind}-{}", self.operations.len());
        self.operations.insert(name.clone(), waits_for);
        let place = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/{region}");
        Answer::Json(json!({"name": name, "operationType": kind, "status": "RUNNING", "progress": 0,
            "targetLink": format!("{place}/{target}"), "region": place, "insertTime": Timestamp::now().to_string()}))
    }
}

/// The name of the machine of a group, whose group this call has just ended.
pub fn machine_of(name: &str) -> String {
    format!("{name}-{END}")
}

fn placed(body: &Value, region: &str) -> Value {
    let mut placed = body.clone();
    placed["region"] = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/{region}").into();
    placed
}

/// As an insertion would have asked for it.
fn instance(properties: &Value, zone: &str, name: &str) -> Value {
    let mut body = properties.clone();
    body["name"] = name.into();
    body["machineType"] = format!("zones/{zone}/machineTypes/{}", text(properties, "machineType")).into();
    for card in body.get_mut("guestAccelerators").and_then(Value::as_array_mut).into_iter().flatten() {
        let kind = text(card, "acceleratorType").to_owned();
        card["acceleratorType"] = format!("projects/{PROJECT}/zones/{zone}/acceleratorTypes/{kind}").into();
    }
    let disk = &mut body["disks"][0]["initializeParams"];
    disk["diskType"] = format!("zones/{zone}/diskTypes/{}", text(disk, "diskType")).into();
    body
}

fn listed<'a>(kind: &str, found: impl Iterator<Item = (&'a String, &'a Value)>, silent: &BTreeSet<String>) -> Answer {
    let mut items =
        json!({"regions/europe-west9": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "No results"}}});
    for (region, body) in found {
        let scope = &mut items[format!("regions/{region}")];
        if scope.is_null() {
            *scope = json!({kind: []});
        }
        scope[kind].as_array_mut().unwrap().push(body.clone());
    }
    for place in silent {
        items[format!("regions/{place}")] = json!({"warning": {"code": "UNREACHABLE", "message": "no answer"}});
    }
    Answer::Json(json!({"items": items}))
}
