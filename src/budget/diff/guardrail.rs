//! Guardrails: what a change may do, from `[guardrail]` of `policy.toml`, beside the rules that hold for every plan.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use crate::diff::change::Diff;
pub use crate::diff::rented::Rented;
use gpuplan_hardware::Hardware;
use gpuplan_plan::Policy;
use gpuplan_plan::limits::policy::Rule;
use gpuplan_units::Usd;
use gpuplan_units::separators::parse_amount;
use gpuplan_workload::file::Scalar;

/// A limit of a change or a rule of the house that is broken: the line of `policy.toml`, and what breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub line: usize,
    pub detail: String,
}

/// Limits of a change; a missing one allows everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guardrail {
    /// Of the expected cost.
    pub max_increase_usd: Option<Rule<Usd>>,
    pub max_increase_percent: Option<Rule<f64>>,
    /// Of everything, with probability 0.9.
    pub max_total_p90_usd: Option<Rule<Usd>>,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum GuardrailError {
    #[error("policy.toml: {0}")]
    Syntax(String),
    #[error("policy.toml line {line}: guardrail.{key}: {detail}")]
    Invalid { line: usize, key: &'static str, detail: String },
}

/// The part of `policy.toml` that is read here.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GuardrailFile {
    guardrail: GuardrailSection,
}

/// What a change may do; a missing key allows everything.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_field_names, reason = "keys as the file has them")]
pub struct GuardrailSection {
    /// Most US dollars that the expected cost may grow by.
    #[schemars(with = "Option<Scalar>")]
    max_increase_usd: Option<Spanned<Scalar>>,
    /// Most percent that the expected cost may grow by.
    #[schemars(with = "Option<Scalar>")]
    max_increase_percent: Option<Spanned<Scalar>>,
    /// Most US dollars in all, with probability 0.9.
    #[schemars(with = "Option<Scalar>")]
    max_total_p90_usd: Option<Spanned<Scalar>>,
}

impl Guardrail {
    /// Of the whole `policy.toml`; its other rules are read elsewhere.
    pub fn read(text: &str) -> Result<Self, GuardrailError> {
        let file: GuardrailFile =
            toml::from_str(text).map_err(|error| GuardrailError::Syntax(error.to_string().trim_end().to_owned()))?;
        let line = |at: &Spanned<Scalar>| text[..at.span().start.min(text.len())].matches('\n').count() + 1;
        let money = |key: &'static str, stated: Option<Spanned<Scalar>>| {
            let Some(stated) = stated else { return Ok(None) };
            let read = parse_amount(&stated.get_ref().to_string());
            let line = line(&stated);
            read.map(|value| Some(Rule { value, line })).map_err(|error| GuardrailError::Invalid {
                line,
                key,
                detail: error.to_string(),
            })
        };
        let percent = |key: &'static str, stated: Option<Spanned<Scalar>>| {
            let Some(stated) = stated else { return Ok(None) };
            let (line, text) = (line(&stated), stated.get_ref().to_string());
            let read = text
                .trim()
                .trim_end_matches('%')
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|share| share.is_finite() && *share >= 0.0);
            let refused =
                || GuardrailError::Invalid { line, key, detail: format!("`{text}` is not a valid percentage; try 10") };
            read.map(|value| Some(Rule { value, line })).ok_or_else(refused)
        };
        Ok(Self {
            max_increase_usd: money("max_increase_usd", file.guardrail.max_increase_usd)?,
            max_increase_percent: percent("max_increase_percent", file.guardrail.max_increase_percent)?,
            max_total_p90_usd: money("max_total_p90_usd", file.guardrail.max_total_p90_usd)?,
        })
    }

    /// Every limit that this change breaks, by line.
    pub fn breaks(&self, diff: &Diff) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut add = |line: usize, detail: String| broken.push(Broken { line, detail });
        let increase = diff.total.filter(|total| total.change_usd > Usd::ZERO);
        if let Some((rule, total)) =
            self.max_increase_usd.as_ref().zip(increase).filter(|(rule, total)| total.change_usd > rule.value)
        {
            add(
                rule.line,
                format!(
                    "it costs ${:.2} more, over guardrail.max_increase_usd = {}",
                    total.change_usd.dollars(),
                    rule.value
                ),
            );
        }
        if let Some((rule, total)) = self.max_increase_percent.as_ref().zip(increase) {
            // Anything is infinitely more than nothing.
            match total.share.map(|share| share * 100.0) {
                Some(percent) if percent <= rule.value => {}
                Some(percent) => {
                    add(
                        rule.line,
                        format!("it costs {percent:.1} % more, over guardrail.max_increase_percent = {}", rule.value),
                    );
                }
                None => add(
                    rule.line,
                    format!("it cost nothing before, and guardrail.max_increase_percent = {}", rule.value),
                ),
            }
        }
        if let Some((rule, p90)) =
            self.max_total_p90_usd.as_ref().zip(diff.p90_usd).filter(|(rule, p90)| *p90 > rule.value)
        {
            add(
                rule.line,
                format!(
                    "${:.2} with 90 % certainty is over guardrail.max_total_p90_usd = {}",
                    p90.dollars(),
                    rule.value
                ),
            );
        }
        broken.sort_by_key(|broken| broken.line);
        broken
    }
}

/// Every rule of the house that what is rented breaks, by line.
pub fn breaks(policy: &Policy, rented: &[Rented], hardware: &Hardware) -> Vec<Broken> {
    let mut broken = Vec::new();
    for one in rented {
        let mut add =
            |line: usize, detail: String| broken.push(Broken { line, detail: format!("{}: {detail}", one.what) });
        if let Some(rule) =
            policy.clouds.as_ref().filter(|rule| !rule.value.iter().any(|cloud| cloud.as_str() == one.cloud))
        {
            add(rule.line, format!("clouds does not list {}", one.cloud));
        }
        let inside = |start: &String| one.places.iter().any(|place| place.starts_with(start.as_str()));
        if let Some(rule) =
            policy.regions.as_ref().filter(|rule| !one.places.is_empty() && !rule.value.iter().any(inside))
        {
            add(rule.line, format!("regions does not list {}", one.places.join(" ")));
        }
        let gpu = one.gpu.as_deref().map(|name| hardware.find_gpu(name).ok_or(name));
        match policy.gpus.as_ref().zip(gpu) {
            Some((rule, Ok(gpu)))
                if !rule.value.iter().any(|selector| selector.matches_gpu(gpu, hardware.gpu(gpu))) =>
            {
                add(rule.line, format!("gpus does not list {}", hardware.gpu(gpu).id));
            }
            // Whatever it is, no rule lists it.
            Some((rule, Err(unknown))) => {
                add(rule.line, format!("gpus does not list {unknown}, which the catalog does not know"));
            }
            _ => {}
        }
        // Spot with on-demand to fall back to needs both.
        let words: &[&str] =
            if one.purchase == "spot-with-fallback" { &["spot", "on-demand"] } else { &[one.purchase.as_str()] };
        let missing = |rule: &&Rule<Vec<String>>| {
            words.iter().any(|word| *word != "reserved" && !rule.value.iter().any(|known| known == word))
        };
        if let Some(rule) = policy.purchases.as_ref().filter(missing) {
            add(rule.line, format!("purchases does not list {}", words.join(" and ")));
        }
        if let Some(rule) = one.usd_per_hour.and_then(|rate| policy.breaks_rate(rate)) {
            add(rule.line, rule.violation.to_string());
        }
        if let Some(rule) = policy.breaks_cost(one.p90) {
            add(rule.line, rule.violation.to_string());
        }
        if let Some((rule, tags)) = policy.required_tags.as_ref().zip(one.tags.as_ref()) {
            for name in rule.value.iter().filter(|name| !tags.contains(*name)) {
                add(rule.line, format!("required_tags lists `{name}`, which it does not bear"));
            }
        }
    }
    broken.sort_by_key(|broken| broken.line);
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_with_its_line_and_refused_with_it() {
        let text = "clouds = [\"aws\"]\n[guardrail]\nmax_increase_usd = \"1,000\"\nmax_increase_percent = \"10 %\"\n";
        let guardrail = Guardrail::read(text).unwrap();
        assert_eq!(guardrail.max_increase_usd.unwrap().line, 3);
        assert_eq!(guardrail.max_increase_percent.unwrap(), Rule { value: 10.0, line: 4 });
        assert_eq!(Guardrail::read("clouds = [\"aws\"]").unwrap(), Guardrail::default());
        let refused = |text: &str| Guardrail::read(text).unwrap_err().to_string();
        assert!(
            refused("[guardrail]\nmax_increase_usd = -1")
                .starts_with("policy.toml line 2: guardrail.max_increase_usd: ")
        );
        assert!(refused("[guardrail]\nmax_increase_percent = \"lots\"").contains("line 2"));
        assert!(refused("[guardrail]\nmax = 1").contains("unknown field `max`"));
        let hardware = Hardware::embedded().unwrap();
        assert!(Policy::read(text, &hardware).unwrap().clouds.is_some(), "a plan reads past the guardrail");
    }
}
