//! `--leader`: a small machine leads the run, so that no computer of the user has to stay on. It is a run of its own, one on-demand machine whose
//! command is `gpuplan watch`, with a lease, an end and logs like any other; machines that train get no right to rent.

use std::path::Path;
use std::time::Duration;

use crate::running::launch::arguments::Leader;
use crate::running::launch::folder::archive_file;
use crate::running::launch::lead::lead_until;
use crate::runs::journal::record_intent;
use crate::runs::launchers::launchers_of_run;
use crate::runs::store::{store_of_run, unasked_store};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_clouds::reader::Reader;
use gpuplan_clouds::{aws, fake, gcp};
use gpuplan_launch::job::command_line;
use gpuplan_launch::spec::{LIVES, Offered};
use gpuplan_launch::{End, Job, Market, Parcel, Pool, RunSpec};
use gpuplan_report::text::format::usd;
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{Leading, Run, StoreError, sha256};
use gpuplan_spot::AvailabilityModel;
use gpuplan_units::{Hours, Usd, UsdPerHour};

/// 2 vCPUs and 2 GiB of x86-64. A leader waits nearly all of its time.
const OF_AWS: &str = "t3.small";
/// What it costs an hour in São Paulo, the dearest region; $0.0208 in us-east-1 (AWS, EC2 on-demand pricing).
const RATE_OF_AWS: UsdPerHour = UsdPerHour::from_nanos(33_600_000);
/// The same on Google Cloud, where half of a core is its own.
const OF_GOOGLE: &str = "e2-small";
/// $0.0168 in us-central1 (half a vCPU and 2 GiB by the rates of Cyclenerd's price list, 2026) times 1.6, what an e2-highcpu costs in Dammam, the
/// dearest region, over us-central1: no row of an e2-small there was at hand.
const RATE_OF_GOOGLE: UsdPerHour = UsdPerHour::from_nanos(26_900_000);
/// For the program and its journal; an image that needs more gets it. Judgement.
const DISK_GIB: u32 = 30;
/// It outlives the machines that it leads by so much. Hours. Judgement.
const LONGER: f64 = 2.0;
/// Until it leads: its start, its files, and a region or two that have no such machine. Judgement.
const PATIENCE: Duration = Duration::from_mins(20);
/// Between two looks whether it leads.
const LOOK: Duration = Duration::from_secs(2);
/// The program, in the folder of the command.
const PROGRAM: &str = "gpuplan";

/// Of the machine that leads a run.
pub fn name(run: &str) -> String {
    format!("{run}-leader")
}

/// What is rented so that a run is led.
#[derive(Debug)]
pub struct LeadingMachine {
    spec: RunSpec,
    /// The program as an archive, and its place in the store.
    program: Option<(String, Vec<u8>)>,
}

impl LeadingMachine {
    /// Before a yes: everything that can be wrong with it here.
    pub fn prepare(by: Option<Leader>, of: &RunSpec) -> Result<Option<Self>, Diagnostic> {
        let Some(by) = by else { return Ok(None) };
        let cloud = of.places().next().map_or("", |offered| of.rented_from(&offered.pool.cloud));
        let is_there = match by {
            Leader::Aws => cloud == aws::CLOUD,
            Leader::Gcp => cloud == gcp::CLOUD,
            Leader::Fake => cloud == fake::CLOUD,
        };
        if !is_there {
            let why = format!("a machine that leads a run is rented where its machines are, and these are at {cloud}");
            return Err(Diagnostic::usage(why).hint("gpuplan watch RUN --unit  leads from a machine of yours"));
        }
        let name = name(&of.run);
        Layout::new(&name).map_err(|error| Diagnostic::usage(&error).hint("--run NAME, shorter"))?;
        let here = std::env::current_exe().map_err(Diagnostic::unexpected)?;
        let (program, workdir, called) = match by {
            Leader::Fake => (None, None, command_line(&[here.to_string_lossy().into_owned()])),
            Leader::Aws | Leader::Gcp => {
                let archive = packed(&here)?;
                let sha256 = sha256(&archive);
                let key = unasked_store(&of.store, &name)?.workdir_key(&sha256);
                (Some((key.clone(), archive)), Some(Parcel::Stored { key, sha256 }), format!("./{PROGRAM}"))
            }
        };
        let job = Job {
            command: vec!["sh".to_owned(), "-c".to_owned(), script(&called, of)],
            agent: of.job.agent.clone(),
            workdir,
            setup: None,
            environment: environment(by, of),
            secrets: Vec::new(),
            data: None,
            container: None,
            container_login: None,
            sweep: None,
            agent_options: Vec::new(),
            // A leading machine reads no secret.
            notify: of
                .job
                .notify
                .clone()
                .filter(|address| Reader::parse(address).is_ok_and(|reader| !reader.needs_password())),
        };
        Ok(Some(Self { spec: spec(by, name, of, job), program }))
    }

    /// What a yes means for it.
    pub fn words(&self) -> String {
        let first = self.spec.places().next().expect("it has the places of its run").pool.clone();
        let worst = self.spec.worst_case().map_or_else(|| "more than can be counted".to_owned(), usd);
        format!(
            "led       by a machine of its own, {} in {}, {} at worst; this computer can be switched off. It is the run {}",
            first.instance_type, first.region, worst, self.spec.run
        )
    }

    /// Rents it, and waits until it leads.
    pub fn start(self, run: &RunSpec, session: &Session) -> Result<Exit, Diagnostic> {
        // Its time begins with the yes, too.
        let spec = RunSpec {
            started_at: run.started_at,
            silence_seconds: run.silence_seconds,
            settles_seconds: run.settles_seconds,
            ..self.spec
        };
        let own = store_of_run(&spec)?;
        if let Some((key, archive)) = self.program {
            runtime()?.block_on(own.keep_parcel(&key, archive))?;
        }
        let mut journal = record_intent(&spec, &own, session)?;
        let launchers = launchers_of_run(&spec, session)?;
        let policy = spec.policy(&AvailabilityModel::prior());
        let led = store_of_run(run)?;
        let others = led.clone();
        let is_led = async move {
            let looking = async { while leader(&others).await.is_none() {} };
            // Whoever waits longer finds the reason in its log.
            let _ = tokio::time::timeout(PATIENCE, looking).await;
        };
        let end = lead_until(&spec, policy, launchers, &mut journal, false, session, is_led);
        let concluded = conclude(end, run, &led, &spec.run, session);
        if concluded.is_ok() {
            // Its machine needs nobody any more.
            runtime()?.block_on(leave(&own))?;
        }
        concluded
    }
}

/// One look, and a pause where nobody leads.
async fn leader(run: &Run) -> Option<Leading> {
    let leading = run.leading().await.ok().flatten();
    if leading.is_none() {
        tokio::time::sleep(LOOK).await;
    }
    leading
}

/// Whoever looks after the run from now on may.
async fn leave(run: &Run) -> Result<(), StoreError> {
    match run.leading().await? {
        Some(Leading { number, lead: Some(lead), .. }) => run.end_lead(number, &lead).await,
        _ => Ok(()),
    }
}

fn conclude(
    end: Result<Option<End>, Diagnostic>,
    run: &RunSpec,
    led: &Run,
    leader: &str,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let name = &run.run;
    if runtime()?.block_on(led.leading())?.is_some() {
        session.printer.note(&format!(
            "gpuplan: {name} is led by a machine of its own; `gpuplan status {name}`, `gpuplan stop {name}`, `gpuplan logs {leader}`"
        ));
        return session.printer.data(&format!("{name}\n"));
    }
    let why = match end {
        Err(diagnostic) => diagnostic.message,
        Ok(Some(end)) => format!("its machine has ended ({end:?})"),
        Ok(None) => "it was not waited for".to_owned(),
    };
    let none = format!("{leader} does not lead {name} yet, and no machine was rented for {name}: {why}");
    Err(Diagnostic::new(Exit::MayStillCost, none)
        .hint(format!("gpuplan logs {leader}"))
        .hint(format!("gpuplan stop {leader}"))
        .hint(format!("gpuplan watch {name}  leads it from here")))
}

/// What the program there has to know of the account: the region of the store, or the project and the name of its setup.
fn environment(by: Leader, of: &RunSpec) -> Vec<(String, String)> {
    match by {
        Leader::Aws | Leader::Fake => {
            of.job.environment.iter().filter(|(name, _)| name == "AWS_REGION").cloned().collect()
        }
        Leader::Gcp => gcp::account::project::settings(),
    }
}

/// One machine wherever the run may rent, for as long as its machines may live.
fn spec(by: Leader, name: String, of: &RunSpec, job: Job) -> RunSpec {
    let (instance, rate) = match by {
        Leader::Aws | Leader::Fake => (OF_AWS, RATE_OF_AWS),
        Leader::Gcp => (OF_GOOGLE, RATE_OF_GOOGLE),
    };
    let mut regions: Vec<Pool> = Vec::new();
    for pool in of.places().map(|offered| &offered.pool) {
        if !regions.iter().any(|known| known.region == pool.region) {
            let market = Market::OnDemand;
            regions.push(Pool { zone_id: None, instance_type: instance.to_owned(), market, ..pool.clone() });
        }
    }
    let planned = of.expected.as_ref().map_or(0.0, |expected| LIVES * expected.hours.p90);
    let lifetime_hours = planned.max(of.lifetime_hours) + LONGER;
    RunSpec {
        leads: Some(of.run.clone()),
        run: name,
        nodes: 1,
        spot: Vec::new(),
        on_demand: regions.into_iter().map(|pool| Offered::new(pool, rate)).collect(),
        work_hours: lifetime_hours,
        deadline_hours: None,
        budget_usd: None,
        lifetime_hours,
        expected_cost_usd: rate.for_hours(1, Hours(of.work_hours + of.worst_changeover_hours).0).unwrap_or(Usd::ZERO),
        steps: 1.0,
        image: None,
        disk_gib: DISK_GIB,
        is_kept: false,
        keep_warm_seconds: None,
        takes: None,
        block: None,
        expected: None,
        job,
        ..of.clone()
    }
}

/// Leads until the run has ended, or somebody else leads it: exit codes that no further try changes. It knows the run from its store; where the
/// journal has it already, to take it over again is refused, which is as good. A store or a cloud that does not answer, as to a machine that is new,
/// is asked again.
fn script(program: &str, of: &RunSpec) -> String {
    let (run, store) = (command_line(std::slice::from_ref(&of.run)), command_line(std::slice::from_ref(&of.store)));
    let known = if of.stand_in.is_some() {
        // The same user on the same computer: the journal is there.
        homes()
    } else {
        format!(
            "export HOME=\"${{HOME:-$PWD}}\"\nwhile :; do\n  {program} take-over {run} --store {store} -y\n  code=$?\n  case $code in 0 | 2) break ;; esac\n  sleep 10\ndone"
        )
    };
    format!(
        "{known}\nwhile :; do\n  {program} watch {run}\n  code=$?\n  case $code in 0 | 2 | 4 | 6 | 7 | 8) exit 0 ;; esac\n  sleep 10\ndone"
    )
}

/// Where this program keeps what it must not lose.
fn homes() -> String {
    let set = ["GPUPLAN_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].into_iter();
    let lines = set.filter_map(|name| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some(format!("export {name}={}", command_line(&[value])))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The program as a machine unpacks it.
fn packed(program: &Path) -> Result<Vec<u8>, Diagnostic> {
    archive_file(program, PROGRAM).map_err(|error| Diagnostic::file(program, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::launch::keep_alive;

    #[test]
    fn it_may_rent_where_its_run_may_and_lives_a_little_longer() {
        let of = keep_alive::tests::spec();
        let machine = LeadingMachine::prepare(Some(Leader::Aws), &of).unwrap().unwrap();
        let spec = &machine.spec;
        assert_eq!((spec.run.as_str(), spec.leads.as_deref()), (name(&of.run).as_str(), Some(of.run.as_str())));
        assert!(spec.spot.is_empty() && spec.on_demand.iter().all(|offered| offered.pool.market == Market::OnDemand));
        assert!(spec.lifetime_hours > of.lifetime_hours);
        let (archive, worst) = (machine.program.as_ref().unwrap(), spec.worst_case().unwrap().dollars());
        assert!(worst < 0.05 * (spec.lifetime_hours + 1.0), "{worst}");
        let mut read = tar::Archive::new(flate2::read::GzDecoder::new(archive.1.as_slice()));
        let names: Vec<String> = read
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, [PROGRAM]);
        assert!(RunSpec::read(&spec.write().unwrap()).unwrap() == *spec);
    }

    /// As its machine runs it, with a program that says what it was asked.
    #[test]
    fn a_store_that_does_not_answer_at_first_is_asked_again() {
        let machine = LeadingMachine::prepare(Some(Leader::Aws), &keep_alive::tests::spec()).unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let stub = "#!/bin/sh\necho $1 >>asked\ncase $(wc -l <asked) in 1) exit 8 ;; 2) exit 1 ;; 4) exit 9 ;; *) exit 0 ;; esac\n";
        let path = folder.path().join(PROGRAM);
        std::fs::write(&path, stub).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let script = format!("sleep() {{ :; }}\n{}", machine.spec.job.command[2]);
        let ended = std::process::Command::new("sh").args(["-c", &script]).current_dir(folder.path()).status().unwrap();
        assert!(ended.success());
        let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
        assert_eq!(asked, "take-over\ntake-over\ntake-over\nwatch\nwatch\n");
    }

    #[test]
    fn nobody_leads_from_another_cloud() {
        for by in [Leader::Fake, Leader::Gcp] {
            let refused = LeadingMachine::prepare(Some(by), &keep_alive::tests::spec()).unwrap_err();
            assert!(refused.message.contains("these are at aws"), "{}", refused.message);
        }
    }

    #[test]
    fn on_google_cloud_it_is_a_machine_of_google() {
        let mut of = keep_alive::tests::spec();
        for place in of.spot.iter_mut().chain(&mut of.on_demand) {
            (place.pool.cloud, place.pool.region) = ("gcp".to_owned(), "us-central1".to_owned());
        }
        let machine = LeadingMachine::prepare(Some(Leader::Gcp), &of).unwrap().unwrap();
        let [place] = &machine.spec.on_demand[..] else { panic!("{:?}", machine.spec.on_demand) };
        assert_eq!((place.pool.instance_type.as_str(), place.pool.zone_id.as_deref()), ("e2-small", None));
        assert!(machine.words().contains("e2-small in us-central1"), "{}", machine.words());
        assert!(machine.spec.job.environment.iter().all(|(name, _)| name != "AWS_REGION"));
    }
}
