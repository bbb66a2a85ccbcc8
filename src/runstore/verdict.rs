//! `Verdict`: why the result that an agent wrote says that its program is not simply to be started again.

use serde_json::Value;

/// What stands in `result.json`, for whoever leads the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program failed, or its data cannot be had: its last words, where it had any.
    Failed(String),
    /// It was stalled, and that was to end the run wherever it runs.
    GivenUp(String),
}

impl Verdict {
    /// `None`: it was completed or interrupted, or the result does not say how it ended.
    pub fn of(result: &Value) -> Option<Self> {
        let why = result.get("why").and_then(Value::as_str).map(str::to_owned);
        match result.get("outcome")? {
            Value::String(outcome) if outcome == "unprepared" => {
                Some(Self::Failed(why.unwrap_or_else(|| "its data cannot be had".to_owned())))
            }
            Value::String(outcome) if outcome == "stalled" => {
                Some(Self::GivenUp(why.unwrap_or_else(|| "it was stalled".to_owned())))
            }
            Value::Object(failed) => Some(Self::Failed(why.unwrap_or_else(|| words(failed)))),
            _ => None,
        }
    }
}

/// It ended at its budget, or because its machine was about to end.
pub fn is_capped(result: &Value) -> bool {
    result.get("outcome").and_then(Value::as_str) == Some("cap-reached")
}

/// `{"failed": {"code": 3}}`, as an agent from before there were last words wrote it.
fn words(failed: &serde_json::Map<String, Value>) -> String {
    let exit = failed.get("failed").and_then(Value::as_object).and_then(|exit| exit.iter().next());
    match exit {
        Some((kind, number)) if kind == "code" => format!("exit code {number}"),
        Some((kind, number)) => format!("{kind} {number}"),
        None => "it does not say why".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_says_in_words_why_nothing_is_started_again() {
        let of = Verdict::of;
        let failed = |why: &str| Some(Verdict::Failed(why.to_owned()));
        assert_eq!(
            of(&json!({"outcome": {"failed": {"code": 3}}, "why": "exit code 3: no such column"})),
            failed("exit code 3: no such column")
        );
        assert_eq!(of(&json!({"outcome": {"failed": {"code": 3}}, "why": null})), failed("exit code 3"));
        assert_eq!(of(&json!({"outcome": {"failed": {"signal": 9}}})), failed("signal 9"));
        assert_eq!(of(&json!({"outcome": {"failed": 1}})), failed("it does not say why"));
        assert_eq!(of(&json!({"outcome": "unprepared"})), failed("its data cannot be had"));
        let stalled = json!({"outcome": "stalled", "why": "stalled: nothing for 600 s"});
        assert_eq!(of(&stalled), Some(Verdict::GivenUp("stalled: nothing for 600 s".to_owned())));
        for goes_on in [json!({"outcome": "interrupted"}), json!({"outcome": "completed"}), json!({}), json!([1])] {
            assert_eq!(of(&goes_on), None);
        }
        let capped = json!({"outcome": "cap-reached"});
        assert!(is_capped(&capped) && of(&capped).is_none() && !is_capped(&json!({"outcome": "interrupted"})));
    }
}
