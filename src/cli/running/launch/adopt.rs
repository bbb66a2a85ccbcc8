//! `adopt`: a run whose journal is lost, or lies with somebody else, is known here again. What its store says was written by its machines,
//! or by whoever else may write there, so nothing of it is believed that concerns this computer, and the rest is shown before a yes.

use std::path::Path;

use clap::Args;

use crate::runs::journal::{no_state_folder, open_journal};
use crate::runs::launchers::{clock, launchers_of_run, list_machines};
use crate::runs::store::open_store;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_clouds::{aws, fake, gcp};
use gpuplan_launch::job::command_line;
use gpuplan_launch::journal::Adopted;
use gpuplan_launch::rental::Rental;
use gpuplan_launch::spec::Offered;
use gpuplan_launch::{Clock, Job, Machine, MachineId, MachineState, Market, Parcel, Rentable, RunSpec};
use gpuplan_report::text::format::{rate, usd};
use gpuplan_report::text::wrap::wrap;
use gpuplan_runstore::{Billed, Run};
use gpuplan_units::Hours;

/// Epochs that a lost journal may have ordered without a trace in store or clouds: refused everywhere, or gone before a word.
const UNSEEN_EPOCHS: u64 = 1000;
/// No run gets here by itself: somebody wrote such a number. A new epoch has to be higher than all.
const MOST_EPOCHS: u64 = 1 << 32;

#[derive(Debug, Args)]
pub struct AdoptArguments {
    /// Name the run
    pub run: String,
    /// Find its checkpoints here
    #[arg(long, value_name = "URI")]
    pub store: String,
    /// Adopt a run of the fake cloud on this machine, where its command runs as you: fake
    #[arg(long, value_name = "CLOUD", value_parser = [fake::CLOUD])]
    pub cloud: Option<String>,
    /// Skip the confirmation
    #[arg(short, long)]
    pub yes: bool,
}

pub fn run(arguments: &AdoptArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let (run, runtime) = (open_store(&arguments.store, &arguments.run)?, runtime()?);
    let text = runtime.block_on(run.spec())?;
    let text = text.ok_or_else(|| {
        Diagnostic::usage(format!("{} has no run `{}`", arguments.store, arguments.run))
            .hint("gpuplan take-over RUN --store URI")
    })?;
    let spec = RunSpec::read(&text).map_err(|error| {
        Diagnostic::usage(format!("`{}` was not launched by `gpuplan launch`: {error}", printable(&arguments.run)))
    })?;
    let own = session.home.state_file("fake-cloud").ok_or_else(no_state_folder)?.join("store");
    let spec = believed(spec, &run, arguments, &own)?;
    tell(&spec, session);
    session
        .printer
        .confirm(arguments.yes, &format!("gpuplan take-over {} --store {} -y", arguments.run, arguments.store))?;
    let mut machines = Vec::new();
    for (cloud, answer) in list_machines(&launchers_of_run(&spec, session)?, Some(&arguments.run))? {
        let answer = answer.map_err(|error| {
            Diagnostic::new(
                Exit::CloudRefused,
                format!("{cloud} does not report which machines run, and nothing was adopted: {error}"),
            )
            .hint("gpuplan doctor")
        })?;
        machines.extend(answer);
    }
    let billed = runtime.block_on(run.billed_all())?;
    let epoch = runtime.block_on(run.highest_epoch())?;
    if let Some(number) =
        machines.iter().map(|machine| machine.epoch).chain([epoch]).find(|number| *number > MOST_EPOCHS)
    {
        let why = format!("{} has an epoch {number}, which no launch wrote", arguments.run);
        return Err(Diagnostic::usage(why).hint(format!("delete runs/{}/epochs/{number} in the store", arguments.run)));
    }
    let adopted = adopted(spec, &machines, &billed, epoch);
    let (alive, earlier) = (adopted.machines.len(), adopted.earlier.len());
    if !open_journal(session)?.adopt(&adopted)? {
        return Err(Diagnostic::usage(format!("the journal on this machine already has a run `{}`", arguments.run))
            .hint("gpuplan status"));
    }
    session.printer.note(&format!("hint: gpuplan watch {} resumes leading it", arguments.run));
    session
        .printer
        .data(&format!("{}: adopted, {alive} machines are there, {earlier} were paid before\n", arguments.run))
}

/// What a specification from a store may say: machines of a cloud, and what these are to do. Nothing of it may point to this computer.
fn believed(spec: RunSpec, run: &Run, arguments: &AdoptArguments, own: &Path) -> Result<RunSpec, Diagnostic> {
    let refuse = |why: &str| Diagnostic::usage(format!("`{}` cannot be adopted: {why}", arguments.run));
    if spec.run != arguments.run {
        return Err(refuse(&format!("what lies there is the specification of `{}`", printable(&spec.run))));
    }
    if let Some(why) = unsound(&spec) {
        return Err(refuse(why));
    }
    let job = match (spec.clouds().contains(fake::CLOUD), arguments.cloud.is_some()) {
        (true, true) => on_this_computer(spec.job.clone(), arguments, own)?,
        (true, false) => {
            return Err(refuse(
                "it says that its machines are processes of this computer, where its command would run as you",
            )
            .hint(format!(
                "gpuplan take-over {} --store {} --cloud fake, if it is yours",
                arguments.run, arguments.store
            )));
        }
        (false, true) => return Err(refuse("it is no run of the fake cloud").hint("leave --cloud out")),
        (false, false) if spec.stand_in.is_some() => return Err(refuse("it names a stand-in for its clouds")),
        (false, false) => checked_files(spec.job.clone(), run).map_err(refuse)?,
    };
    // The store that was named, whatever the object in it says of itself.
    Ok(RunSpec { store: arguments.store.clone(), job, ..spec })
}

/// Why nobody could say what such a run costs at most; `None`: the worst case that is shown is one.
fn unsound(spec: &RunSpec) -> Option<&'static str> {
    let times = [spec.lifetime_hours, spec.silence_seconds, spec.settles_seconds];
    if spec.nodes == 0 || times.iter().any(|time| !time.is_finite() || *time <= 0.0) {
        return Some("its specification has no machine, or one without a lifetime");
    }
    let is_priced = |place: &Offered| place.rate_usd_per_hour.nanos() > 0 && place.most() >= place.rate_usd_per_hour;
    if !spec.places().all(is_priced) {
        return Some(
            "its specification has a machine without a price, or one that may cost more than the most that is said",
        );
    }
    // What stands on a block was paid for, and no lease bounds it.
    let is_on_block = |place: &Offered| {
        place.pool.market == Market::CapacityBlock && [aws::CLOUD, gcp::CLOUD].contains(&&*place.pool.cloud)
    };
    let has_block = spec.block.is_some();
    if has_block != spec.places().any(is_on_block) || has_block && !spec.places().all(is_on_block) {
        return Some("its machines do not stand on the capacity block that it says was paid for");
    }
    None
}

/// The fake cloud runs a command here, so only what it stored itself is taken, and no program but this one.
fn on_this_computer(job: Job, arguments: &AdoptArguments, own: &Path) -> Result<Job, Diagnostic> {
    let named = arguments.store.strip_prefix("file://").unwrap_or(&arguments.store);
    let is_own =
        std::fs::canonicalize(named).is_ok_and(|named| std::fs::canonicalize(own).is_ok_and(|own| own == named));
    if !is_own {
        return Err(Diagnostic::usage(format!(
            "only what the fake cloud of this computer has stored may run here, in {}",
            own.display()
        ))
        .hint("gpuplan launch --cloud fake --run NAME --store URI ... goes on from checkpoints elsewhere"));
    }
    let program = std::env::current_exe().map_err(Diagnostic::unexpected)?;
    Ok(Job { agent: Parcel::Here(program.to_string_lossy().into_owned()), ..job })
}

/// Files of the job lie where a launch puts them: a link is signed with the keys of this user, and could be to anything.
fn checked_files(job: Job, run: &Run) -> Result<Job, &'static str> {
    let is_own = |parcel: &Parcel, place: &dyn Fn(&str) -> String| match parcel {
        Parcel::Here(_) => false,
        Parcel::Address { .. } => true,
        Parcel::Stored { key, sha256 } => *key == place(sha256),
    };
    if !is_own(&job.agent, &Run::agent_key) {
        return Err("its agent is no object of the store that a launch sends");
    }
    match &job.workdir {
        Some(parcel) if !is_own(parcel, &|sha256| run.workdir_key(sha256)) => {
            Err("its folder is no object of the store that a launch sends")
        }
        _ => Ok(job),
    }
}

/// Everything that a yes means. All of it is somebody's text.
fn tell(spec: &RunSpec, session: &Session) {
    let mut places: Vec<String> =
        spec.places().map(|offered| format!("{} in {}", offered.pool.instance_type, offered.pool.region)).collect();
    places.sort();
    places.dedup();
    let budget = spec.budget_usd.map_or_else(|| "none".to_owned(), usd);
    let worst = spec.worst_case().map_or_else(|| "more than can be counted".to_owned(), usd);
    let job = &spec.job;
    let rates = || spec.places().map(Offered::most);
    let (least, most) = (rates().min().unwrap_or_default(), rates().max().unwrap_or_default());
    let mut lines = vec![
        format!("run       {}, as its store describes it", spec.run),
        format!("machine   {} x {}", spec.nodes, places.join(" or ")),
        format!("price     {} to {} an hour a machine, if its store is right", rate(least), rate(most)),
        format!("cost      budget {budget}; at worst {worst}"),
        format!("life      no machine runs longer than {}", Hours(spec.lifetime_hours)),
        format!("store     {}", spec.store),
    ];
    if let Parcel::Address { url, .. } = &job.agent {
        lines.push(format!("agent     {url}"));
    }
    lines.extend(spec.image.iter().map(|image| format!("image     {image}")));
    lines.extend(job.data.iter().map(|data| format!("data      {}", data.address)));
    lines.extend(job.environment.iter().map(|(name, value)| format!("variable  {name}={value}")));
    lines.extend(job.notify.iter().map(|url| format!("notify    {url}")));
    lines.extend(job.container.iter().map(|image| format!("container {image}{}", job.login_words())));
    lines.extend(job.setup.iter().map(|setup| format!("setup     {setup}")));
    if !job.secrets.is_empty() {
        let names: Vec<&str> = job.secrets.iter().map(|secret| secret.name.as_str()).collect();
        lines.push(format!("secrets   {}", names.join(", ")));
    }
    lines.push(format!("command   {}", command_line(&job.command)));
    let wrapped: Vec<String> = lines.iter().map(|line| wrap(&printable(line), session.width, "          ")).collect();
    session.printer.note(&wrapped.join("\n"));
}

/// Text of others without what would move the cursor, change colours or turn the direction of writing.
fn printable(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().flat_map(|c| if is_hidden(c) { c.escape_unicode().collect::<Vec<_>>() } else { vec![c] }).collect()
}

fn adopted(spec: RunSpec, machines: &[Machine], billed: &[Billed], highest_epoch: u64) -> Adopted {
    let clock = clock(&spec);
    let mut alive = Vec::new();
    for machine in machines.iter().filter(|machine| machine.state != MachineState::Gone) {
        let known = spec.places().find(|offered| offered.pool == machine.pool).or_else(|| spec.places().next());
        if let Some(offered) = known {
            let choice = Rentable { pool: machine.pool.clone(), ..offered.choice() };
            alive.push((machine.clone(), choice, clock.of(machine.created_at)));
        }
    }
    let first_alive = alive.iter().map(|(machine, _, _)| machine.created_at).min();
    let is_earlier = |billed: &&Billed| first_alive.is_none_or(|first| billed.from < first);
    let earlier =
        billed.iter().filter(is_earlier).map(|billed| (billed.epoch, billed.node, rental(billed, &clock))).collect();
    let epochs = machines.iter().map(|machine| machine.epoch);
    let epoch = match alive.iter().map(|(machine, _, _)| machine.epoch).max() {
        // Never two gangs at a time: what is there is the newest.
        Some(epoch) => epoch,
        None => epochs.max().unwrap_or(0).max(highest_epoch) + UNSEEN_EPOCHS,
    };
    let pool = alive.first().map(|(machine, _, _)| machine.pool.clone());
    Adopted { spec, machines: alive, earlier, epoch, pool }
}

/// As the agent measured it: from its start, not from the order.
fn rental(billed: &Billed, clock: &Clock) -> Rental {
    let since = clock.of(billed.from);
    Rental {
        machine: MachineId(format!("epoch {} node {}", billed.epoch, billed.node)),
        rate: billed.rate_usd_per_hour,
        minimum_seconds: billed.minimum_seconds,
        since,
        until: Some(since + billed.elapsed_nanos as f64 / 1e9 * clock.speed),
        moved: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_runstore::Store;
    use gpuplan_runstore::layout::Layout;
    use serde_json::{Value, json};

    type Change = fn(&mut Value);

    /// As somebody wrote it into a bucket.
    fn read(change: impl FnOnce(&mut Value)) -> RunSpec {
        let pool = json!({"cloud": "aws", "region": "us-east-1", "zone_id": null, "instance_type": "p5.48xlarge", "market": "spot"});
        let stored = |key: &str| json!({"stored": {"key": key, "sha256": "ab"}});
        let mut spec = json!({
            "version": 1, "run": "v", "started_at": "2026-11-23T00:00:00Z", "stand_in": null, "nodes": 1,
            "spot": [{"pool": pool, "rate_usd_per_hour": "1.5"}], "on_demand": [], "work_hours": 1.0, "deadline_hours": null,
            "changeover_hours": 0.1, "worst_changeover_hours": 0.2, "budget_usd": null, "lifetime_hours": 2.0, "silence_seconds": 600.0,
            "expected_cost_usd": "3", "steps": 1.0, "store": "file:///somewhere/else", "image": null, "disk_gib": 100, "tags": [],
            "job": {"command": ["python", "train.py"], "agent": stored("runs/_bin/ab/gpuplan"), "workdir": stored("runs/v/workdir/ab.tar.gz"),
                "setup": null, "environment": [], "secrets": []},
        });
        change(&mut spec);
        RunSpec::read(&spec.to_string()).unwrap()
    }

    fn believe(cloud: Option<&str>, change: impl FnOnce(&mut Value)) -> Result<RunSpec, String> {
        let (bucket, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let run = Run::new(Store::open(&bucket.path().display().to_string()).unwrap(), Layout::new("v").unwrap());
        let arguments = AdoptArguments {
            run: "v".to_owned(),
            store: format!("file://{}", bucket.path().display()),
            cloud: cloud.map(str::to_owned),
            yes: true,
        };
        let believed = believed(read(change), &run, &arguments, own.path()).map_err(|refused| refused.message)?;
        assert_eq!(believed.store, arguments.store, "the store that was named, and no other");
        Ok(believed)
    }

    /// A cent for a block, with which nothing that its machines cost is bounded.
    fn block(spec: &mut Value) {
        let offer = json!({"id": "cb-1", "zone_id": "use1-az1", "starts_at": "2026-11-23T00:00:00Z", "ends_at": "2026-11-24T00:00:00Z",
            "upfront_usd": "0.01"});
        spec["block"] = json!({"region": "us-east-1", "offer": offer, "reservation": "cr-1"});
    }

    #[test]
    fn a_store_names_no_path_and_no_command_for_this_computer() {
        assert!(believe(None, |_| ()).is_ok());
        let on_block = |spec: &mut Value| {
            block(spec);
            spec["spot"][0]["pool"]["market"] = json!("capacity-block");
        };
        assert!(believe(None, on_block).is_ok());
        let refused: [(&str, Option<&str>, Change); 15] = [
            ("processes of this computer", None, |spec| spec["stand_in"] = json!("fake")),
            ("processes of this computer", None, |spec| spec["spot"][0]["pool"]["cloud"] = json!("fake")),
            ("only what the fake cloud of this computer", Some("fake"), |spec| spec["stand_in"] = json!("fake")),
            ("no run of the fake cloud", Some("fake"), |_| ()),
            ("a stand-in", None, |spec| spec["stand_in"] = json!("gcp")),
            ("specification of `w`", None, |spec| spec["run"] = json!("w")),
            ("its agent", None, |spec| spec["job"]["agent"] = json!({"here": "/bin/sh"})),
            ("its folder", None, |spec| {
                spec["job"]["workdir"]["stored"]["key"] = json!("runs/other/workdir/ab.tar.gz");
            }),
            ("without a lifetime", None, |spec| spec["lifetime_hours"] = json!(-1.0)),
            ("without a lifetime", None, |spec| spec["silence_seconds"] = json!(0.0)),
            ("without a price", None, |spec| spec["spot"][0]["rate_usd_per_hour"] = json!("0")),
            ("may cost more than", None, |spec| spec["spot"][0]["most_usd_per_hour"] = json!("0.01")),
            // At worst a cent, it would say, for machines that nothing bounds.
            ("capacity block", None, block),
            ("capacity block", None, |spec| spec["spot"][0]["pool"]["market"] = json!("capacity-block")),
            ("capacity block", None, |spec| {
                block(spec);
                spec["spot"][0]["pool"]["market"] = json!("capacity-block");
                spec["spot"][0]["pool"]["cloud"] = json!("azure");
            }),
        ];
        for (why, cloud, change) in refused {
            let said = believe(cloud, change).unwrap_err();
            assert!(said.contains(why), "{why}: {said}");
        }
    }

    #[test]
    fn text_of_others_moves_no_cursor() {
        assert_eq!(printable("a\u{1b}[2J\r\u{202e}b\u{e9}"), "a\\u{1b}[2J\\u{d}\\u{202e}b\u{e9}");
    }
}
