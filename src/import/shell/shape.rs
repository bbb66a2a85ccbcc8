//! What a part of a script is, by its shape: a sum, a test, a way that ends the script.

use super::arithmetic;
use super::tree::{Node, Simple};

/// The sum of `((...))`, which has the brackets of two subshells.
pub fn arithmetic_of(group: &[Node]) -> Option<String> {
    let [Node::Group(inner)] = group else { return None };
    let [Node::Simple(simple)] = inner.as_slice() else { return None };
    let sum = simple.words.join(" ");
    let asks = ["==", "!=", "%"].iter().any(|operator| sum.contains(operator));
    // Behind `<` and `>` a file was read.
    let is_whole = simple.output.is_none() && simple.document.is_none();
    (is_whole && (asks || arithmetic::assignment(&sum).is_some())).then_some(sum)
}

/// `while [[ $# -gt 0 ]]`, `while [ -n "$1" ]`, `while (( $# ))`, `while getopts`.
pub fn asks_for_arguments(node: &Node) -> bool {
    let is_argument = |word: &String| ["$#", "$1", "${1"].iter().any(|argument| word.contains(argument));
    match node {
        Node::Simple(simple) => {
            let first = simple.words.first();
            let asks = is_test(simple) || first.is_some_and(is_argument);
            first.is_some_and(|name| name == "getopts") || (asks && simple.words.iter().any(is_argument))
        }
        // An arithmetic test has the brackets of two subshells.
        Node::Group(inner) => inner.iter().any(asks_for_arguments),
        _ => false,
    }
}

/// Whether the script is over behind these commands: nothing that they set counts.
pub fn ends(body: &[Node]) -> bool {
    let exits = |simple: &Simple| simple.words.first().is_some_and(|word| word == "exit");
    matches!(body.last(), Some(Node::Simple(simple)) if exits(simple))
}

pub fn is_test(simple: &Simple) -> bool {
    matches!(simple.words.first().map(String::as_str), Some("[" | "[[" | "test"))
}
