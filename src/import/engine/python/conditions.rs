//! Conditions of a Python program under which adapters are attached, and its code without the texts in it. Nothing is run.

use super::calls::{literal, values_with, without_long_texts};

/// Whether a program attaches adapters. `Err`: a condition decides it that only a run would tell.
pub fn of_adapters(text: &str, flags: &[(String, String)]) -> Result<bool, String> {
    let code = without_long_texts(text);
    let lines: Vec<&str> = code.lines().collect();
    let attaches = |call: &str| lines.iter().position(|line| is_call(line, call));
    let Some(at) = attaches("get_peft_model(").or_else(|| attaches("LoraConfig(")) else { return Ok(true) };
    // `peft_config=config if args.use_peft else None`
    let chosen =
        lines.iter().find(|line| line.contains("peft_config") && line.contains(" if ") && line.contains(" else "));
    if let Some(line) = chosen {
        return Err(line.trim().to_owned());
    }
    let set = values_with(text, flags);
    let mut holds = true;
    for condition in above(&lines, at) {
        let plain = condition.strip_prefix("if ").unwrap_or_default().trim_end_matches(':').trim();
        let (is_negated, name) = plain.strip_prefix("not ").map_or((false, plain), |name| (true, name.trim()));
        match literal(name, &set).or_else(|| switched_off(&lines, name)).as_deref() {
            Some("True") => holds &= !is_negated,
            Some("False" | "None") => holds &= is_negated,
            _ => return Err(condition.to_owned()),
        }
    }
    Ok(holds)
}

/// What a flag is that nobody gives: `add_argument("--use-lora", action="store_true")`, `default=None`.
fn switched_off(lines: &[&str], name: &str) -> Option<String> {
    /// Lines that the call of one flag takes.
    const LONGEST: usize = 6;
    let flag = name.strip_prefix("args.")?;
    let is_flag = |line: &&&str| {
        [flag.to_owned(), flag.replace('_', "-")]
            .iter()
            .any(|flag| line.contains(&format!("\"--{flag}\"")) || line.contains(&format!("'--{flag}'")))
    };
    let at = lines.iter().position(|line| is_flag(&line))?;
    let call: Vec<&str> = lines[at..]
        .iter()
        .take(LONGEST)
        .enumerate()
        .take_while(|(after, line)| *after == 0 || !line.contains("add_argument("))
        .map(|(_, line)| *line)
        .collect();
    let is_off = call.iter().any(|line| line.contains("store_true") || line.contains("default=None"));
    is_off.then(|| "False".to_owned())
}

fn is_call(line: &str, call: &str) -> bool {
    let start = line.trim_start();
    line.contains(call)
        && !start.starts_with(['#', '"', '\''])
        && !start.starts_with("def ")
        && !start.starts_with("import ")
}

/// Conditions around a line, up to the function that it stands in.
fn above<'a>(lines: &[&'a str], at: usize) -> Vec<&'a str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut inside, mut found) = (indent(lines[at]), Vec::new());
    for line in lines[..at].iter().rev().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
        if indent(line) >= inside {
            continue;
        }
        inside = indent(line);
        let start = line.trim();
        if ["def ", "class ", "async def "].iter().any(|word| start.starts_with(word)) {
            break;
        }
        let is_main = start.contains("__name__");
        if !is_main && (start.starts_with("if ") || start.starts_with("elif ") || start.starts_with("else")) {
            found.push(start);
        }
    }
    found
}

/// A program without what stands in its texts and comments.
pub fn without_texts(text: &str) -> String {
    let code = without_long_texts(text);
    let mut all = String::with_capacity(code.len());
    for line in code.lines() {
        let mut quote = None;
        for letter in line.chars() {
            match (letter, quote) {
                (end, Some(begin)) if end == begin => quote = None,
                (_, Some(_)) => {}
                ('"' | '\'', None) => quote = Some(letter),
                ('#', None) => break,
                _ => all.push(letter),
            }
        }
        all.push('\n');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_attached_where_their_conditions_hold() {
        let program = |head: &str, condition: &str| {
            format!(
                "import peft\n{head}\ndef main():\n    {condition}\n        # here\n        model = get_peft_model(model, LoraConfig(r=8))\n"
            )
        };
        for (head, condition, holds) in [
            ("USE = True", "if USE:", Ok(true)),
            ("USE = False", "if USE:", Ok(false)),
            ("USE = False", "if not USE:", Ok(true)),
            ("", "if args.use:", Err("if args.use:".to_owned())),
            ("", "else:", Err("else:".to_owned())),
            ("parser.add_argument(\"--use\", action=\"store_true\")", "if args.use:", Ok(false)),
            ("parser.add_argument('--with-it',\n    default=None)", "if not args.with_it:", Ok(true)),
            ("", "for model in models:", Ok(true)),
        ] {
            assert_eq!(of_adapters(&program(head, condition), &[]), holds, "{head} {condition}");
        }
        let flag = [("use".to_owned(), "True".to_owned())];
        assert_eq!(of_adapters(&program("", "if args.use:"), &flag), Ok(true));
        assert!(
            of_adapters("config = LoraConfig(r=8)\nSFTTrainer(peft_config=config if args.use else None)\n", &[])
                .is_err()
        );
        assert_eq!(of_adapters("if __name__ == '__main__':\n    get_peft_model(model)\n", &[]), Ok(true));
    }

    #[test]
    fn texts_and_comments_are_no_code() {
        assert_eq!(without_texts("a('lora') # peft\n\"\"\"freeze\"\"\"\nb"), "a() \n\nb\n");
    }
}
