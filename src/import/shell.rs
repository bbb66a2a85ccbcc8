//! Lines of a shell script as words: POSIX quoting by `shlex`, lines that go on, comments, here-documents. Nothing is expanded.

use shlex::Shlex;

/// A line as words without their quotes. `;` and `|` are words of their own where no quote holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellLine {
    pub words: Vec<String>,
    /// A quote in it is never closed: the word with the quote and all behind it are missing.
    pub is_cut: bool,
}

/// Every line, those of here-documents included. A script inside a word (`bash -c '...'`) follows the line that it stands in.
pub fn script_lines(script: &str) -> Vec<ShellLine> {
    let mut all = Vec::new();
    // What is being read ends where the innermost here-document does: an apostrophe in its text opens no quote behind it.
    let (mut at, mut ends) = (0, vec![script.len()]);
    while let Some(end) = ends.pop() {
        let text = &script[at..end];
        if text.is_empty() {
            continue;
        }
        let (line, mut length) = first_line(text);
        let line = ShellLine::new(&line);
        if line.is_cut {
            length = text.find('\n').map_or(text.len(), |newline| newline + 1);
        }
        at += length;
        ends.push(end);
        ends.extend(
            here_document(&line.words)
                .and_then(|mark| end_of_document(&text[length..], mark))
                .map(|length| at + length),
        );
        let inside: Vec<ShellLine> = scripts(&line.words).flat_map(script_lines).collect();
        all.push(line);
        all.extend(inside);
    }
    all
}

impl ShellLine {
    pub fn new(text: &str) -> Self {
        let mut words = Shlex::new(text);
        Self { words: words.by_ref().collect(), is_cut: words.had_error }
    }
}

/// The first line of a text, with its quotes and without its comment, and how much of the text it takes. It goes on behind a backslash
/// and in quotes.
fn first_line(text: &str) -> (String, usize) {
    let (mut line, mut quote, mut in_word) = (String::new(), None, false);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (None | Some('"'), '\\') => match letters.next() {
                None | Some((_, '\n')) => {}
                Some((_, escaped)) => {
                    line.extend(['\\', escaped]);
                    in_word = true;
                }
            },
            (Some(mark), letter) => {
                line.push(letter);
                quote = Some(mark).filter(|mark| *mark != letter);
            }
            (None, '\n') => return (line, at + 1),
            (None, '#') if !in_word => while letters.next_if(|(_, letter)| *letter != '\n').is_some() {},
            (None, ';' | '|') => {
                line.extend([' ', letter, ' ']);
                in_word = false;
            }
            (None, letter) => {
                line.push(letter);
                quote = Some(letter).filter(|letter| matches!(letter, '\'' | '"'));
                in_word = !matches!(letter, ' ' | '\t');
            }
        }
    }
    (line, text.len())
}

/// The word that ends the here-document which a line begins: `<<EOF`, `<<-EOF`, `<< EOF`.
fn here_document(words: &[String]) -> Option<&str> {
    let (at, mark) = words.iter().enumerate().find_map(|(at, word)| Some((at, word.split_once("<<")?.1)))?;
    let mark = mark.trim_start_matches('-').split('>').next().filter(|mark| !mark.is_empty());
    mark.or_else(|| words.get(at + 1).map(String::as_str)).filter(|mark| !mark.starts_with('<'))
}

/// Where the line that ends a here-document begins. `None`: there is none, and no document either, as in `$((1 << 4))`.
fn end_of_document(text: &str, mark: &str) -> Option<usize> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let begins = at;
        at += line.len();
        (line.trim_start_matches('\t').trim_end_matches('\n') == mark).then_some(begins)
    })
}

/// Words that are scripts: what a shell gets behind `-c`, and what has several lines.
fn scripts(words: &[String]) -> impl Iterator<Item = &str> {
    let is_shell =
        |word: &String| ["sh", "bash", "dash", "ksh", "zsh"].contains(&word.rsplit('/').next().unwrap_or(word));
    let is_flag = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let shell = words.iter().position(is_shell);
    let flag = shell.and_then(|shell| words[shell..].iter().position(is_flag).map(|flag| shell + flag));
    let given = flag.and_then(|flag| (flag + 1..words.len()).find(|at| words[*at] != "--"));
    words
        .iter()
        .enumerate()
        .filter(move |(at, word)| Some(*at) == given || word.contains('\n'))
        .map(|(_, word)| word.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(script: &str) -> Vec<Vec<String>> {
        script_lines(script).into_iter().map(|line| line.words).filter(|words| !words.is_empty()).collect()
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        // Each as bash prints them: `printf '%s\n' ...`.
        for (script, expected) in [
            ("a  'b c' \"d \\\" e\" f\\ g h'i'j '' # k", &["a", "b c", "d \" e", "f g", "hij", ""][..]),
            ("--x=a#b", &["--x=a#b"]),
            (" # only a comment", &[]),
            (r#"--split "a\d\$b" '\n' c\d"#, &["--split", r"a\d$b", r"\n", "cd"]),
            ("a \\\n  b", &["a", "b"]),
            ("a\\\nb", &["ab"]),
            ("a \\\n# b", &["a"]),
            ("a\\ #b", &["a #b"]),
            ("a \"b \\\nc\" 'd \\\ne'", &["a", "b c", "d \\\ne"]),
            ("a\\", &["a"]),
        ] {
            assert_eq!(script_lines(script)[0].words, expected, "{script}");
        }
    }

    #[test]
    fn a_comment_goes_on_in_no_line() {
        assert_eq!(words("# see wiki, section 3 \\\npython a.py # don't \\\n--b"), [&["python", "a.py"][..], &["--b"]]);
    }

    #[test]
    fn operators_stand_apart_unless_they_are_quoted() {
        assert_eq!(words("a --b;c|d ';|' >e 2>&1"), [["a", "--b", ";", "c", "|", "d", ";|", ">e", "2>&1"]]);
    }

    #[test]
    fn scripts_inside_are_lines_of_their_own() {
        assert_eq!(words("srun bash -lc 'a \\\n b'"), [&["srun", "bash", "-lc", "a \\\n b"][..], &["a", "b"]]);
        assert_eq!(words("sh -c -- 'a b'")[1], ["a", "b"]);
        assert_eq!(words("X=\"\na b\n\"")[1..], [&["X="][..], &["a", "b"]]);
        assert_eq!(words("python -c 'a b'").len(), 1);
    }

    #[test]
    fn a_here_document_ends_and_its_apostrophes_with_it() {
        for begin in ["<<EOF", "<< 'EOF'", "<<-EOF", "<<EOF>f", "<<\"EOF\" > f"] {
            let found = words(&format!("cat {begin}\ndon't do \\\n this\na b\n\tEOF\nEOF\nc 'd e'"));
            assert_eq!(found.last().unwrap(), &["c", "d e"], "{begin}");
            assert!(found.contains(&vec!["a".to_owned(), "b".to_owned()]), "{begin}");
        }
        assert_eq!(words("x=$((1 << 4))\na <<< \"b\nc\"\nd").last().unwrap(), &["d"]);
    }

    #[test]
    fn a_quote_that_is_never_closed_costs_its_own_line() {
        let found = script_lines("a b 'c\nd e\nf \"g");
        assert_eq!(
            found.iter().map(|line| (line.words.join(" "), line.is_cut)).collect::<Vec<_>>(),
            [("a b".to_owned(), true), ("d e".to_owned(), false), ("f".to_owned(), true)]
        );
    }

    proptest! {
        /// Quoted, on several lines, with a comment before: the words come back.
        #[test]
        fn what_was_quoted_is_read_back(list in prop::collection::vec("[^\0\n]{0,12}", 1..6)) {
            let quoted: Vec<_> = list.iter().map(|word| shlex::try_quote(word).unwrap()).collect();
            let script = format!("# it's \\\n{}\n", quoted.join(" \\\n  "));
            prop_assert_eq!(&script_lines(&script)[1], &ShellLine { words: list, is_cut: false });
        }

        #[test]
        fn any_text_is_read_to_its_end(text in "([a-c'\"\\\\ \n#;|]|<<|EOF\n|\\PC){0,80}") {
            let all = script_lines(&format!("{text}\n"));
            // Whatever stands before, a command behind a closed text is found.
            let found = script_lines(&format!("{text}\nEND it\n"));
            let is_open = all.iter().any(|line| line.is_cut);
            let is_last = found.last().is_some_and(|line| line.words == ["END", "it"]);
            prop_assert!(is_open || is_last || text.ends_with('\\') || text.contains("<<"), "{found:?}");
        }
    }
}
