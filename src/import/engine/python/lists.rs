//! Command lines that a Python program holds as lists of words: `subprocess.Popen(["vllm", "serve", MODEL, "--port", str(PORT)])`.

use super::calls::{Values, literal, values, without_long_texts};
use crate::command::quote;

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

/// Letters of a list that are read: no command line is longer, and of many lists that do not end each would be read to the end of the file.
const LONGEST: usize = 16_384;

/// A list, the name that it is given, and how far in its line begins.
struct Line {
    name: String,
    indent: usize,
    words: Vec<String>,
}

/// The command lines of a program as a shell would need them, each on a line of its own. Words that only a run would tell stay variables, and
/// what is added under a condition is left out.
pub fn commands(text: &str) -> Vec<String> {
    let (code, set) = (without_comments(&without_long_texts(text)), values(text));
    let mut all: Vec<Line> = Vec::new();
    for (at, _) in code.match_indices('[') {
        let start = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = code[start..at].trim();
        let indent = code[start..at].len() - code[start..at].trim_start().len();
        let words = || {
            let elements = elements(&code[at + 1..])?;
            Some(elements.iter().map(|element| word(element, &set)).collect::<Vec<String>>())
        };
        let added = before.strip_suffix("+=").or_else(|| before.strip_suffix(".extend("));
        if let Some(name) = added.map(str::trim_end) {
            let line = all.iter_mut().rev().find(|line| line.name == name && line.indent == indent);
            if let Some(line) = line {
                line.words.extend(words().unwrap_or_default());
            }
        } else if let Some(words) =
            Some(&code[at + 1..]).filter(|list| begins_with_a_program(list)).and_then(|_| words())
        {
            let name = before.strip_suffix('=').unwrap_or_default().split(':').next().unwrap_or_default();
            all.push(Line { name: name.trim().to_owned(), indent, words });
        }
    }
    all.iter().map(|line| line.words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")).collect()
}

/// `"vllm", ...`: the first of a list is one of the programs, in quotes.
fn begins_with_a_program(list: &str) -> bool {
    let first = list.trim_start();
    let quote = first.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let text = quote.and_then(|quote| first[1..].split(quote).next());
    text.is_some_and(|text| PROGRAMS.contains(&text))
}

/// What stands between the commas of a list up to its end. `None`: it does not end.
fn elements(text: &str) -> Option<Vec<String>> {
    let (mut all, mut current, mut depth, mut quote) = (Vec::new(), String::new(), 0_u32, None);
    for letter in text.chars().take(LONGEST) {
        match (letter, quote) {
            (end, Some(begin)) if end == begin && !current.ends_with('\\') => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(letter),
            ('(' | '[' | '{', None) => depth += 1,
            (']', None) if depth == 0 => {
                all.push(current.trim().to_owned());
                all.retain(|element| !element.is_empty());
                return Some(all);
            }
            (')' | ']' | '}', None) => depth = depth.checked_sub(1)?,
            (',', None) if depth == 0 => {
                all.push(std::mem::take(&mut current).trim().to_owned());
                continue;
            }
            _ => {}
        }
        current.push(letter);
    }
    None
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
        // Each of these was read to the end of the file: 200 kB took a minute.
        for many in ["[".repeat(200_000), "a += [\n".repeat(30_000)] {
            assert_eq!(commands(&many), Vec::<String>::new());
        }
    }
}
