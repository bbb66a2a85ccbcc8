//! Pipelines that hide how a program ended: the exit code of `train.py | tee train.log` is that of tee, so a crash would count as completed.

/// A pipeline of a shell script whose exit code is not that of the program in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// On one line, shortened.
    pub line: String,
    /// Why `pipefail` does not settle it.
    pub obstacle: Option<Obstacle>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The shell goes on after the pipeline whatever its exit code is, and ends as its last command does.
    GoesOn,
    /// The script ends at the first failure, and with `pipefail` this line may be one: its reader stops early, or its writer finds nothing.
    Fails(String),
}

/// Programs that write into pipelines and train nothing.
const TOOLS: [&str; 42] = [
    "apt",
    "apt-get",
    "awk",
    "base64",
    "cat",
    "curl",
    "cut",
    "date",
    "df",
    "du",
    "echo",
    "egrep",
    "find",
    "free",
    "git",
    "grep",
    "gunzip",
    "head",
    "hostname",
    "jq",
    "ls",
    "lscpu",
    "lspci",
    "module",
    "nproc",
    "nvidia-smi",
    "pip",
    "pip3",
    "printenv",
    "printf",
    "ps",
    "scontrol",
    "sed",
    "seq",
    "sort",
    "tail",
    "tar",
    "tr",
    "wget",
    "which",
    "yes",
    "zcat",
];
/// Words before the program of a command.
const BEFORE: [&str; 15] =
    ["!", "{", "(", "do", "elif", "else", "env", "exec", "if", "until", "while", "nohup", "sudo", "then", "time"];
/// Readers that hand on all that they read: whoever asks how such a pipeline ended asks for its program.
const PASSING_ON: [&str; 4] = ["cat", "pv", "tee", "ts"];
/// What is shown of a long line. Judgement.
const FIRST_SIGNS: usize = 80;
const LAST_SIGNS: usize = 40;
const CONDITIONS: [&str; 4] = ["if", "elif", "until", "while"];
const OPENING: [&str; 3] = ["if", "case", "{"];
const LOOPS: [&str; 4] = ["for", "select", "until", "while"];
const CLOSING: [&str; 5] = ["fi", "done", "esac", "}", ")"];

/// The first pipeline of a script that hides how its program ended. `ends_at_failure`: the shell is called with `-e`. A script that knows
/// `pipefail` or `PIPESTATUS` has decided for itself.
pub fn hidden_in(script: &str, ends_at_failure: bool) -> Option<Hidden> {
    if script.contains("pipefail") || script.contains("PIPESTATUS") {
        return None;
    }
    let statements = statements(script);
    let ends_at_failure = ends_at_failure || statements.iter().any(Statement::sets_errexit);
    // Whether each block that is open is a loop.
    let mut blocks = Vec::new();
    for (at, statement) in statements.iter().enumerate() {
        let first = statement.first_word();
        if CLOSING.contains(&first) {
            blocks.pop();
        }
        if statement.hides() {
            let obstacle = if ends_at_failure {
                script
                    .lines()
                    .map(str::trim)
                    .find(|line| may_fail(line) && !statement.has(line))
                    .map(one_line)
                    .map(Obstacle::Fails)
            } else {
                let decides = script.contains("$?") || script.contains("()") || script.contains("function ");
                let is_followed = || statements[at + 1..].iter().any(|later| !later.changes_nothing());
                // A loop ends as its last round does.
                let goes_on = blocks.contains(&true) || blocks.is_empty() && is_followed();
                let is_asked = statement.is_joined || CONDITIONS.contains(&first);
                (goes_on && !decides && !is_asked).then_some(Obstacle::GoesOn)
            };
            return Some(Hidden { line: statement.line(), obstacle });
        }
        if OPENING.contains(&first) || LOOPS.contains(&first) {
            blocks.push(LOOPS.contains(&first));
        }
    }
    None
}

/// Commands that a shell waits for as one: a pipeline of one stage or more.
#[derive(Debug, Default)]
struct Statement {
    stages: Vec<String>,
    /// `&&` or `||` follows: what comes next depends on it.
    is_joined: bool,
    /// The shell does not wait for it.
    is_apart: bool,
}

impl Statement {
    fn first_word(&self) -> &str {
        self.stages.first().and_then(|stage| stage.split_whitespace().next()).unwrap_or_default()
    }

    /// Its beginning and its end, where it is long: commands of trainings have dozens of options.
    fn line(&self) -> String {
        let line = one_line(&self.stages.join(" | "));
        let signs: Vec<char> = line.chars().collect();
        match signs.len().checked_sub(LAST_SIGNS) {
            Some(last) if last > FIRST_SIGNS => {
                let part = |signs: &[char]| signs.iter().collect::<String>();
                format!("{}… {}", part(&signs[..FIRST_SIGNS]), part(&signs[last..]))
            }
            _ => line,
        }
    }

    /// Whether a line of the script is part of it.
    fn has(&self, line: &str) -> bool {
        line.split('|').map(str::trim).all(|part| self.stages.iter().any(|stage| stage.contains(part)))
    }

    fn hides(&self) -> bool {
        let Some((reader, writers)) = self.stages.split_last() else { return false };
        let passes_on = program(reader).is_some_and(|name| PASSING_ON.contains(&name));
        let is_condition = CONDITIONS.contains(&self.first_word()) && !passes_on;
        let trains = |stage: &String| program(stage).is_some_and(|name| !TOOLS.contains(&name));
        !is_condition && !self.is_apart && !stops_early(reader) && writers.iter().any(trains)
    }

    fn sets_errexit(&self) -> bool {
        let mut words = self.stages.first().map(|stage| stage.split_whitespace()).into_iter().flatten();
        let is_shebang = |word: &str| word.starts_with("#!");
        match words.next() {
            Some("set") => words.any(|word| word == "errexit" || is_flag(word, 'e')),
            Some(word) if is_shebang(word) => words.any(|word| is_flag(word, 'e')),
            _ => false,
        }
    }

    /// After it a script ends as before it.
    fn changes_nothing(&self) -> bool {
        let mut words = self.stages.first().map(|stage| stage.split_whitespace()).into_iter().flatten();
        match (words.next(), words.next()) {
            (Some("exit"), None) => true,
            (Some(first), _) => CLOSING.contains(&first) && self.stages.len() == 1,
            _ => true,
        }
    }
}

/// `-e` among flags of one letter each.
fn is_flag(word: &str, flag: char) -> bool {
    word.strip_prefix('-').is_some_and(|flags| !flags.starts_with('-') && flags.contains(flag))
}

/// The name of what a stage runs; `None`: it only sets variables.
fn program(stage: &str) -> Option<&str> {
    let is_assignment = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
        })
    };
    let words = stage.split_whitespace().map(|word| word.trim_start_matches('('));
    let word = words.filter(|word| !word.is_empty()).find(|word| !BEFORE.contains(word) && !is_assignment(word))?;
    Some(word.rsplit('/').next().unwrap_or(word))
}

/// It reads only the beginning of what is written, so its writer may die of that.
fn stops_early(stage: &str) -> bool {
    let mut words = stage.trim_start_matches('&').split_whitespace();
    match words.next() {
        Some("head") => true,
        Some("grep" | "egrep") => words.any(|word| {
            is_flag(word, 'q') || is_flag(word, 'm') || word == "--quiet" || word.starts_with("--max-count")
        }),
        _ => false,
    }
}

/// Whether a line has a pipeline, in a substitution too, that `pipefail` may make a failure of where it was none.
fn may_fail(line: &str) -> bool {
    let is_condition = line.split_whitespace().next().is_some_and(|word| CONDITIONS.contains(&word));
    if line.starts_with('#') || is_condition || line.contains("||") {
        return false;
    }
    let stages: Vec<&str> = line.split('|').collect();
    stages.windows(2).any(|pair| {
        let writer = pair[0].rsplit([';', '(', '`', '&']).next().and_then(program);
        stops_early(pair[1].trim()) || matches!(writer, Some("grep" | "egrep" | "yes"))
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a script as a shell does, as far as pipelines need it: quotes, comments, documents and what stands in parentheses hold no
/// statement of their own.
fn statements(script: &str) -> Vec<Statement> {
    let text = without_documents(script);
    let mut reader = Reader::default();
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let next = signs.peek().copied();
        if reader.is_quoted(sign) {
            reader.stage.push(sign);
            if sign == '\\' && reader.quote != Some('\'') {
                reader.stage.extend(signs.next());
            }
            continue;
        }
        let before = reader.stage.chars().last();
        match sign {
            // The line goes on, unless it is a comment.
            '\\' if next == Some('\n') => {
                signs.next();
                reader.stage.push(' ');
            }
            '\\' => {
                reader.stage.push(sign);
                reader.stage.extend(signs.next());
            }
            '#' if next != Some('!') && before.is_none_or(char::is_whitespace) => {
                while signs.next_if(|sign| *sign != '\n').is_some() {}
            }
            '(' => {
                reader.depth += 1;
                reader.stage.push(sign);
            }
            ')' if reader.depth > 0 => {
                reader.depth -= 1;
                reader.stage.push(sign);
            }
            // The pattern of a case.
            ')' => reader.forget(),
            _ if reader.depth > 0 => reader.stage.push(sign),
            '|' if next == Some('|') => {
                signs.next();
                reader.end(true, false);
            }
            '|' if before != Some('>') => {
                signs.next_if_eq(&'&');
                let stage = std::mem::take(&mut reader.stage);
                reader.stages.push(stage);
            }
            '&' if next == Some('&') => {
                signs.next();
                reader.end(true, false);
            }
            '&' if next != Some('>') && before != Some('>') && before != Some('<') => reader.end(false, true),
            // A pipeline goes on behind its last `|`.
            '\n' if reader.stage.trim().is_empty() => {}
            ';' | '\n' => reader.end(false, false),
            sign => reader.stage.push(sign),
        }
    }
    reader.end(false, false);
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Vec<Statement>,
    stages: Vec<String>,
    stage: String,
    quote: Option<char>,
    /// Parentheses that are open.
    depth: usize,
}

impl Reader {
    /// Whether this sign stands in quotes, those included.
    fn is_quoted(&mut self, sign: char) -> bool {
        match self.quote {
            Some(quote) if quote == sign => {
                self.quote = None;
                true
            }
            Some(_) => true,
            None if matches!(sign, '\'' | '"' | '`') => {
                self.quote = Some(sign);
                true
            }
            None => false,
        }
    }

    fn forget(&mut self) {
        self.stages.clear();
        self.stage.clear();
    }

    fn end(&mut self, is_joined: bool, is_apart: bool) {
        let stage = std::mem::take(&mut self.stage);
        let mut stages = std::mem::take(&mut self.stages);
        stages.push(stage);
        stages.retain(|stage| !stage.trim().is_empty());
        if !stages.is_empty() {
            self.found.push(Statement { stages, is_joined, is_apart });
        }
    }
}

/// The lines of `<<END` are no commands.
fn without_documents(script: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        kept.push(line);
        let opened = line.split_once("<<").filter(|(_, rest)| !rest.starts_with('<')).map(|(_, rest)| rest);
        let word = opened
            .map(|rest| rest.trim_start_matches('-').trim_start())
            .and_then(|rest| rest.split_whitespace().next());
        let end =
            word.map(|word| word.trim_end_matches(';').trim_matches(['\'', '"', '\\'])).filter(|end| !end.is_empty());
        if let Some(end) = end {
            // A shift of bits has no such end, and takes no line away.
            let rest = lines.clone();
            if rest.clone().any(|line| line.trim() == end) {
                let skipped = rest.take_while(|line| line.trim() != end).count() + 1;
                lines.nth(skipped - 1);
            }
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(script: &str) -> Option<(String, Option<Obstacle>)> {
        hidden_in(script, false).map(|hidden| (hidden.line, hidden.obstacle))
    }

    #[track_caller]
    fn hides(script: &str, line: &str) {
        assert_eq!(hidden(script), Some((line.to_owned(), None)), "{script}");
    }

    #[test]
    fn a_program_that_writes_into_a_pipeline_is_found_however_it_is_written() {
        hides("python a.py \\\n  --x 1 2>&1 | tee -a log\n", "python a.py --x 1 2>&1 | tee -a log");
        hides("set -e\ncd x\ntorchrun a.py |& tee log\necho done", "torchrun a.py | tee log");
        hides("X=1 nohup ./train.sh | grep -v Warning | ts >log", "X=1 nohup ./train.sh | grep -v Warning | ts >log");
        hides("python a.py 2>&1 |\n  tee log # the end", "python a.py 2>&1 | tee log");
        hides("set -e; for s in 1 2; do python a.py $s | tee log.$s; done", "do python a.py $s | tee log.$s");
        hides("if [ $X ]; then\n  python a.py | tee log\nfi\n", "python a.py | tee log");
        hides("# python b.py \\\npython a.py | tee log\n", "python a.py | tee log");
        hides("for s in 1 2\ndo\n  python a.py $s\ndone 2>&1 | tee log", "done 2>&1 | tee log");
        hides("train() {\n  python a.py | tee log\n}\ntrain", "python a.py | tee log");
        hides("python a.py | tee log || exit 1\necho done", "python a.py | tee log");
        hides("python a.py | tee log; code=$?; exit $code", "python a.py | tee log");
        hides("case $1 in\n  -h|--help) usage ;;\n  *) python a.py | tee log ;;\nesac", "python a.py | tee log");
        hides("cat <<EOF\na | b\nEOF\npython a.py | tee log\nexit", "python a.py | tee log");
        let long = format!("python a.py {}| tee log", "--x 1 ".repeat(40));
        let shown = hidden(&long).unwrap().0;
        assert!(
            shown.starts_with("python a.py --x 1")
                && shown.contains('…')
                && shown.ends_with("| tee log")
                && shown.len() < 130,
            "{shown}"
        );
        hides("env A=1 python a.py | tee log", "env A=1 python a.py | tee log");
        hides("if python a.py | tee log; then echo done; else exit 1; fi", "if python a.py | tee log");
        hides("(cd x && python a.py) | tee log", "(cd x && python a.py) | tee log");
        hides("echo \"$(ls | wc -l) files\"; python a.py >&2 | cat", "python a.py >&2 | cat");
    }

    #[test]
    fn what_hides_nothing_is_left_alone() {
        for fine in [
            "set -eo pipefail\npython a.py | tee log\n",
            "python a.py | tee log\nexit ${PIPESTATUS[0]}\n",
            "# python a.py | tee log\n",
            "python a.py || teehee\n",
            "python a.py > log 2>&1\n",
            "python a.py >| log\n",
            "python a.py &> log\n",
            "echo start | tee log\npython a.py >>log\n",
            "nvidia-smi | grep H100\npython a.py",
            "env | sort >environment\npython a.py",
            "N=$(scontrol show hostnames | head -n 1)\npython a.py --host $N",
            "if python probe.py | grep -q ok; then python a.py; fi",
            "python -c 'print(1 | 2)'",
            "python a.py --x \"a | tee b\"",
            "cat <<'EOF' >run.py\nx | tee\nEOF\npython run.py",
            "exec > >(tee log) 2>&1\npython a.py",
            "python server.py | tee log &\npython a.py",
            "python a.py | head -n 100",
            "echo $((1 << 4 | 2))\npython a.py",
            "curl -sSf https://x.example/i.sh | sh\npython a.py",
            "",
        ] {
            assert_eq!(hidden(fine), None, "{fine}");
        }
    }

    #[test]
    fn where_the_shell_goes_on_its_last_command_decides() {
        let goes_on = Some(("python a.py | tee log".to_owned(), Some(Obstacle::GoesOn)));
        for script in
            ["python a.py | tee log; echo done", "python a.py | tee log\nwait\n", "python a.py | tee log\nexit 0"]
        {
            assert_eq!(hidden(script), goes_on, "{script}");
        }
        hides("set -e; python a.py | tee log; echo done", "python a.py | tee log");
        let in_loop = "for s in 1 2; do\n  python a.py | tee log\ndone\n";
        assert_eq!(hidden(in_loop), goes_on, "each round but the last is forgotten");
        let called = hidden_in("python a.py | tee log; echo done", true).unwrap();
        assert_eq!(called.obstacle, None, "the shell was called with -e");
        hides("#!/bin/bash -eu\npython a.py | tee log\necho done", "python a.py | tee log");
    }

    #[test]
    fn what_would_fail_with_pipefail_is_named() {
        for line in ["HOST=$(scontrol show hostnames | head -n 1)", "yes | ./install.sh", "N=`ps aux | grep x | wc -l`"]
        {
            let script = format!("set -eux\n{line}\npython a.py | tee log\n");
            assert_eq!(hidden(&script).unwrap().1, Some(Obstacle::Fails(line.to_owned())), "{line}");
            let without = format!("{line}\npython a.py | tee log\n");
            assert_eq!(hidden(&without).unwrap().1, None, "without -e nothing ends there: {line}");
        }
        hides(
            "set -e\nN=$(ls | head -n 1 || true)\npython a.py | grep -v x | tee log",
            "python a.py | grep -v x | tee log",
        );
    }
}
