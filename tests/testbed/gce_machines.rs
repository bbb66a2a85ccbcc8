//! Machines of the stand-in for Compute Engine: each is a process tree in a folder of its own that runs its startup script, with a
//! metadata service on loopback. Deleting one kills every process that carries its mark.
//!
//! An insertion is answered before it is done, as Google does: what goes wrong later stands in the operation. Where the kernel
//! permits no network namespaces everything is on loopback ports.

use crate::executable::executable;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use regex_lite::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fake_gce::{Answer, Call, FakeGce};
use crate::gce_groups::{Groups, KEPT_TOKEN, machine_of};
use crate::server::{Reply, Request, Server};

pub const PROJECT: &str = "some-project";
/// What the token of a machine's service account is; it may come out nowhere.
pub const TOKEN: &str = "ya29.planted";
/// Every process of a machine carries it in its environment, with the machine's folder: runs of several tests are called alike.
const MARK: &str = "GPUPLAN_FAKE_INSTANCE";
/// From the order to delete a machine until it is gone.
const ENDING: Duration = Duration::from_millis(700);
/// Google gives no more machines than this in a page of the stand-in, so that a gang needs several.
const PAGE: usize = 2;

/// What happens to an insertion.
#[derive(Clone)]
pub enum Fault {
    /// Refused at once.
    Refused(u16, &'static str, &'static str),
    /// Begun, and then the operation says this in `error.errors[]`.
    Later(Value),
    /// Done, and the answer is lost.
    Lost,
    /// Begun, and the operation does not end within a test.
    Endless,
    /// Done, and deleted by somebody before anybody asks.
    Vanishes,
}

/// An operation's error of this code.
pub fn later(code: &str, message: &str) -> Fault {
    Fault::Later(json!({"code": code, "message": message}))
}

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Running,
    Stopping,
    Terminated,
}

struct Rented {
    body: Value,
    folder: PathBuf,
    number: u64,
    zone: String,
    /// Seconds.
    life: f64,
    status: Status,
    created: Timestamp,
    since: Instant,
    /// A deleted machine is listed until then.
    gone_at: Option<Instant>,
    sensed: Arc<Sensed>,
    _metadata: Server,
}

/// What a machine's metadata service says.
#[derive(Default)]
struct Sensed {
    name: String,
    zone: String,
    token: &'static str,
    preempted: Mutex<bool>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    machines: BTreeMap<String, Rented>,
    operations: BTreeMap<String, Value>,
    /// Operations by the id of their request.
    requests: BTreeMap<String, String>,
    /// By zone, in turn.
    faults: BTreeMap<String, Vec<Fault>>,
    unreachable: BTreeSet<String>,
    /// Placement policies by region and name.
    policies: BTreeMap<(String, String), Value>,
    forbids_policies: bool,
    /// What was booked, by zone and name.
    reservations: BTreeMap<(String, String), Value>,
    groups: Groups,
    inserted: Vec<String>,
    next: u64,
}

struct Shared {
    folder: PathBuf,
    /// Where machines find other interfaces of Google: variables and their values.
    known: Mutex<Vec<(String, String)>>,
    /// Seconds of a machine's life in a second.
    speed: f64,
    state: Mutex<State>,
}

pub struct Machines {
    pub fake: FakeGce,
    shared: Arc<Shared>,
}

impl Machines {
    /// `speed`: how much faster than life time passes for `maxRunDuration`.
    pub fn start(folder: &Path, speed: f64) -> Self {
        let shared =
            Arc::new(Shared { folder: folder.to_owned(), known: Mutex::default(), speed, state: Mutex::default() });
        let answering = shared.clone();
        Self { fake: FakeGce::start(move |call| answering.answer(call)), shared }
    }

    pub fn endpoint(&self) -> &str {
        &self.fake.endpoint
    }

    /// A variable of every machine to come.
    pub fn tells(&self, name: &str, value: &str) {
        self.shared.known.lock().unwrap().push((name.to_owned(), value.to_owned()));
    }

    /// The next insertions in the zone meet these, in turn.
    pub fn fails(&self, zone: &str, faults: &[Fault]) {
        self.shared.state().faults.entry(zone.to_owned()).or_default().extend_from_slice(faults);
    }

    pub fn is_silent(&self, zone: &str, silent: bool) {
        let mut state = self.shared.state();
        if silent {
            state.unreachable.insert(zone.to_owned())
        } else {
            state.unreachable.remove(zone)
        };
    }

    /// `zone/name` of every machine that was begun, in turn.
    pub fn inserted(&self) -> Vec<String> {
        self.shared.state().inserted.clone()
    }

    /// `zone/name` of those that are there.
    pub fn alive(&self) -> Vec<String> {
        self.shared.pass_time();
        self.shared.state().machines.keys().cloned().collect()
    }

    /// Names of the placement policies that are there.
    pub fn policies(&self) -> Vec<String> {
        self.shared.state().policies.keys().map(|(_, name)| name.clone()).collect()
    }

    /// How many groups and templates are there.
    pub fn groups(&self) -> (usize, usize) {
        self.shared.pass_time();
        let state = self.shared.state();
        (state.groups.groups(), state.groups.templates())
    }

    /// The next answers to insertions of groups do not arrive.
    pub fn loses_groups(&self, answers: usize) {
        self.shared.state().groups.loses = answers;
    }

    /// The account of machines of groups is not there.
    pub fn keeps_nothing(&self) {
        self.shared.state().groups.is_not_set_up = true;
    }

    /// From now on nobody may make a placement policy.
    pub fn forbids_policies(&self) {
        self.shared.state().forbids_policies = true;
    }

    pub fn folder_of(&self, machine: &str) -> PathBuf {
        self.shared.folder_of(machine)
    }

    /// Those of the machine, that left its group too.
    pub fn processes(&self, machine: &str) -> Vec<i32> {
        processes(&self.folder_of(machine))
    }

    /// Google says that it takes the machine, and does so after the notice.
    pub fn preempt(&self, machine: &str, notice: Duration) {
        self.shared.preempt(machine);
        let (shared, machine) = (self.shared.clone(), machine.to_owned());
        thread::spawn(move || {
            thread::sleep(notice);
            shared.state().remove(&machine);
        });
    }

    /// The machine stops without being deleted, as one that shuts itself down does.
    pub fn stops(&self, machine: &str) {
        self.shared.state().machines.get_mut(machine).unwrap().status = Status::Terminated;
        end(&self.folder_of(machine));
    }
}

impl Drop for Machines {
    /// No process outlives the test.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let machines: Vec<String> = state.machines.keys().cloned().collect();
        for machine in &machines {
            state.remove(machine);
        }
    }
}

impl State {
    fn operation(&mut self, zone: &str, kind: &str, machine: &str, number: u64, more: Value) -> Value {
        self.next += 1;
        let name = format!("operation-{}", self.next);
        let (_, short) = machine.split_once('/').unwrap();
        let mut operation = json!({"name": name, "operationType": kind, "status": "DONE", "targetId": number.to_string(),
            "targetLink": format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}/instances/{short}"),
            "zone": format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}"),
            "insertTime": Timestamp::now().to_string(), "progress": 100});
        operation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.operations.insert(name, operation.clone());
        operation
    }

    /// One at most, of the machine's region, and it has to be there.
    fn has_policies_of(&self, zone: &str, body: &Value) -> Result<(), String> {
        let (region, _) = zone.rsplit_once('-').unwrap();
        let named: Vec<&str> =
            body["resourcePolicies"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let start = format!("projects/{PROJECT}/regions/{region}/resourcePolicies/");
        let is_there = |path: &&str| {
            let name = path.strip_prefix(&start);
            name.is_some_and(|name| self.policies.contains_key(&(region.to_owned(), name.to_owned())))
        };
        if named.len() < 2 && named.iter().all(is_there) {
            return Ok(());
        }
        Err(format!(
            "Invalid value for field 'resource.resourcePolicies': '{named:?}'. The referenced resource does not exist."
        ))
    }

    /// A machine that names a reservation has one that was granted.
    fn has_reservation_of(&self, zone: &str, body: &Value) -> Result<(), String> {
        let named = body["reservationAffinity"]["values"].as_array();
        let is_there = |name: &Value| {
            let key = (zone.to_owned(), name.as_str().unwrap_or_default().to_owned());
            self.reservations.get(&key).is_some_and(|booked| booked["status"]["procurementStatus"] == "APPROVED")
        };
        let missing = named.into_iter().flatten().find(|name| !is_there(name));
        missing.map_or(Ok(()), |name| Err(format!("Specified reservation '{name}' does not exist.")))
    }

    /// Its processes end at once, and it is listed for a while yet.
    fn remove(&mut self, machine: &str) {
        if let Some(rented) = self.machines.get_mut(machine) {
            end(&rented.folder);
            rented.status = Status::Stopping;
            rented.gone_at.get_or_insert_with(|| Instant::now() + ENDING);
        }
    }
}

/// As Google answers a begun operation: running, whatever becomes of it.
fn begun(operation: &Value) -> Answer {
    let mut begun = operation.clone();
    begun["status"] = "RUNNING".into();
    begun["progress"] = 0.into();
    begun.as_object_mut().unwrap().remove("error");
    Answer::Json(begun)
}

fn regional_operation(kind: &str, place: &str, name: &str) -> Value {
    json!({"name": format!("operation-{kind}-{name}"), "operationType": kind, "status": "RUNNING", "progress": 0,
        "targetLink": format!("{place}/resourcePolicies/{name}"), "region": place, "insertTime": Timestamp::now().to_string()})
}

/// Region and name.
fn policy_of(call: &Call) -> (String, String) {
    let of = |name: &str| call.parameters.get(name).cloned().unwrap_or_default();
    (of("region"), of("resourcePolicy"))
}

fn not_found(what: &str) -> Answer {
    Answer::Refused(404, "notFound", format!("The resource 'projects/{PROJECT}/{what}' was not found"))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn folder_of(&self, machine: &str) -> PathBuf {
        self.folder.join("machines").join(machine.replace('/', "."))
    }

    fn answer(&self, call: &Call) -> Answer {
        self.pass_time();
        let of = |name: &str| call.parameters.get(name).map_or("", String::as_str);
        let machine = || format!("{}/{}", of("zone"), of("instance"));
        if let Some(answer) = self.of_groups(call) {
            return answer;
        }
        match call.method.as_str() {
            "compute.instances.insert" => self.insert(call),
            "compute.instances.get" => {
                let state = self.state();
                let found = state.machines.get(&machine()).map(described);
                found.map_or_else(
                    || not_found(&format!("zones/{}/instances/{}", of("zone"), of("instance"))),
                    Answer::Json,
                )
            }
            "compute.instances.delete" => self.delete(call, &machine()),
            "compute.instances.aggregatedList" => self.aggregated(of("filter"), of("pageToken")),
            "compute.resourcePolicies.insert" => self.make_policy(call),
            "compute.resourcePolicies.get" => {
                let found = self.state().policies.get(&policy_of(call)).cloned();
                found.map_or_else(|| not_found(&format!("regions/{}/resourcePolicies", of("region"))), Answer::Json)
            }
            "compute.resourcePolicies.delete" => self.delete_policy(&policy_of(call)),
            "compute.resourcePolicies.aggregatedList" => self.list_policies(),
            "compute.advice.calendarMode" => soon(call),
            "compute.futureReservations.insert" => self.reserve(call),
            "compute.futureReservations.get" => self.reservation(of("zone"), of("futureReservation")),
            "compute.futureReservations.aggregatedList" => self.list_reservations(of("filter")),
            "compute.zoneOperations.wait" => self.wait(of("zone"), of("operation")),
            "compute.zoneOperations.list" => self.operations(of("zone"), of("filter")),
            "compute.images.getFromFamily" if of("project") == "deeplearning-platform-release" => Answer::Json(
                json!({"name": format!("{}-v1", of("family")), "diskSizeGb": "50", "architecture": "X86_64"}),
            ),
            "compute.images.getFromFamily" if of("project") == "ubuntu-os-cloud" => Answer::Json(
                json!({"name": format!("{}-v1", of("family")), "diskSizeGb": "10", "architecture": "X86_64"}),
            ),
            "compute.images.get" if of("image") == "large" => {
                Answer::Json(json!({"name": "large", "diskSizeGb": "300"}))
            }
            "compute.images.get" | "compute.images.getFromFamily" => {
                not_found(&format!("global/images/{}", of("image")))
            }
            "compute.machineTypes.aggregatedList" => machine_types(),
            // Prices, quotas and the like.
            _ => crate::gcp_project::project(call),
        }
    }

    /// A group that is ended takes its machine along.
    fn of_groups(&self, call: &Call) -> Option<Answer> {
        let mut state = self.state();
        if call.method == "compute.regionOperations.get" {
            let name = &call.parameters["operation"];
            let waits_for = state.groups.waits_for(name)?;
            let is_left = |machine: String| state.machines.keys().any(|key| key.ends_with(&format!("/{machine}")));
            let status = if waits_for.is_some_and(is_left) { "RUNNING" } else { "DONE" };
            return Some(Answer::Json(json!({"name": name, "status": status})));
        }
        let silent: BTreeSet<String> = state.unreachable.iter().filter(|place| is_region(place)).cloned().collect();
        let answer = state.groups.answer(call, &silent)?;
        if call.method == "compute.regionInstanceGroupManagers.insert" {
            // At once: a short group on a busy machine would be over before the next call.
            self.start_lacking(&mut state);
        }
        if call.method == "compute.regionInstanceGroupManagers.delete" && matches!(answer, Answer::Json(_)) {
            let end = format!("/{}", machine_of(&call.parameters["instanceGroupManager"]));
            let of_group: Vec<String> = state.machines.keys().filter(|key| key.ends_with(&end)).cloned().collect();
            for machine in &of_group {
                state.remove(machine);
            }
        }
        Some(answer)
    }

    /// Groups start what they lack.
    fn start_lacking(&self, state: &mut State) {
        let machines: BTreeSet<String> = state.machines.keys().cloned().collect();
        for start in state.groups.lacking(|machine| machines.contains(machine), self.speed) {
            let fault = state.faults.get_mut(&start.zone).filter(|faults| !faults.is_empty());
            if fault.map(|faults| faults.remove(0)).is_some() {
                continue;
            }
            is_allowed(&start.zone, &start.body).unwrap();
            state.next += 1;
            let number = 1_000_000 + state.next;
            state.inserted.push(start.machine.clone());
            let rented = self.boot(&start.zone, &start.machine, &start.body, (number, start.life)).unwrap();
            state.machines.insert(start.machine, rented);
        }
    }

    /// Google deletes what has run for its longest time.
    fn pass_time(&self) {
        let mut state = self.state();
        let is_over = |rented: &Rented| rented.since.elapsed().as_secs_f64() * self.speed > rented.life;
        let over: Vec<String> =
            state.machines.iter().filter(|(_, rented)| is_over(rented)).map(|(name, _)| name.clone()).collect();
        for machine in &over {
            state.remove(machine);
        }
        state.machines.retain(|_, rented| rented.gone_at.is_none_or(|gone_at| Instant::now() < gone_at));
        self.start_lacking(&mut state);
    }

    fn insert(&self, call: &Call) -> Answer {
        let (zone, body) = (call.parameters["zone"].as_str(), &call.body);
        let id = call.parameters.get("requestId").cloned().unwrap_or_default();
        let uuid = Regex::new("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$").unwrap();
        if !uuid.is_match(&id) {
            return Answer::Refused(
                400,
                "invalid",
                format!("Invalid value for field 'requestId': '{id}'. It must be a UUID."),
            );
        }
        let mut state = self.state();
        if let Some(known) = state.requests.get(&id) {
            return begun(&state.operations[known]);
        }
        let is_there = || state.has_policies_of(zone, body).and_then(|()| state.has_reservation_of(zone, body));
        if let Err(problem) = is_allowed(zone, body).and_then(|()| is_there()) {
            return Answer::Refused(400, "invalid", problem);
        }
        let machine = format!("{zone}/{}", body["name"].as_str().unwrap());
        if state.machines.contains_key(&machine) {
            return Answer::Refused(409, "alreadyExists", format!("The resource '{machine}' already exists"));
        }
        let fault = state.faults.get_mut(zone).filter(|faults| !faults.is_empty()).map(|faults| faults.remove(0));
        if let Some(Fault::Refused(status, reason, message)) = fault {
            return Answer::Refused(status, reason, message.to_owned());
        }
        state.next += 1;
        let (number, client) = (1_000_000 + state.next, json!({"clientOperationId": id}));
        let operation = state.operation(zone, "insert", &machine, number, client);
        let name = operation["name"].as_str().unwrap().to_owned();
        state.requests.insert(id, name.clone());
        match &fault {
            Some(Fault::Later(error)) => state.operations.get_mut(&name).unwrap()["error"] = json!({"errors": [error]}),
            Some(Fault::Vanishes) => {
                state.operation(zone, "delete", &machine, number, json!({}));
            }
            _ => {
                state.inserted.push(machine.clone());
                // A machine of a reservation ends with it.
                let life = &body["scheduling"]["maxRunDuration"]["seconds"];
                let life = life.as_str().map_or(f64::INFINITY, |life| life.parse().unwrap());
                let rented = self.boot(zone, &machine, body, (number, life)).unwrap();
                state.machines.insert(machine, rented);
            }
        }
        match fault {
            Some(Fault::Lost) => Answer::Lost,
            Some(Fault::Endless) => {
                state.operations.get_mut(&name).unwrap()["status"] = "RUNNING".into();
                begun(&operation)
            }
            _ => begun(&operation),
        }
    }

    /// Books machines for a date, as "Create future reservations in calendar mode" allows it: granted by the second look, or not at all where they are
    /// more than four.
    fn reserve(&self, call: &Call) -> Answer {
        let (zone, body) = (call.parameters["zone"].clone(), &call.body);
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        let wanted = [
            ("planningStatus", json!("SUBMITTED")),
            ("reservationMode", json!("CALENDAR")),
            ("reservationName", json!(name)),
            ("specificReservationRequired", json!(true)),
            ("autoDeleteAutoCreatedReservations", json!(true)),
            ("deploymentType", json!("DENSE")),
        ];
        if let Some((field, _)) = wanted.iter().find(|(field, value)| body[*field] != *value) {
            let why = format!("Invalid value for field 'resource.{field}': '{}'.", body[*field]);
            return Answer::Refused(400, "invalid", why);
        }
        let mut state = self.state();
        let key = (zone.clone(), name.clone());
        if state.reservations.contains_key(&key) {
            return Answer::Refused(409, "alreadyExists", format!("The resource '{name}' already exists"));
        }
        let mut booked = body.clone();
        booked["zone"] = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}").into();
        booked["status"] = json!({"procurementStatus": "PENDING_APPROVAL"});
        state.reservations.insert(key, booked);
        let operation = state.operation(&zone, "insert", &format!("{zone}/{name}"), 7, json!({}));
        begun(&operation)
    }

    fn reservation(&self, zone: &str, name: &str) -> Answer {
        let mut state = self.state();
        let Some(booked) = state.reservations.get_mut(&(zone.to_owned(), name.to_owned())) else {
            return not_found(&format!("zones/{zone}/futureReservations/{name}"));
        };
        let answer = booked.clone();
        let count: u32 = booked["specificSkuProperties"]["totalCount"].as_str().unwrap().parse().unwrap();
        booked["status"]["procurementStatus"] = if count > 4 { "DECLINED" } else { "APPROVED" }.into();
        Answer::Json(answer)
    }

    fn list_reservations(&self, filter: &str) -> Answer {
        let state = self.state();
        let named = state.reservations.iter().filter(|((_, name), _)| filter == format!("name eq \"{name}\""));
        let items: serde_json::Map<String, Value> = named
            .map(|((zone, _), booked)| (format!("zones/{zone}"), json!({"futureReservations": [booked]})))
            .collect();
        Answer::Json(json!({"items": items}))
    }

    /// Begun, and done by the next question.
    fn make_policy(&self, call: &Call) -> Answer {
        let (region, name) =
            (call.parameters["region"].clone(), call.body["name"].as_str().unwrap_or_default().to_owned());
        let mut state = self.state();
        if state.forbids_policies {
            let why = "Required 'compute.resourcePolicies.create' permission";
            return Answer::Refused(403, "forbidden", why.to_owned());
        }
        if call.body["groupPlacementPolicy"] != json!({"collocation": "COLLOCATED"}) {
            return Answer::Refused(
                400,
                "invalid",
                "Invalid value for field 'resource.groupPlacementPolicy'".to_owned(),
            );
        }
        let place = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/{region}");
        let key = (region, name.clone());
        if state.policies.contains_key(&key) {
            return Answer::Refused(409, "alreadyExists", format!("The resource '{name}' already exists"));
        }
        let mut policy = call.body.clone();
        policy["region"] = place.clone().into();
        policy["status"] = "READY".into();
        state.policies.insert(key, policy);
        Answer::Json(regional_operation("insert", &place, &name))
    }

    fn delete_policy(&self, key: &(String, String)) -> Answer {
        let mut state = self.state();
        let end = format!("/regions/{}/resourcePolicies/{}", key.0, key.1);
        let names_it = |rented: &Rented| {
            let named = rented.body["resourcePolicies"].as_array();
            named.into_iter().flatten().any(|path| path.as_str().is_some_and(|path| path.ends_with(&end)))
        };
        if state.machines.values().any(names_it) {
            let why = format!("The resource_policy resource '{}' is already being used", key.1);
            return Answer::Refused(400, "resourceInUseByAnotherResource", why);
        }
        let place = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/{}", key.0);
        match state.policies.remove(key) {
            Some(_) => Answer::Json(regional_operation("delete", &place, &key.1)),
            None => not_found(&end),
        }
    }

    fn list_policies(&self) -> Answer {
        let mut items =
            json!({"regions/europe-west9": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "No results"}}});
        for ((region, _), policy) in &self.state().policies {
            let scope = &mut items[format!("regions/{region}")];
            if scope.is_null() {
                *scope = json!({"resourcePolicies": []});
            }
            scope["resourcePolicies"].as_array_mut().unwrap().push(policy.clone());
        }
        Answer::Json(json!({"items": items}))
    }

    fn delete(&self, call: &Call, machine: &str) -> Answer {
        let mut state = self.state();
        let Some(number) = state.machines.get(machine).map(|rented| rented.number) else { return not_found(machine) };
        let is_known = |key: &String| [TOKEN, KEPT_TOKEN].iter().any(|token| *key == format!("Bearer {token}"));
        if call.headers.get("authorization").is_some_and(|key| !is_known(key)) {
            return Answer::Refused(401, "authError", "Invalid Credentials".to_owned());
        }
        let operation = state.operation(&call.parameters["zone"], "delete", machine, number, json!({}));
        state.remove(machine);
        begun(&operation)
    }

    fn preempt(&self, machine: &str) {
        let mut state = self.state();
        let rented = state.machines.get_mut(machine).unwrap();
        rented.status = Status::Stopping;
        *rented.sensed.preempted.lock().unwrap() = true;
        rented.sensed.changed.notify_all();
        let (zone, number) = (rented.zone.clone(), rented.number);
        state.operation(&zone, "compute.instances.preempted", machine, number, json!({"user": "system"}));
    }

    fn wait(&self, zone: &str, name: &str) -> Answer {
        let found = self.state().operations.get(name).cloned();
        match found {
            // Google holds the answer back for two minutes at most; a test does not wait for it.
            Some(operation) if operation["operationType"] == "delete" && self.is_ending(&operation) => {
                thread::sleep(ENDING);
                self.pass_time();
                Answer::Json(operation)
            }
            Some(operation) if operation["status"] == "RUNNING" => {
                thread::sleep(Duration::from_millis(200));
                begun(&operation)
            }
            Some(operation) => Answer::Json(operation),
            None => not_found(&format!("zones/{zone}/operations/{name}")),
        }
    }

    fn is_ending(&self, deletion: &Value) -> bool {
        let number = deletion["targetId"].as_str().unwrap().parse();
        self.state().machines.values().any(|rented| Ok(rented.number) == number)
    }

    fn operations(&self, zone: &str, filter: &str) -> Answer {
        let wanted = Regex::new(r#"^targetLink eq "(.*)"$"#).unwrap();
        let Some(wanted) = wanted.captures(filter) else {
            return Answer::Refused(400, "invalid", format!("Invalid value for field 'filter': '{filter}'"));
        };
        let wanted = Regex::new(&format!("^(?:{})$", &wanted[1])).unwrap();
        let place = format!("/zones/{zone}/");
        let state = self.state();
        let links = state.operations.values().filter(|operation| {
            let link = operation["targetLink"].as_str().unwrap();
            link.contains(&place) && wanted.is_match(link)
        });
        Answer::Json(json!({"items": links.collect::<Vec<_>>()}))
    }

    /// In pages; a zone that does not answer is named, as it is where the rest is not refused for it.
    fn aggregated(&self, filter: &str, token: &str) -> Answer {
        let form = Regex::new(r#"^labels\.([a-z0-9_-]+)(:\*| = "([^"]*)")$"#).unwrap();
        let Some(form) = form.captures(filter) else {
            return Answer::Refused(400, "invalid", format!("Invalid value for field 'filter': '{filter}'"));
        };
        let is_wanted = |rented: &&Rented| {
            let label = rented.body["labels"][&form[1]].as_str();
            label.is_some_and(|label| form.get(3).is_none_or(|wanted| wanted.as_str() == label))
        };
        let state = self.state();
        let from: usize = token.parse().unwrap_or(0);
        let wanted: Vec<&Rented> = state.machines.values().filter(is_wanted).collect();
        let mut items = serde_json::Map::new();
        items.insert(
            "zones/us-east1-d".to_owned(),
            json!({"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "No results"}}),
        );
        for zone in state.unreachable.iter().filter(|place| !is_region(place)) {
            items.insert(format!("zones/{zone}"), json!({"warning": {"code": "UNREACHABLE", "message": "no answer"}}));
        }
        for rented in wanted.iter().skip(from).take(PAGE).filter(|rented| !state.unreachable.contains(&rented.zone)) {
            let scope = items.entry(format!("zones/{}", rented.zone)).or_insert_with(|| json!({"instances": []}));
            scope["instances"].as_array_mut().unwrap().push(described(rented));
        }
        let mut list = json!({"items": items});
        if wanted.len() > from + PAGE {
            list["nextPageToken"] = (from + PAGE).to_string().into();
        }
        Answer::Json(list)
    }

    fn boot(&self, zone: &str, machine: &str, body: &Value, (number, life): (u64, f64)) -> io::Result<Rented> {
        let folder = self.folder_of(machine);
        // A group calls its next machine as the last one.
        if folder.exists() {
            fs::rename(&folder, folder.with_extension(format!("before-{number}")))?;
        }
        fs::create_dir_all(&folder)?;
        let items = body["metadata"]["items"].as_array().unwrap();
        let script = items.iter().find(|item| item["key"] == "startup-script").unwrap()["value"].as_str().unwrap();
        fs::write(folder.join("startup-script"), script)?;
        let account = body["serviceAccounts"][0]["email"].as_str().unwrap_or_default();
        let (_, name) = machine.split_once('/').unwrap();
        let sensed = Arc::new(Sensed {
            name: name.to_owned(),
            zone: format!("projects/1/zones/{zone}"),
            token: if account.starts_with("gpuplan-kept@") { KEPT_TOKEN } else { TOKEN },
            ..Sensed::default()
        });
        let sensing = sensed.clone();
        let metadata = Server::start(move |request| sensing.answer(request));
        let log = File::create(folder.join("console.log"))?;
        // Nothing here shuts this machine down.
        let programs = folder.join("programs");
        fs::create_dir_all(&programs)?;
        executable(&programs.join("shutdown"), "#!/bin/sh\necho \"shutdown $*\"\n");
        let path = std::env::join_paths(
            [programs].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let keep = |name: &str| std::env::var_os(name).map(|value| (name.to_owned(), value));
        Command::new("/bin/sh")
            .arg("startup-script")
            .current_dir(&folder)
            .env_clear()
            .envs(["HOME", "LANG", "TMPDIR"].into_iter().filter_map(keep))
            .env(MARK, &folder)
            .env("GCE_METADATA_HOST", metadata.endpoint.trim_start_matches("http://"))
            .env("PATH", path.unwrap())
            .env("GPUPLAN_MACHINE_FOLDER", &folder)
            .env("GCE_METADATA_IP", metadata.endpoint.trim_start_matches("http://"))
            .envs(self.known.lock().unwrap().clone())
            .env("GPUPLAN_AGENT_OPTIONS", format!("--heartbeat 1s --settle 1s --machine {machine}"))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let (created, since) = (Timestamp::now(), Instant::now());
        let (body, zone) = (body.clone(), zone.to_owned());
        Ok(Rented {
            body,
            folder,
            number,
            zone,
            life,
            status: Status::Running,
            created,
            since,
            gone_at: None,
            sensed,
            _metadata: metadata,
        })
    }
}

impl Sensed {
    fn answer(&self, request: &Request) -> Reply {
        let text =
            |status: u16, body: &str| Reply::Text(status, "text/plain\r\nMetadata-Flavor: Google", body.to_owned());
        if request.header("metadata-flavor") != "Google" {
            return text(403, "Missing Metadata-Flavor:Google header.");
        }
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let waits = query.split('&').any(|pair| pair == "wait_for_change=true");
        let limit = query.split('&').find_map(|pair| pair.strip_prefix("timeout_sec=")?.parse().ok()).unwrap_or(0);
        match path.trim_start_matches("/computeMetadata/v1/instance/") {
            "service-accounts/default/token" => {
                text(200, &json!({"access_token": self.token, "expires_in": 3599, "token_type": "Bearer"}).to_string())
            }
            "maintenance-event" => text(200, "NONE"),
            "name" => text(200, &self.name),
            "zone" => text(200, &self.zone),
            "preempted" => {
                let preempted = self.preempted.lock().unwrap();
                let limit = Duration::from_secs(if waits { limit } else { 0 });
                let (preempted, _) =
                    self.changed.wait_timeout_while(preempted, limit, |preempted| !*preempted).unwrap();
                text(200, if *preempted { "TRUE" } else { "FALSE" })
            }
            _ => text(404, "not found"),
        }
    }
}

/// What Google would refuse beyond the schema, as far as an order can get it wrong (the pages named in `clouds/gcp/launcher`).
fn is_allowed(zone: &str, body: &Value) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let invalid = |field: &str, value: &str| Err(format!("Invalid value for field 'resource.{field}': '{value}'."));
    let machine_type = text(&body["machineType"]);
    let Some(kind) = machine_type.strip_prefix(&format!("zones/{zone}/machineTypes/")) else {
        return invalid("machineType", &machine_type);
    };
    if !["a2-", "a3-", "a4-", "g2-", "g4-", "n1-", "e2-"].iter().any(|series| kind.starts_with(series)) {
        return Err(format!(
            "Invalid value for field 'resource.machineType': '{machine_type}'. The referenced resource does not exist."
        ));
    }
    let made = &body["disks"][0]["initializeParams"];
    let disk = if ["a3-ultra", "a4", "g4"].iter().any(|series| kind.starts_with(series)) {
        "hyperdisk-balanced"
    } else {
        "pd-balanced"
    };
    if text(&made["diskType"]) != format!("zones/{zone}/diskTypes/{disk}") || body["disks"][0]["autoDelete"] != true {
        return invalid("disks[0]", &body["disks"][0].to_string());
    }
    let cards = body["guestAccelerators"].as_array().map(Vec::as_slice).unwrap_or_default();
    match (kind.strip_prefix("n1-standard-"), cards) {
        (None, []) => {}
        // Another type than the machine's own has no cards to attach, and N1 without them would have none.
        (None, _) => {
            return Err(format!("[{kind}] features are not compatible for creating instance: guestAccelerators"));
        }
        (Some(_), [one]) => {
            let path = format!("projects/{PROJECT}/zones/{zone}/acceleratorTypes/nvidia-tesla-");
            let named = text(&one["acceleratorType"]);
            let is_known = named.strip_prefix(&path).is_some_and(|card| ["t4", "v100", "p100"].contains(&card));
            if !is_known || one["acceleratorCount"].as_u64().is_none_or(|count| count == 0) {
                return invalid("guestAccelerators[0]", &one.to_string());
            }
            if body["resourcePolicies"].as_array().is_some_and(|policies| !policies.is_empty()) {
                return Err(format!("Compact placement policies are not supported for {kind}"));
            }
        }
        (Some(_), _) => return invalid("guestAccelerators", &body["guestAccelerators"].to_string()),
    }
    let scheduling = &body["scheduling"];
    // A machine of a group has its end from its template.
    let life = text(&scheduling["maxRunDuration"]["seconds"]).parse();
    let is_bound = scheduling["provisioningModel"] == "RESERVATION_BOUND";
    let life: i64 = life.unwrap_or(if is_bound || scheduling["terminationTime"].is_string() { 30 } else { 0 });
    // "About VMs that use the reservation-bound model": of these series alone, and from the reservation that they name.
    let named = &body["reservationAffinity"];
    let is_named = named["consumeReservationType"] == "SPECIFIC_RESERVATION"
        && named["key"] == "compute.googleapis.com/reservation-name";
    if is_bound
        && (!(kind.starts_with("a3-") || kind.starts_with("a4"))
            || !is_named
            || scheduling["maxRunDuration"].is_object())
    {
        return invalid("scheduling.provisioningModel", "RESERVATION_BOUND");
    }
    if !(30..=120 * 24 * 3600).contains(&life)
        || scheduling["automaticRestart"] != false
        || scheduling["onHostMaintenance"] != if kind.starts_with("e2-") { "MIGRATE" } else { "TERMINATE" }
    {
        return invalid("scheduling", &scheduling.to_string());
    }
    // "About flex-start VMs": a week at most, and never from a reservation.
    let takes_reservation = body["reservationAffinity"]["consumeReservationType"] != "NO_RESERVATION";
    if scheduling["provisioningModel"] == "FLEX_START" && (life > 7 * 24 * 3600 || takes_reservation) {
        return invalid("scheduling.provisioningModel", "FLEX_START");
    }
    let (region, _) = zone.rsplit_once('-').unwrap();
    let subnetwork = text(&body["networkInterfaces"][0]["subnetwork"]);
    if subnetwork != format!("projects/{PROJECT}/regions/{region}/subnetworks/gpuplan") {
        return Err(format!(
            "Invalid value for field 'resource.networkInterfaces[0].subnetwork': '{subnetwork}'. The referenced resource does not exist."
        ));
    }
    let key = Regex::new("^[a-z][a-z0-9_-]{0,62}$").unwrap();
    let value = Regex::new("^[a-z0-9_-]{0,63}$").unwrap();
    let labels = body["labels"].as_object().unwrap();
    match labels.iter().find(|(name, label)| !key.is_match(name) || !value.is_match(label.as_str().unwrap())) {
        Some((name, _)) => invalid("labels", name),
        None if labels.len() > 64 => invalid("labels", "more than 64"),
        None => Ok(()),
    }
}

/// Machines can be reserved at once, for as long as is asked.
fn soon(call: &Call) -> Answer {
    let spec = &call.body["futureResourcesSpecs"]["machines"];
    let seconds: i64 = spec["timeRangeSpec"]["minDuration"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    let starts = Timestamp::now();
    let ends = starts + jiff::SignedDuration::from_secs(seconds);
    Answer::Json(
        json!({"recommendations": [{"recommendationsPerSpec": {"machines": {"recommendationType": "FUTURE_RESERVATION",
        "location": "zones/us-central1-a", "startTime": format!("{starts:.0}"), "endTime": format!("{ends:.0}")}}}]}),
    )
}

/// Zones have a letter more.
fn is_region(place: &str) -> bool {
    place.matches('-').count() == 1
}

/// As Google describes it: addresses in full.
fn described(rented: &Rented) -> Value {
    let mut instance = rented.body.clone();
    let base = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}");
    instance["id"] = rented.number.to_string().into();
    instance["zone"] = format!("{base}/zones/{}", rented.zone).into();
    instance["machineType"] = format!("{base}/{}", rented.body["machineType"].as_str().unwrap()).into();
    instance["creationTimestamp"] = rented.created.to_string().into();
    instance["status"] = match rented.status {
        Status::Running => "RUNNING",
        Status::Stopping => "STOPPING",
        Status::Terminated => "TERMINATED",
    }
    .into();
    instance
}

/// `g2-standard-4`, `a3-highgpu-8g` and `a4-highgpu-8g` in three zones of two regions.
fn machine_types() -> Answer {
    let types = |zone: &str| {
        let one = |name: &str| json!({"name": name, "zone": zone});
        let n1 = json!({"name": "n1-standard-8", "zone": zone, "guestCpus": 8, "memoryMb": 30_720});
        json!({"machineTypes": [one("g2-standard-4"), one("a3-highgpu-8g"), one("a4-highgpu-8g"), n1]})
    };
    let zones = ["us-central1-a", "us-central1-b", "us-east4-a"];
    Answer::Json(
        json!({"items": zones.iter().map(|zone| (format!("zones/{zone}"), types(zone))).collect::<serde_json::Map<_, _>>()}),
    )
}

/// Whether the process lives and belongs to the machine. A dead one that nobody has asked after has no environment.
fn is_marked(pid: i32, folder: &Path) -> bool {
    let mark = format!("{MARK}={}", folder.display());
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
}

fn processes(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| is_marked(*pid, folder)).collect()
}

fn end(folder: &Path) {
    for _ in 0..10 {
        let marked = processes(folder);
        if marked.is_empty() {
            return;
        }
        for pid in marked.into_iter().filter_map(Pid::from_raw) {
            // Gone already is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
