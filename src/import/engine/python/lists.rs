//! Command lines that a Python program holds as lists of words: `subprocess.Popen(["vllm", "serve", MODEL, "--port", str(PORT)])`.

use super::calls::{Values, literal, values, without_long_texts};
use crate::command::quote;
use std::collections::HashMap;

/// Programs by whose name at its beginning a list is known as a command line.
const PROGRAMS: [&str; 10] = [
    "vllm",
    "sglang",
    "llama-server",
    "torchrun",
    "accelerate",
    "deepspeed",
    "python",
    "python3",
    "llamafactory-cli",
    "axolotl",
];

/// Letters of a command line, and of a name that one is given: none is longer.
const LONGEST: usize = 16_384;
const LONGEST_NAME: usize = 256;

/// The command lines of a program as a shell would need them, each on a line of its own. Words that only a run would tell stay variables, and
/// what is added under a condition is left out.
pub fn commands(text: &str) -> Vec<String> {
    let (code, set) = (without_comments(&without_long_texts(text)), values(text));
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut named: HashMap<(&str, usize), usize> = HashMap::new();
    let mut read = 0;
    for List { line, at, end } in lists(&code) {
        // What stands in a list that was read is part of it.
        if at < read || end - at > LONGEST {
            continue;
        }
        let before = code[line..at].trim_end();
        let name = before.trim_start();
        let indent = before.len() - name.len();
        let words =
            || Some(elements(&code[at + 1..end])?.iter().map(|element| word(element, &set)).collect::<Vec<_>>());
        let is_name = name.len() <= LONGEST_NAME;
        let added = name.strip_suffix("+=").or_else(|| name.strip_suffix(".extend(")).filter(|_| is_name);
        if let Some(name) = added.map(str::trim_end) {
            if let Some(line) = named.get(&(name, indent)) {
                all[*line].extend(words().unwrap_or_default());
                read = end;
            }
        } else if begins_with_a_program(&code[at + 1..end])
            && let Some(words) = words()
        {
            let name = name.strip_suffix('=').filter(|_| is_name).unwrap_or_default();
            named.insert((name.split(':').next().unwrap_or_default().trim(), indent), all.len());
            all.push(words);
            read = end;
        }
    }
    all.iter().map(|words| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")).collect()
}

/// Where a list begins and ends, and the line in which it begins.
struct List {
    line: usize,
    at: usize,
    end: usize,
}

/// The lists of a program that end, in the order in which they begin. A text in quotes ends with its line at the latest.
fn lists(code: &str) -> Vec<List> {
    let (mut all, mut open, mut line, mut quote, mut is_escaped) = (Vec::new(), Vec::new(), 0, None, false);
    for (at, letter) in code.char_indices() {
        match (letter, quote) {
            ('\n', _) => (line, quote) = (at + 1, None),
            (end, Some(begin)) if end == begin && !is_escaped => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(letter),
            ('[', None) => open.push((line, at)),
            (']', None) => all.extend(open.pop().map(|(line, start)| List { line, at: start, end: at })),
            _ => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    all.sort_unstable_by_key(|list| list.at);
    all
}

/// `"vllm", ...`: the first of a list is one of the programs, in quotes.
fn begins_with_a_program(list: &str) -> bool {
    let first = list.trim_start();
    let quote = first.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let is_program = |program: &&str| {
        quote.is_some_and(|quote| first[1..].strip_prefix(*program).is_some_and(|rest| rest.starts_with(quote)))
    };
    PROGRAMS.iter().any(is_program)
}

/// What stands between the commas of a list. `None`: its brackets are no pairs.
fn elements(text: &str) -> Option<Vec<String>> {
    let (mut all, mut current, mut depth, mut quote) = (Vec::new(), String::new(), 0_u32, None);
    for letter in text.chars() {
        match (letter, quote) {
            (end, Some(begin)) if end == begin && !current.ends_with('\\') => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(letter),
            ('(' | '[' | '{', None) => depth += 1,
            (')' | ']' | '}', None) => depth = depth.checked_sub(1)?,
            (',', None) if depth == 0 => {
                all.push(std::mem::take(&mut current).trim().to_owned());
                continue;
            }
            _ => {}
        }
        current.push(letter);
    }
    all.push(current.trim().to_owned());
    all.retain(|element| !element.is_empty());
    Some(all)
}

/// A word of a command line: a text, a value that a name is set to, or a variable where only a run would tell.
fn word(element: &str, set: &Values) -> String {
    if element.starts_with('*') {
        return "$ARGS".to_owned();
    }
    // `"--eager" if FAST else "--no-eager"`
    let quoted = element.strip_prefix('f').unwrap_or(element);
    let quote = quoted.chars().next().filter(|first| matches!(first, '"' | '\''));
    let is_whole = quote.is_none_or(|quote| quoted[1..].find(quote).is_some_and(|end| end + 2 == quoted.len()));
    let value = literal(element, set).filter(|_| is_whole && !element.contains(" if "));
    match value {
        // A name in a text that nothing sets.
        Some(value) => value.replace('{', "${"),
        None => "$VALUE".to_owned(),
    }
}

/// Each line up to a `#` outside quotes.
fn without_comments(code: &str) -> String {
    let line = |line: &str| {
        let mut quote = None;
        let end = line.char_indices().find_map(|(at, letter)| {
            match (letter, quote) {
                (end, Some(begin)) if end == begin => quote = None,
                (_, Some(_)) => {}
                ('"' | '\'', None) => quote = Some(letter),
                ('#', None) => return Some(at),
                _ => {}
            }
            None
        });
        line[..end.unwrap_or(line.len())].to_owned()
    };
    code.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_words_are_command_lines() {
        let program = "MODEL = \"Qwen/Qwen3-8B\"  # not \"gpt2\"\nN = 2\nFAST = True\n\ndef serve():\n    cmd = [\n        \"vllm\",\n        \"serve\",  # [\n        MODEL,\n        f\"--port={PORT}\",\n        \"--tensor-parallel-size\", str(N),\n    ]\n    cmd += [\"--enforce-eager\" if FAST else \"--no-enforce-eager\"]\n    if FAST:\n        cmd += [\"--max-model-len\", \"8192\"]\n    cmd.extend([\"--seed\", seed(), *more])\n    subprocess.Popen(cmd)\n    print([\"gpt2\", \"serve\"])\n    subprocess.run([\"torchrun\", \"train.py\"])\n";
        assert_eq!(
            commands(program),
            [
                "\"vllm\" \"serve\" \"Qwen/Qwen3-8B\" \"--port=${PORT}\" \"--tensor-parallel-size\" \"2\" \"$VALUE\" \"--seed\" \"$VALUE\" \"$ARGS\"",
                "\"torchrun\" \"train.py\"",
            ]
        );
        assert_eq!(commands("a = [\"vllm\", \"serve\"\n"), Vec::<String>::new(), "it does not end");
        // Each of these took time by the square of its length.
        let many = |text: &str| text.repeat(100_000 / text.len());
        for many in [many("["), many("a += [\n"), many("a += ["), many("[\"vllm\", "), many("a=[\"x\"];")] {
            assert_eq!(commands(&many), Vec::<String>::new());
        }
    }
}
