//! `$((...))`: whole numbers, their operators, and variables with or without `$`.

/// Deeper brackets are no sum that a person wrote.
const DEEPEST: usize = 40;

/// `None`: a variable is not known, or it is no sum.
pub fn evaluate(text: &str, value_of: &dyn Fn(&str) -> Option<String>) -> Option<i64> {
    let mut reader = Reader { text: text.trim().as_bytes(), at: 0, depth: 0, value_of };
    let value = reader.lowest(0)?;
    reader.skip_blanks();
    (reader.at == reader.text.len()).then_some(value)
}

/// `NAME++`, `--NAME`, `NAME += sum`, `NAME = sum`: the name, and the sum that is its new value. `None`: it gives nobody a value.
pub fn assignment(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    for (twice, once) in [("++", "+"), ("--", "-")] {
        let name = text.strip_suffix(twice).or_else(|| text.strip_prefix(twice)).map(str::trim);
        if let Some(name) = name.filter(|name| is_name(name)) {
            return Some((name.to_owned(), format!("{name} {once} 1")));
        }
    }
    let (name, sum) = text.split_once('=').filter(|(_, sum)| !sum.starts_with('='))?;
    let plain = name.trim_end_matches(['+', '-', '*', '/', '%']);
    let (operator, name) = (&name[plain.len()..], plain.trim());
    let value = if operator.is_empty() { sum.to_owned() } else { format!("{name} {operator} ({sum})") };
    (is_name(name) && operator.len() < 2).then(|| (name.to_owned(), value))
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    value_of: &'a dyn Fn(&str) -> Option<String>,
}

/// From the loosest to the tightest.
const LEVELS: [&[&str]; 4] = [&["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"], &["**"]];

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn lowest(&mut self, level: usize) -> Option<i64> {
        let Some(operators) = LEVELS.get(level) else { return self.value() };
        let mut left = self.lowest(level + 1)?;
        loop {
            self.skip_blanks();
            let rest = &self.text[self.at..];
            let is_power = rest.starts_with(b"**");
            let operator = operators.iter().find(|one| rest.starts_with(one.as_bytes()) && (**one != "*" || !is_power));
            let Some(operator) = operator else { return Some(left) };
            self.at += operator.len();
            let right = self.lowest(level + 1)?;
            left = match *operator {
                "+" => left.checked_add(right)?,
                "-" => left.checked_sub(right)?,
                "*" => left.checked_mul(right)?,
                "/" => left.checked_div(right)?,
                "%" => left.checked_rem(right)?,
                "**" => left.checked_pow(u32::try_from(right).ok()?)?,
                "==" => i64::from(left == right),
                "!=" => i64::from(left != right),
                "<=" => i64::from(left <= right),
                ">=" => i64::from(left >= right),
                "<" => i64::from(left < right),
                _ => i64::from(left > right),
            };
        }
    }

    fn value(&mut self) -> Option<i64> {
        self.skip_blanks();
        match self.text.get(self.at)? {
            b'(' => {
                self.at += 1;
                self.depth += 1;
                let inner = if self.depth > DEEPEST { None } else { self.lowest(0) }?;
                self.skip_blanks();
                self.depth -= 1;
                self.text.get(self.at).filter(|letter| **letter == b')')?;
                self.at += 1;
                Some(inner)
            }
            b'-' => {
                self.at += 1;
                self.depth += 1;
                let inner = if self.depth > DEEPEST { None } else { self.value() }?;
                self.depth -= 1;
                inner.checked_neg()
            }
            _ => self.number_or_name(),
        }
    }

    fn number_or_name(&mut self) -> Option<i64> {
        let rest = std::str::from_utf8(&self.text[self.at..]).ok()?;
        let sigil = rest.len() - rest.trim_start_matches(['$', '{']).len();
        let name: String =
            rest[sigil..].chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        self.at += sigil + name.len();
        if rest[..sigil].contains('{') {
            self.text.get(self.at).filter(|letter| **letter == b'}')?;
            self.at += 1;
        }
        if sigil == 0 && name.starts_with(|letter: char| letter.is_ascii_digit()) {
            return name.parse().ok();
        }
        (self.value_of)(&name)?.trim().parse().ok()
    }
}
