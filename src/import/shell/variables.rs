//! Variables of a script, and the ways through it where it is not known which it takes: what each of them changes is kept, and not what it leaves.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What a variable holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    List(Vec<String>),
}

/// Variables that one way through a script changes, and what they hold behind it. `None`: nothing.
pub type Way = BTreeMap<String, Option<Value>>;

/// Variables that the script has set, or that its engine sets for it. A copy of them for each way would take time by their number times that of
/// the conditions.
#[derive(Debug, Default)]
pub struct Variables {
    all: BTreeMap<String, Value>,
    /// Of each way that is being read what variables held before it.
    before: Vec<Way>,
    /// Substitutions that are being read.
    pub depth: usize,
    /// Values that were kept, compared or put back for ways.
    #[cfg(test)]
    pub kept: usize,
}

/// Arguments of a function, by their number.
const ARGUMENTS: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];

impl Variables {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.all.get(name)
    }

    pub fn text(&self, name: &str) -> Option<String> {
        match self.all.get(name)? {
            Value::Text(text) => Some(text.clone()),
            Value::List(list) => list.first().cloned(),
        }
    }

    /// Those that hold a text.
    pub fn texts(&self) -> impl Iterator<Item = (&String, &String)> {
        self.all
            .iter()
            .filter_map(|(name, value)| if let Value::Text(text) = value { Some((name, text)) } else { None })
    }

    pub fn set(&mut self, name: &str, value: Value) {
        self.keep(name);
        self.all.insert(name.to_owned(), value);
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.keep(name);
        self.all.remove(name)
    }

    /// `LIST[2]=value`, `MAP[key]=value`
    pub fn put(&mut self, name: &str, key: &str, value: String) {
        let mut list = match self.remove(name) {
            Some(Value::List(list)) => list,
            _ => Vec::new(),
        };
        match key.parse::<usize>() {
            Ok(at) if at < list.len() => list[at] = value,
            Ok(at) if at == list.len() => list.push(value),
            _ => list.push(format!("[{key}]={value}")),
        }
        self.set(name, Value::List(list));
    }
}

impl Variables {
    /// The arguments as they are now.
    pub fn arguments(&self) -> Vec<(String, Value)> {
        let names = ARGUMENTS.iter().chain(&["@"]);
        names.filter_map(|name| Some(((*name).to_owned(), self.all.get(*name)?.clone()))).collect()
    }

    /// Arguments of a function that is called.
    pub fn give(&mut self, words: Vec<String>) {
        self.take_back(Vec::new());
        for (name, word) in ARGUMENTS.iter().zip(&words) {
            self.set(name, Value::Text(word.clone()));
        }
        self.set("@", Value::List(words));
    }

    /// Those that were there before.
    pub fn take_back(&mut self, before: Vec<(String, Value)>) {
        for name in ARGUMENTS.iter().chain(&["@"]) {
            self.remove(name);
        }
        for (name, value) in before {
            self.set(&name, value);
        }
    }

    /// `shift`: the first are gone. The script's own arguments are not known.
    pub fn shift(&mut self, count: Option<usize>) {
        if let (Some(Value::List(words)), Some(count)) = (self.all.get("@").cloned(), count) {
            self.give(words.into_iter().skip(count).collect());
        }
    }
}

impl Variables {
    /// Keeps what a variable holds, where it changes for the first time on the way that is being read.
    fn keep(&mut self, name: &str) {
        let Some(before) = self.before.last_mut() else { return };
        if let Entry::Vacant(place) = before.entry(name.to_owned()) {
            place.insert(self.all.get(name).cloned());
            #[cfg(test)]
            {
                self.kept += 1;
            }
        }
    }

    /// A way through the script begins.
    pub fn begin(&mut self) {
        self.before.push(Way::new());
    }

    /// What the way that began last has changed so far.
    pub fn changed(&self) -> Way {
        let names = self.before.last().into_iter().flat_map(BTreeMap::keys);
        names.map(|name| (name.clone(), self.all.get(name).cloned())).collect()
    }

    /// The way that began last ends: what it has changed, and all variables are as they were before it.
    pub fn end(&mut self) -> Way {
        let before = self.before.pop().unwrap_or_default();
        #[cfg(test)]
        {
            self.kept += before.len();
        }
        let put_back = |(name, value): (String, Option<Value>)| {
            let now = match value {
                Some(value) => self.all.insert(name.clone(), value),
                None => self.all.remove(&name),
            };
            (name, now)
        };
        before.into_iter().map(put_back).collect()
    }

    /// One of these ways was taken, and it is not known which: a variable that they leave different is unknown.
    pub fn take_one_of(&mut self, ways: Vec<Way>) {
        let count = ways.len();
        let mut all: BTreeMap<String, Vec<(usize, Option<Value>)>> = BTreeMap::new();
        for (at, way) in ways.into_iter().enumerate() {
            for (name, value) in way {
                all.entry(name).or_default().push((at, value));
            }
        }
        for (name, mut values) in all {
            // A way that does not change it leaves it as it was.
            if values.len() < count {
                let first = values.iter().enumerate().position(|(at, (way, _))| at != *way).unwrap_or(values.len());
                values.insert(first, (first, self.all.get(&name).cloned()));
            }
            #[cfg(test)]
            {
                self.kept += values.len();
            }
            let merge = |one: Option<Value>, other: Option<Value>| {
                if one == other { one } else { Some(doubtful(&name, one.as_ref(), other.as_ref())) }
            };
            match values.into_iter().map(|(_, value)| value).reduce(merge).flatten() {
                Some(value) => self.set(&name, value),
                None => drop(self.remove(&name)),
            }
        }
    }
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
