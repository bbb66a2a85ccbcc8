//! The boot script: the first thing that a rented machine runs. Its first line arms the end of the machine.

use crate::launch::events::Order;
use crate::launch::spec::RunSpec;

/// What every machine of a run is told.
pub struct Boot<'a> {
    pub spec: &'a RunSpec,
    pub order: &'a Order,
    /// Where the agent lies on the machine, or is fetched to.
    pub agent: &'a str,
}

/// A POSIX shell script. It carries no secret: a boot script can be read by whoever may describe the machine.
pub fn script(boot: &Boot) -> String {
    let (spec, order) = (boot.spec, boot.order);
    let hand_off = serde_json::json!({
        "version": 1,
        "run": spec.run,
        "node": order.node,
        "nodes": spec.nodes,
        "rate_usd_per_hour": order.choice.rate,
        "billing": { "step_seconds": order.choice.rule.step_seconds, "minimum_seconds": order.choice.rule.minimum_seconds },
        "lifetime_seconds": order.lifetime.max(0.0) as u64,
    });
    let command: Vec<String> = spec.command.iter().map(|word| quoted(word)).collect();
    format!(
        "#!/bin/sh\n\
         # The machine ends itself after {life} s, whatever becomes of the rest.\n\
         (sleep {life}; ${{GPUPLAN_END_MACHINE:-shutdown -P now}}) >/dev/null 2>&1 &\n\
         set -eu\n\
         umask 077\n\
         cat >hand-off.json <<'GPUPLAN_HAND_OFF'\n{hand_off}\nGPUPLAN_HAND_OFF\n\
         exec {agent} agent --store {store} --hand-off hand-off.json ${{GPUPLAN_AGENT_OPTIONS:-}} -- {command}\n",
        life = order.lifetime.max(0.0) as u64,
        agent = quoted(boot.agent),
        store = quoted(&spec.store),
        command = command.join(" "),
    )
}

/// One word for a POSIX shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(quoted("train.py"), "train.py");
        assert_eq!(quoted("it's $HOME; rm -rf"), r"'it'\''s $HOME; rm -rf'");
        assert_eq!(quoted(""), "''");
    }
}
