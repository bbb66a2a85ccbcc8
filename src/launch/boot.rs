//! The boot script: the first thing that a rented machine runs. Its first line arms the end of the machine.

use crate::launch::events::Order;
use crate::launch::spec::RunSpec;
use crate::runstore::store::Link;

/// What every boot script says alike: how to fetch, to fail and to end.
const PRELUDE: &str = include_str!("boot.sh");
const SECONDS_PER_MINUTE: u64 = 60;

/// What one machine of a run is told.
pub struct Boot<'a> {
    pub spec: &'a RunSpec,
    pub order: &'a Order,
    pub agent: Source,
    pub workdir: Option<Source>,
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
    let cloud = spec.stand_in.as_deref().unwrap_or(&order.choice.pool.cloud);
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        format!("# The machine ends itself after {life} s, whatever becomes of the rest."),
        format!(
            "if [ -n \"${{GPUPLAN_END_MACHINE:-}}\" ]; then (sleep {life}; $GPUPLAN_END_MACHINE) >/dev/null 2>&1 & \
             else shutdown -P +{minutes}; fi"
        ),
        format!("cloud={}", quoted(cloud)),
        PRELUDE.trim_end().to_owned(),
        format!("cat >hand-off.json <<'GPUPLAN_HAND_OFF'\n{}\nGPUPLAN_HAND_OFF", hand_off(spec, order)),
    ];
    let agent = match &boot.agent {
        Source::Here(path) => quoted(path),
        Source::Fetched { from, sha256 } => {
            lines.push(format!("fetch agent {sha256} {}", quoted(from)));
            lines.push("chmod 700 agent".to_owned());
            "\"$place/agent\"".to_owned()
        }
    };
    if let Some(Source::Fetched { from, sha256 }) = &boot.workdir {
        lines.push(format!("fetch workdir.tar.gz {sha256} {}", quoted(from)));
        lines.push("tar -xzf workdir.tar.gz -C work || fail 'the folder of the job cannot be unpacked'".to_owned());
    }
    lines.extend(job.environment.iter().map(|(name, value)| format!("export {name}={}", quoted(value))));
    for secret in &job.secrets {
        let why = quoted(&format!("the secret {} cannot be read", secret.name));
        lines.push(format!("{}=$(secret {}) || fail {why}", secret.variable, quoted(&secret.name)));
        lines.push(format!("export {}", secret.variable));
    }
    lines.push("cd work".to_owned());
    lines.extend(job.setup.iter().map(|setup| format!("sh -c {} || fail 'the setup command failed'", quoted(setup))));
    let command: Vec<String> = job.command.iter().map(|word| quoted(word)).collect();
    lines.push(format!(
        "{agent} agent --store {} --hand-off ../hand-off.json ${{GPUPLAN_AGENT_OPTIONS:-}} -- {} &",
        quoted(&spec.store),
        command.join(" ")
    ));
    lines.push(LAST.to_owned());
    lines.join("\n") + "\n"
}

/// A shell hands no signal on by itself; a wait that a signal ends is no end of the agent.
const LAST: &str = "agent=$!
trap 'kill -TERM $agent' TERM INT HUP
code=0
wait $agent || code=$?
while kill -0 $agent 2>/dev/null; do
  code=0
  wait $agent || code=$?
done
echo \"gpuplan: the agent ended with exit code $code\" >&2
# Interrupted, or followed by another machine: the run goes on.
case $code in 75 | 76) finish ;; *) finish_for_good ;; esac";

fn hand_off(spec: &RunSpec, order: &Order) -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        "run": spec.run,
        "node": order.node,
        "nodes": spec.nodes,
        "rate_usd_per_hour": order.choice.rate,
        "billing": { "step_seconds": order.choice.rule.step_seconds, "minimum_seconds": order.choice.rule.minimum_seconds },
        "lifetime_seconds": order.lifetime.max(0.0) as u64,
    })
}

/// One word for a POSIX shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::launch::events::Choice;
    use crate::launch::job::{Job, Parcel, Secret};
    use crate::launch::launcher::{Market, Pool};
    use crate::units::{BillingRule, Usd, UsdPerHour};

    fn spec() -> RunSpec {
        let parcel = |name: &str| Parcel::Stored { key: name.to_owned(), sha256: "ab".to_owned() };
        RunSpec {
            version: 1,
            run: "r".to_owned(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            stand_in: None,
            nodes: 2,
            spot: Vec::new(),
            on_demand: Vec::new(),
            work_hours: 1.0,
            deadline_hours: None,
            changeover_hours: 0.1,
            worst_changeover_hours: 0.2,
            budget_usd: None,
            lifetime_hours: 2.0,
            silence_seconds: 600.0,
            expected_cost_usd: Usd::ZERO,
            steps: 1.0,
            store: "s3://b/p".to_owned(),
            image: None,
            disk_gib: 100,
            tags: Vec::new(),
            is_kept: false,
            job: Job {
                command: vec!["./train.py".to_owned(), "it's".to_owned()],
                agent: parcel("agent"),
                workdir: Some(parcel("workdir")),
                setup: Some("pip install 'x y'".to_owned()),
                environment: vec![("A".to_owned(), "b $c".to_owned())],
                secrets: vec![Secret { variable: "T".to_owned(), name: "gpuplan/t".to_owned() }],
            },
        }
    }

    fn written(cloud: &str) -> String {
        let pool =
            Pool { cloud: cloud.to_owned(), region: "r".to_owned(), zone_id: None, instance_type: "t".to_owned(), market: Market::Spot };
        let order = Order {
            epoch: 1,
            node: 1,
            choice: Choice { pool, rate: UsdPerHour::from_nanos(1), rule: BillingRule::PER_SECOND },
            token: "t".to_owned(),
            name: "n".to_owned(),
            lifetime: 7201.0,
        };
        let signed = Link::Signed("https://b.s3.amazonaws.com/agent?X-Amz-Signature=a&b=c".to_owned());
        let source = Source::linked(&signed, "ab");
        script(&Boot { spec: &spec(), order: &order, agent: source.clone(), workdir: Some(source) })
    }

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(quoted("train.py"), "train.py");
        assert_eq!(quoted("it's $HOME; rm -rf"), r"'it'\''s $HOME; rm -rf'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_end_is_armed_first_and_whatever_follows_is_a_script() {
        let text = written("aws");
        let armed = text.lines().nth(2).unwrap();
        assert!(armed.contains("sleep 7201") && armed.contains("shutdown -P +121"), "{armed}");
        let order = [
            "shutdown -P +",
            "cat >hand-off.json",
            "fetch agent",
            "fetch workdir",
            "export A='b $c'",
            "secret gpuplan/t",
            "sh -c",
            "agent --store",
        ];
        let places: Vec<usize> = order.iter().map(|part| text.rfind(part).unwrap_or_else(|| panic!("{part}: {text}"))).collect();
        assert!(places.is_sorted(), "{places:?}: {text}");
        assert!(text.len() < 16 * 1024, "user data of EC2 ends at 16 KiB");
        let mut shell = Command::new("/bin/sh").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success(), "{text}");
    }
}
