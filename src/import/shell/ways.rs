//! Two ways through a script, where it is not known which it takes.

use super::expand::{Value, Variables};

/// What is known behind two ways: a variable that they leave different is unknown. Where there is one way only it is what that leaves.
pub fn merged(one: Option<Variables>, other: Variables) -> Variables {
    let Some(one) = one else { return other };
    let mut all = other.clone();
    for name in one.all.keys().chain(other.all.keys()) {
        let (a, b) = (one.all.get(name), other.all.get(name));
        if a != b {
            all.all.insert(name.clone(), doubtful(name, a, b));
        }
    }
    all
}

/// A variable of which two ways through a script say different things: what both begin with, and then it is unknown.
fn doubtful(name: &str, one: Option<&Value>, other: Option<&Value>) -> Value {
    if let (Some(Value::List(one)), Some(Value::List(other))) = (one, other) {
        let mut same: Vec<String> = one.iter().zip(other).take_while(|(a, b)| a == b).map(|(a, _)| a.clone()).collect();
        same.push(format!("${name}"));
        return Value::List(same);
    }
    // Of a command line that is only made longer what both begin with is known: `CMD="$CMD --fp16"`.
    if let (Some(Value::Text(one)), Some(Value::Text(other))) = (one, other) {
        let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
        if short.contains(char::is_whitespace) && long.starts_with(short.as_str()) {
            return Value::Text(format!("{short} ${name}_ARGS"));
        }
    }
    Value::Text(format!("${name}"))
}
