//! `$(...)` of commands that only work on text: paths, sums, and counts of a list. Nothing is run.
//!
//! A script is read as one that lies in the current folder and is started there without arguments: its own path is `./...`.

use super::arithmetic::evaluate;
use super::lex::{Token, tokens};

/// Words by which a script names itself.
const ITSELF: [&str; 4] = ["$0", "$BASH_SOURCE", "${BASH_SOURCE[0]}", "${BASH_SOURCE}"];

/// What a substituted command prints, without its last newline; `fields` expands a word. `None`: only running it would tell.
pub fn output(inner: &str, fields: &mut dyn FnMut(&str) -> Vec<String>) -> Option<String> {
    let mut folder = ".".to_owned();
    let (mut printed, mut words, mut is_piped) = (None, Vec::new(), false);
    let mut all = tokens(inner).into_iter().chain([Token::Operator("\n")]);
    while let Some(token) = all.next() {
        match token {
            Token::Word(word) => words.extend(fields(&word)),
            // Where messages go changes nothing that is printed.
            Token::Redirect(">" | ">>" | "&>" | ">&") => drop(all.next()),
            Token::Operator(operator) => {
                if !words.is_empty() {
                    let input = printed.take().filter(|_| is_piped);
                    printed = Some(command(&std::mem::take(&mut words), input.as_deref(), &mut folder)?);
                }
                match operator {
                    "|" => is_piped = true,
                    "&&" | ";" | "\n" => is_piped = false,
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
    printed.filter(|text| is_known(text) || ITSELF.contains(&text.as_str()))
}

/// What one command prints, and where it goes.
fn command(words: &[String], input: Option<&str>, folder: &mut String) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    let is_option = |word: &&str| word.starts_with('-') && word.len() > 1;
    let paths: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| !is_option(word)).collect();
    let known = |text: &str| is_known(text).then(|| text.to_owned());
    match (name.as_str(), input, paths.as_slice()) {
        ("dirname", None, [path]) if ITSELF.contains(path) => Some(".".to_owned()),
        ("dirname", None, [path]) => known(path).map(|path| directory(&path)),
        ("readlink" | "realpath", None, [path]) if ITSELF.contains(path) => Some((*path).to_owned()),
        ("readlink" | "realpath", None, [path]) => known(path),
        ("basename", None, [path]) => known(path)?.trim_end_matches('/').rsplit('/').next().map(str::to_owned),
        ("basename", None, [path, end]) => {
            let last = known(path)?.trim_end_matches('/').rsplit('/').next()?.to_owned();
            Some(last.strip_suffix(end).map_or(last.clone(), str::to_owned))
        }
        ("cd", None, [path]) => {
            *folder = known(path)?;
            Some(String::new())
        }
        // Wherever that is.
        ("mktemp", None, _) => Some("/tmp/mktemp".to_owned()),
        ("pwd", None, []) => Some(folder.clone()),
        ("echo", None, _) => known(&paths.join(" ")),
        ("printf", None, _) => printf(arguments),
        ("expr", None, _) => {
            let sum = arguments.join(" ");
            let is_sum = sum.chars().all(|letter| letter.is_ascii_digit() || " +-*/%()".contains(letter));
            is_sum.then(|| evaluate(&sum, &|_| None)).flatten().map(|value| value.to_string())
        }
        ("seq", None, _) => sequence(arguments),
        ("tr", Some(input), [from, to]) => Some(input.replace(&unescaped(from), &unescaped(to))),
        ("wc", Some(input), []) if arguments == ["-l"] => Some(input.lines().count().to_string()),
        ("wc", Some(input), []) if arguments == ["-w"] => Some(input.split_whitespace().count().to_string()),
        // `awk -F',' '{print NF}'` counts what commas separate.
        ("awk", Some(input), [script]) if script.replace(' ', "") == "{printNF}" => {
            let separator = arguments.first()?.strip_prefix("-F")?;
            (separator.chars().count() == 1).then(|| input.split(separator).count().to_string())
        }
        _ => None,
    }
}

/// `printf '%q ' "${ARGS[@]}"`: a format with one place is used for each word.
fn printf(arguments: &[String]) -> Option<String> {
    let (format, words) = arguments.split_first()?;
    let (before, after) = format.split_once("%q").or_else(|| format.split_once("%s"))?;
    if before.contains(['%', '\\']) || after.contains('%') || words.is_empty() {
        return None;
    }
    let is_plain =
        |word: &&String| word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./=:,@+".contains(letter));
    let is_quoted = format.contains("%q");
    let each = words.iter().map(|word| {
        let shown = if is_quoted && !is_plain(&word) { format!("'{word}'") } else { word.clone() };
        let fits = is_known(word) && !(is_quoted && word.contains('\''));
        fits.then(|| format!("{before}{shown}{}", unescaped(after)))
    });
    each.collect()
}

/// `seq 4`, `seq 0 3`, `seq -s, 0 3`.
fn sequence(arguments: &[String]) -> Option<String> {
    const MOST: i64 = 1_000;
    let separator = arguments.iter().find_map(|word| word.strip_prefix("-s")).unwrap_or("\n");
    let numbers = arguments.iter().filter(|word| !word.starts_with("-s")).map(|word| word.parse::<i64>().ok());
    let (first, last) = match numbers.collect::<Option<Vec<i64>>>()?.as_slice() {
        [last] => (1, *last),
        [first, last] => (*first, *last),
        _ => return None,
    };
    let is_short = last.checked_sub(first)? < MOST;
    is_short.then(|| (first..=last).map(|number| number.to_string()).collect::<Vec<_>>().join(separator))
}

fn is_known(text: &str) -> bool {
    !text.contains('$')
}

fn directory(path: &str) -> String {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((folder, _)) => folder.to_owned(),
        None => ".".to_owned(),
    }
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}
