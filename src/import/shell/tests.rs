//! Tests of `shell.rs`: each script's commands as bash would start them.

#![cfg(test)]

use proptest::prelude::*;

use super::*;

fn read(script: &str) -> Vec<Vec<String>> {
    let mut reader = Script::new(&|name| (name == "env.sh").then(|| "export SIZE=8B\n".to_owned()));
    reader.set("SLURM_NNODES", "4");
    reader.read(script);
    reader.commands().iter().map(|command| command.words.clone()).collect()
}

/// The words of the last command.
fn last(script: &str) -> String {
    read(script).last().map(|words| words.join("|")).unwrap_or_default()
}

#[test]
fn ways_that_agree_or_end_the_script_leave_a_value_known() {
    let script = "case $1 in\na) N=3; M=1 ;;\nb) N=3; M=2 ;;\n*) echo no; exit 1 ;;\nesac\nif [ ! -f $2 ]; then\n  K=1\n  exit 2\nfi\nK=${K:-7}\ntrain $N $M $K $(seq -s, 0 2)\n";
    let files = |_: &str| None;
    let mut reader = Script::new(&files);
    reader.read(script);
    let train = reader.commands().iter().find(|one| one.words[0] == "train").unwrap();
    assert_eq!(train.words[1..], ["3", "$M", "7", "0,1,2"]);
}

/// What a condition changes is kept, and not every variable: a script of twice as many lines takes twice the work.
#[test]
fn conditions_keep_what_they_change_and_not_every_variable() {
    let work = |count: usize| {
        let line = |at: usize| {
            format!(
                "V{at}=a\n[ -n \"$X{at}\" ] && V{at}=b\nif $Y{at}; then W{at}=c; elif $Z{at}; then W{at}=d; else V{at}=e; fi\ncase $X in 1) V{at}=f ;; esac\n"
            )
        };
        let script: String = (0..count).map(line).collect();
        let files = |_: &str| None;
        let mut reader = Script::new(&files);
        reader.read(&script);
        assert!(!reader.is_cut());
        reader.work_of_ways()
    };
    let (short, long) = (work(100), work(200));
    assert!(short > 100 && long <= 2 * short, "{short} {long}");
}

/// A variable that one of several ways leaves alone is as it was there, and a way that is taken back leaves nothing.
#[test]
fn ways_in_ways_are_taken_back_one_by_one() {
    let script = "A=1; B=1; C=1\nif $X; then\n  A=2\n  if $Y; then B=2; else B=3; fi\n  D=4\nelif ${E:=5} ; then\n  C=1\nfi\ntrain $A $B $C $D $E\n";
    assert_eq!(last(script), "train|$A|$B|1|$D|$E");
    let text = "CMD=\"run a\"\nif $X; then CMD=\"$CMD --b\"; fi\nif $Y; then unset Z; fi\n$CMD\n";
    assert_eq!(last(text), "run|a|$CMD_ARGS");
    let lists = "L=(a)\nif $X; then L+=(b); fi\ntrain \"${L[@]}\"\n";
    assert_eq!(last(lists), "train|a|$L");
}

#[test]
fn a_function_is_read_with_its_arguments() {
    let script = "run() {\n  local model=$1\n  shift\n  train --model $model --steps ${2:-7} \"$@\"\n}\nfunction other { eval_it $1; }\nrun a/b 5 x\n";
    assert_eq!(last(script), "train|--model|a/b|--steps|x|5|x");
    assert_eq!(read(script)[0].join("|"), "eval_it|$1", "what nothing calls is read without arguments");
    let main = "main() {\n  train ${1:-8} $2\n}\nmain \"$@\"\n";
    assert_eq!(last(main), "train|8|$2");
    assert!(read("f() { f; }\nf\n").is_empty(), "a function that calls itself ends");
}

#[test]
fn a_command_line_that_may_be_longer_is_known_as_far_as_it_goes() {
    let script = "CMD=\"train --steps 5\"\nif [ -n \"$BF16\" ]; then\n  CMD=\"$CMD $BF16\"\nfi\nCMD=\"$CMD --rank 8\"\nbash -c \"$CMD\"\n";
    assert_eq!(last(script), "train|--steps|5|$CMD_ARGS|--rank|8");
}

#[test]
fn what_submits_a_job_is_read_though_its_output_is_kept() {
    let files = |_: &str| None;
    let mut reader = Script::new(&files);
    reader.read("JOB=$(sbatch --gpus 4 train.sh)\nN=$(python count.py)\neval $COMMAND\n");
    let names: Vec<&str> = reader.commands().iter().map(|one| one.words[0].as_str()).collect();
    assert_eq!(names, ["sbatch", "eval"]);
}

#[test]
fn words_are_split_as_a_shell_splits_them() {
    for (script, expected) in [
        ("a  'b c' \"d \\\" e\" f\\ g h'i'j '' # k", "a|b c|d \" e|f g|hij|"),
        ("a --x=a#b", "a|--x=a#b"),
        ("a --split \"a\\d\" '\\n' c\\d", "a|--split|a\\d|\\n|cd"),
        ("a \\\n  b", "a|b"),
        ("a\\\nb", "ab"),
        ("a \\\n# b", "a"),
        ("a\\ #b", "a #b"),
        ("a \"b \\\nc\" 'd \\\ne'", "a|b c|d \\\ne"),
        ("a >e 2>&1", "a"),
        ("a ';|' \"x;y\"", "a|;||x;y"),
    ] {
        assert_eq!(last(script), expected, "{script}");
    }
    assert_eq!(read("a --b;c|d &&e & f").len(), 5);
    assert_eq!(read("# see wiki, section 3 \\\npython a.py # don't \\\n--b").len(), 2);
}

#[test]
fn variables_arrays_and_defaults_are_expanded() {
    for (script, expected) in [
        ("X=1 Y=$X\na $X ${Y}b \"$X $Y\" '$X'", "a|1|1b|1 1|$X"),
        ("A=(--a 1 # no\n  --b '2 3')\nA+=(--c)\nt ${A[@]} \"${A[@]}\"", "t|--a|1|--b|2|3|--c|--a|1|--b|2 3|--c"),
        ("declare -a A=(1 2)\nexport B=\"x y\" C=3\na ${#A[@]} ${A[1]} $B $C", "a|2|2|x|y|3"),
        (": \"${N:=36}\"\na $N ${M:-${N}0} ${N:+set} ${Z-z}", "a|36|360|set|z"),
        ("N=4\na $((N * 8 + 2**3)) $(($SLURM_NNODES*$N/2)) $((7 % 4))", "a|40|8|3"),
        (
            "P=google/gemma-2-2b.tar.gz\na ${P##*/} ${P%/*} ${P%%.*} ${P#google/} ${P/gemma/x}",
            "a|gemma-2-2b.tar.gz|google|google/gemma-2-2b|gemma-2-2b.tar.gz|google/x-2-2b.tar.gz",
        ),
        ("E=\na $E \"$E\" b", "a||b"),
        ("X=\"--a \\\n --b\"\nt $X", "t|--a|--b"),
        ("source env.sh\na Llama-${SIZE}", "a|Llama-8B"),
        ("CMD=\"a --x 1\"\nL=\"srun b\"\nbash -c \"$L $CMD\"", "srun|b|a|--x|1"),
        ("eval \"a b\"", "a|b"),
        ("read -r -d '' C <<EOF\na --x 1\nEOF\nrun $C", "run|a|--x|1"),
    ] {
        assert_eq!(last(script), expected, "{script}");
    }
}

#[test]
fn what_is_not_known_stays_unknown_and_is_never_empty() {
    for (script, expected) in [
        (
            "a $NOBODY \"$1\" $(date) `hostname` ${X[0]} $((NOBODY + 1))",
            "a|$NOBODY|$1|$(date)|$(hostname)|${X[0]}|$((NOBODY + 1))",
        ),
        ("X=$(hostname)\na $X ${X:-b} ${X##*/}", "a|$(hostname)|$(hostname)|${X##*/}"),
        ("if [ $1 = big ]; then N=80; else N=32; fi\na $N", "a|$N"),
        ("N=1\ncase $1 in x) N=2 ;; *) N=3 ;; esac\na $N", "a|$N"),
        ("A=(--a)\nif [ -n \"$WANDB\" ]; then A+=(--w); fi\na \"${A[@]}\"", "a|--a|$A"),
        ("for n in 1 2; do a --x $n; done", "a|--x|$n"),
        ("a $((1 / 0)) $((9223372036854775807 + 1))", "a|$((1 / 0))|$((9223372036854775807 + 1))"),
    ] {
        assert_eq!(last(script), expected, "{script}");
    }
}

/// Commands that only work on text are worked out; a script lies in the current folder and is started without arguments.
#[test]
fn paths_and_sums_of_commands_are_known() {
    for (script, expected) in [
        ("D=$(dirname $(readlink -f $0))\n# python3 a.py \\\na $D/b.py", "a|./b.py"),
        ("D=\"$( cd -- \"$( dirname -- \"${BASH_SOURCE[0]}\" )\" &> /dev/null && pwd )\"\na $D/b.py", "a|./b.py"),
        ("S=$(realpath \"$0\")\nD=$(dirname \"$S\")\na $D", "a|."),
        ("a `basename /x/y.sh .sh` $(basename x/y/) $(dirname /x/y) $(pwd)/z", "a|y|y|/x|./z"),
        ("N=4\na $(expr 64 / $N) $(expr $N \\* 2)", "a|16|8"),
        ("a $(echo 0,1,2 | tr ',' '\\n' | wc -l) $(echo 0,1 | awk -F',' '{print NF}')", "a|3|2"),
        ("M=x\nwhile [[ \"$1\" != \"\" ]]; do case $1 in -m) shift; M=$1;; esac; shift; done\na $M", "a|x"),
        ("M=x\nwhile [ $# -gt 0 ]; do M=$1; shift; done\na $M", "a|x"),
        ("M=x\nwhile getopts m: o; do M=$OPTARG; done\na $M", "a|x"),
        ("M=x\nif [ $# -ge 2 ]; then M=\"$2\"; fi\na $M", "a|x"),
        (
            "a $(basename $X) $(dirname $X) $(basename $0) $(cat f) $(python -c 'x')",
            "a|$(basename $X)|$(dirname $X)|$(basename $0)|$(cat f)|$(python -c 'x')",
        ),
    ] {
        assert_eq!(last(script), expected, "{script}");
    }
    read(&format!("a {}", "$(echo ".repeat(20_000)));
    read(&format!("a {}x{}", "$(echo ".repeat(35), ")".repeat(35)));
}

#[test]
fn conditions_that_are_known_are_decided() {
    for (script, expected) in [
        ("D=fp8\nif [[ \"$D\" == fp* ]]; then X=1; else X=2; fi\na $X", "a|1"),
        ("N=2\nif [ $N -gt 4 ]; then X=1; elif [ $N -eq 2 ]; then X=2; fi\na $X", "a|2"),
        ("S=70B\ncase $S in 8B) L=32 ;; 70*) L=80 ;; esac\na $L", "a|80"),
        ("[ -z \"$SLURM_NNODES\" ] && X=1 || X=2\na $X", "a|2"),
        ("! true && X=1\na ${X:-0}", "a|0"),
        ("f() { a $1; }\nb", "b"),
        ("for n in 5; do a --x $n; done", "a|--x|5"),
    ] {
        assert_eq!(last(script), expected, "{script}");
    }
}

#[test]
fn a_here_document_ends_and_its_apostrophes_with_it() {
    for begin in ["<<EOF", "<< 'EOF'", "<<-EOF", "<<EOF>f", "<<\"EOF\" > f"] {
        assert_eq!(last(&format!("cat {begin}\ndon't do \\\n this\na b\n\tEOF\nEOF\nc 'd e'")), "c|d e", "{begin}");
    }
    assert_eq!(last("x=$((1 << 4))\na <<< \"b\nc\"\nd"), "d");
    let mut reader = Script::new(&|_| None);
    reader.read("N=2\ncat <<EOT > c.json\n{\"stage\": $N}\nEOT\ncat > d.json <<'EOT'\n$N\nEOT\n");
    assert_eq!(
        (reader.file("c.json").as_deref(), reader.file("d.json").as_deref()),
        (Some("{\"stage\": 2}\n"), Some("$N\n"))
    );
}

#[test]
fn a_quote_that_is_never_closed_costs_its_own_line() {
    let mut reader = Script::new(&|_| None);
    reader.read("a b 'c\nd e\nf \"g");
    let found: Vec<(String, bool)> = reader.commands().iter().map(|one| (one.words.join(" "), one.is_cut)).collect();
    assert_eq!(found, [("a b".to_owned(), true), ("d e".to_owned(), false), ("f".to_owned(), true)]);
}

#[test]
fn a_script_that_grows_without_end_is_left_in_time() {
    let doubling = (0..200).map(|at| format!("X{}=\"$X{at}$X{at}\"", at + 1)).collect::<Vec<_>>().join("\n");
    read(&format!("X0=aaaaaaaaaaaaaaaa\n{doubling}\na $X200"));
    read(&"(".repeat(100_000));
    read(&"if ".repeat(50_000));
    read(&format!("a {}", "${X:-".repeat(20_000)));
    read(&format!("a $(({}", "(".repeat(20_000)));
    read("X='bash -c \"$X\"'\nbash -c \"$X\"");
    read(&"[ $1 ] && ".repeat(20_000));
}

proptest! {
    /// Quoted, on several lines, with a comment before: the words come back.
    #[test]
    fn what_was_quoted_is_read_back(list in prop::collection::vec("[^\0\n]{0,12}", 1..6)) {
        let quoted: Vec<_> = list.iter().map(|word| shlex::try_quote(word).unwrap()).collect();
        let found = read(&format!("# it's \\\nrun {}\n", quoted.join(" \\\n  ")));
        prop_assert_eq!(&found[0][1..], &list[..]);
    }

    #[test]
    fn any_text_is_read_to_its_end(text in "([a-c'\"\\\\ \n#;|(){}$=`]|<<|EOF\n|if |then |fi\n|\\PC){0,80}") {
        read(&text);
    }
}

#[test]
fn arithmetic_commands_change_a_variable() {
    assert_eq!(last("N=3\n((N++))\n(( N += 2 ))\nlet N*=2\ntrain $N\n"), "train|12");
    assert_eq!(last("N=3\nif [ \"$1\" -eq 0 ]; then\n  ((N++))\nfi\ntrain $N\n"), "train|$N", "only a run tells");
    assert_eq!(last("((M=$2+1))\ntrain $M\n"), "train|$M");
    assert_eq!(last("N=3\nif ((N == 3)); then\n  M=1\nelse\n  M=2\nfi\ntrain $M\n"), "train|1");
    assert_eq!(last("N=3\n( (echo $N) )\n((N==4))\ntrain $N\n"), "train|3", "a test and subshells change none");
}

/// `declare -A`, elements of an index that only a run would tell, and elements that are set one by one.
#[test]
fn arrays_have_keys_and_what_all_of_them_are_is_known() {
    let map = "declare -A M=(\n  [small]=\"Qwen/Qwen3-8B\"\n  [large]=\"Qwen/Qwen3-32B\"\n)\n";
    assert_eq!(last(&format!("{map}K=\"${{1:-large}}\"\ntrain \"${{M[$K]:-}}\"\n")), "train|Qwen/Qwen3-32B");
    assert_eq!(last(&format!("{map}train ${{M[other]:-none}}\n")), "train|none");
    assert_eq!(last(&format!("{map}train ${{M[$K]}}\n")), "train|${M[$K]}", "only a run tells");
    assert_eq!(last("declare -A M\nM[a]=1\nM[\"b\"]=2\ntrain ${M[b]} ${M[a]}\n"), "train|2|1");
    let tasks = "A=(gpt2 gpt2)\nB=(1 2)\ntrain ${A[${SLURM_ARRAY_TASK_ID}]} ${B[$SLURM_ARRAY_TASK_ID]}\n";
    assert_eq!(last(tasks), "train|gpt2|${B[$SLURM_ARRAY_TASK_ID]}");
}

#[test]
fn a_text_is_searched_for_a_word() {
    let script =
        |args: &str, test: &str| last(&format!("ARGS=\"{args}\"\nN=8\nif {test}; then\n  N=1\nfi\ntrain $N\n"));
    assert_eq!(script("--a 1 --scaling", "echo \"$ARGS\" | grep -q -- \"--scaling\""), "train|1");
    assert_eq!(script("--a 1", "echo \"$ARGS\" | grep -q -- \"--scaling\""), "train|8");
    assert_eq!(script("--a 1", "! echo \"$ARGS\" | grep -qF scaling"), "train|1");
    assert_eq!(script("--a $X", "echo \"$ARGS\" | grep -q scaling"), "train|$N", "a part of it is not known");
    assert_eq!(script("--a 1", "echo \"$ARGS\" | grep -q 'a.*1'"), "train|$N", "a pattern");
    assert_eq!(script("--a 1", "echo \"$ARGS\" | grep -q a file.txt"), "train|$N", "it reads a file");
}
