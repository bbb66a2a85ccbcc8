//! The boot script: the first thing that a rented machine runs. Its first line arms the end of the machine.

pub mod request;

use jiff::Timestamp;
use shlex::Quoter;

use crate::controller::events::Order;
use crate::job::Data;
use crate::spec::RunSpec;
use gpuplan_runstore::OrderedBy;
use gpuplan_runstore::store::Link;

/// What every boot script says alike: how to fetch, to fail and to end.
const PRELUDE: &str = include_str!("boot.sh");
const SECONDS_PER_MINUTE: u64 = 60;
/// A machine lives so long on its share without a word of progress: its agent asks for the next term from half of it on, so a store may be away for the
/// other half. Judgement. Seconds.
pub const TERM: u64 = 6 * 3600;

/// What one machine of a run is told.
pub struct Boot<'a> {
    pub spec: &'a RunSpec,
    pub order: &'a Order,
    pub agent: Source,
    pub workdir: Option<Source>,
    /// `None`: no leader did, as where a cloud starts machines by itself.
    pub ordered_by: Option<OrderedBy>,
    /// By the clock of the run: whoever leads ends it then, and so does its cloud, however long it took to boot.
    pub ends_at: Timestamp,
}

/// A file for a machine, as its boot script takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is on the machine.
    Here(String),
    Fetched {
        from: String,
        sha256: String,
    },
}

impl Source {
    pub fn linked(link: &Link, sha256: &str) -> Self {
        let from = match link {
            Link::File(path) => path.to_string_lossy().into_owned(),
            Link::Signed(url) => url.clone(),
            Link::Identified(url) => format!("identified:{url}"),
        };
        Self::Fetched { from, sha256: sha256.to_owned() }
    }
}

/// A POSIX shell script. It carries no secret: a boot script can be read by whoever may describe the machine.
pub fn script(boot: &Boot) -> String {
    let (spec, order, job) = (boot.spec, boot.order, &boot.spec.job);
    let life = order.lifetime.max(0.0) as u64;
    let minutes = life.div_ceil(SECONDS_PER_MINUTE);
    let cloud = spec.rented_from(&order.choice.pool.cloud);
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        format!("# The machine ends itself after {life} s, whatever becomes of the rest."),
        format!(
            "if [ -n \"${{GPUPLAN_END_MACHINE:-}}\" ]; then (sleep {life}; $GPUPLAN_END_MACHINE) >/dev/null 2>&1 & \
             else shutdown -P +{minutes}; fi"
        ),
        format!("ends_at=$(($(date +%s) + {life})) cloud={} store={}", quoted(cloud), quoted(&spec.store)),
        prelude(),
        format!("end={}; [ \"$ends_at\" -gt \"$end\" ] || end=$ends_at", boot.ends_at.as_second()),
        "keep GPUPLAN_ENDS_AT \"$end\"".to_owned(),
        boot.ordered_by.as_ref().map_or_else(String::new, |_| format!("hold_lease {}", first_term(spec))),
        written("hand-off.json", &hand_off(boot).to_string()),
    ];
    lines.push(match &boot.agent {
        Source::Here(path) => format!("agent={}", quoted(path)),
        Source::Fetched { from, sha256 } => {
            format!("fetch agent {sha256} {}\nchmod 700 agent\nagent=$place/agent", quoted(from))
        }
    });
    if let Some(Source::Fetched { from, sha256 }) = &boot.workdir {
        lines.push(format!("fetch workdir.tar.gz {sha256} {}", quoted(from)));
        lines.push("tar -xzf workdir.tar.gz -C work || fail 'the folder of the job cannot be unpacked'".to_owned());
    }
    // The first is the region of the run's store, which the tools of this script ask for, too. No other variable of the job acts here.
    let region = job.environment.iter().find(|(name, _)| cloud == "aws" && name == "AWS_REGION");
    lines.extend(region.map(|(name, value)| format!("export {name}={}", quoted(value))));
    lines.extend(job.environment.iter().map(|(name, value)| format!("keep {name} {}", quoted(value))));
    let secrets = job.secrets.iter();
    lines.extend(secrets.map(|secret| format!("take_secret {} {}", secret.variable, quoted(&secret.name))));
    let placed = |data: &Data| {
        if data.is_mounted { format!("mount_data {}", quoted(&data.address)) } else { "choose_data_folder".to_owned() }
    };
    lines.extend(job.data.iter().map(placed));
    let login = job.container_login.as_deref().map_or_else(String::new, |secret| " ".to_owned() + &quoted(secret));
    lines.extend(job.container.iter().map(|image| format!("pull {}{login}", quoted(image))));
    lines.push(written("start.sh", &start(boot)));
    lines.push("cd work".to_owned());
    lines.push(match &job.container {
        Some(image) => format!("name_of_container={}\nrun_in {} &", quoted(&order.name), quoted(image)),
        None => "sh ../start.sh &".to_owned(),
    });
    lines.push(LAST.to_owned());
    if job.container.is_some() {
        lines.push(
            "[ -e ../started ] || { cd ..; reject \"the container does not start (exit code $code): it needs a shell, and the \
                    machine NVIDIA's container toolkit\"; }"
                .to_owned(),
        );
    }
    lines.extend(spec.keep_warm_seconds.map(|seconds| {
        let (store, run) = (quoted(&spec.store), quoted(&spec.run));
        format!("[ $code != 0 ] || await_next {} {seconds:.0} {store} {run}", quoted(&order.token))
    }));
    lines.push(END.to_owned());
    lines.join("\n") + "\n"
}

/// With the start of the machine, in which nobody can show progress: twice the worst that the plan knows of.
fn first_term(spec: &RunSpec) -> u64 {
    TERM.max((2.0 * spec.worst_changeover_hours * 3600.0).ceil() as u64)
}

/// Without its comments and indents, which no text in it needs: EC2 takes 16 KiB of a boot script, and links that were signed with the keys of a session are long.
fn prelude() -> String {
    let lines = PRELUDE.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// What runs in the folder of the job, in its container if it has one, and becomes the agent.
fn start(boot: &Boot) -> String {
    let job = &boot.spec.job;
    let mut lines = vec![": >../started".to_owned(), ". ../environment".to_owned(), "rm -f ../environment".to_owned()];
    if job.container.is_some() {
        lines.push(CERTIFICATES.to_owned());
    }
    let agent = match &boot.agent {
        Source::Here(path) => quoted(path),
        Source::Fetched { .. } => "../agent".to_owned(),
    };
    let called = format!(
        "exec {agent} agent --store {} --hand-off ../hand-off.json ${{GPUPLAN_ENDS_AT:+--ends-at $GPUPLAN_ENDS_AT}}",
        quoted(&boot.spec.store)
    );
    // What fails here fails on every machine: the agent says so in the log of the run, which has failed by that.
    lines.extend(job.setup.iter().map(|setup| {
        format!(
            "sh -c {} >../setup.log 2>&1\ncode=$?\ncat ../setup.log >&2\n[ $code = 0 ] || {called} ${{GPUPLAN_AGENT_OPTIONS:-}} --no-restart -- sh -c {} sh $code",
            quoted(setup),
            quoted(SETUP_FAILED)
        )
    }));
    let copied = job.data.as_ref().filter(|data| !data.is_mounted);
    let data = copied.map_or_else(String::new, |data| {
        format!(" --data {} --data-folder \"$GPUPLAN_DATA_DIR\"", quoted(&data.address))
    });
    let sweep = job.sweep.map_or_else(String::new, |sweep| {
        format!(" --sweep {} --parallel {} --gpus-per-run {}", sweep.runs, sweep.parallel, sweep.gpus_per_run)
    });
    let options = job.agent_options.iter().fold(String::new(), |words, word| words + " " + &quoted(word));
    let command: Vec<String> = job.command.iter().map(|word| quoted(word)).collect();
    lines.push(format!("{called}{data}{sweep}{options} ${{GPUPLAN_AGENT_OPTIONS:-}} -- {}", command.join(" ")));
    lines.join("\n")
}

/// The lines that write a text into a file. The end is no line of the text.
fn written(file: &str, text: &str) -> String {
    let mut end = "GPUPLAN_END".to_owned();
    while text.contains(&end) {
        end.push('_');
    }
    format!("cat >{file} <<'{end}'\n{text}\n{end}")
}

/// Images without certificates of their own trust those of the machine.
const CERTIFICATES: &str = "[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || \
     [ ! -e ../certificates.crt ] || export SSL_CERT_FILE=\"$(cd .. && pwd)/certificates.crt\"";

/// In place of the command, with the exit code of the setup.
const SETUP_FAILED: &str =
    "tail -n 40 ../setup.log; echo \"gpuplan: the setup command failed with exit code $1\"; exit $1";

/// A shell hands no signal on by itself; a wait that a signal ends is no end of the agent.
const LAST: &str = "running=$!
trap 'kill -TERM $running' TERM INT HUP
code=0
wait $running || code=$?
while kill -0 $running 2>/dev/null; do
  code=0
  wait $running || code=$?
done
echo \"gpuplan: the agent ended with exit code $code\" >&2";

/// Interrupted, or followed by another machine, the run goes on.
const END: &str = "case $code in 75 | 76) finish ;; *) finish_for_good ;; esac";

fn hand_off(boot: &Boot) -> serde_json::Value {
    let (spec, order) = (boot.spec, boot.order);
    serde_json::json!({
        "version": 1,
        "run": spec.run,
        "node": order.node,
        "nodes": spec.nodes,
        "rate_usd_per_hour": order.choice.rate,
        "billing": { "minimum_seconds": order.choice.minimum_seconds },
        // With it people are told at 50, 80 and 100 %; and nobody has to lead the run for it to end there.
        "budget_usd": spec.budget_usd,
        "notify": spec.job.notify,
        "lifetime_seconds": order.lifetime.max(0.0) as u64,
        "ordered_by": boot.ordered_by,
        // Where no leader grants anything, as in a group of the cloud's, there is no share to live on.
        "lease": boot.ordered_by.as_ref().map(|_| serde_json::json!({
            "order": order.token,
            "term_seconds": TERM,
            "file": "../lease-ends",
        })),
    })
}

/// One word for a POSIX shell.
fn quoted(word: &str) -> String {
    Quoter::new().allow_nul(true).quote(word).expect("only a NUL is refused, and it is allowed").into_owned()
}

#[cfg(test)]
mod tests;
