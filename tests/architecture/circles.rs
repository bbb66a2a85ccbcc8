//! Circles of files: which file of a crate imports which, and where the arrows lead back.
//!
//! An arrow goes from a file to the one that defines what it names by `crate::`, `super::` or `self::`, also through the
//! re-exports of a parent, and from a parent to a child module whose items its own code names. `mod` lines and re-exports
//! of the root are an index of the crate and no arrows.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_name, positions};

/// Where a module stands in its crate: empty for `lib.rs`.
type Module = Vec<String>;

/// The code of each file of a crate, with comments, texts and tests blanked.
pub struct Files(BTreeMap<Module, String>);

struct Import {
    path: Vec<String>,
    is_public: bool,
}

impl Files {
    /// From paths below the folder of the crate and their code.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let module = |path: &str| -> Module {
            let stem = path.trim_end_matches(".rs");
            let stem = stem.strip_suffix("/mod").unwrap_or(stem);
            if stem == "lib" { Vec::new() } else { stem.split('/').map(str::to_owned).collect() }
        };
        Self(files.into_iter().map(|(path, code)| (module(path), code.to_owned())).collect())
    }

    /// Files that import each other, directly or through others: one set a circle.
    pub fn circles(&self) -> Vec<BTreeSet<String>> {
        let arrows: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|module| (module, self.arrows(module))).collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            arrows.keys().map(|module| (*module, reach(module, &arrows))).collect();
        let mut circles: Vec<BTreeSet<String>> = Vec::new();
        for (module, below) in &reached {
            let circle: BTreeSet<String> =
                below.iter().filter(|other| reached[*other].contains(module)).map(|other| name(other)).collect();
            if !circle.is_empty() && !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }

    fn arrows(&self, module: &Module) -> BTreeSet<Module> {
        let (imports, body) = imports(&self.0[module]);
        let is_index = |import: &Import| import.is_public && module.is_empty();
        let mut named: Vec<Vec<String>> =
            imports.into_iter().filter(|import| !is_index(import)).map(|import| import.path).collect();
        for start in ["crate::", "super::", "self::"] {
            named.extend(positions(&body, start).map(|at| path_at(&body[at..])));
        }
        for child in self.0.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module)) {
            let child = &child[module.len()];
            let is_first = |at: &usize| !body[..*at].ends_with("::");
            named.extend(positions(&body, &format!("{child}::")).filter(is_first).map(|_| vec![child.clone()]));
        }
        let absolute = named.iter().filter_map(|path| self.absolute(module, path));
        absolute.filter_map(|path| self.defining(path, 0)).filter(|other| other != module).collect()
    }

    /// A path from the root of the crate. `None` for what is of another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Vec<String>> {
        let up = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([&module[..module.len().saturating_sub(up)], &path[up..]].concat()),
            child => {
                let here = [module.as_slice(), &[child.to_owned()]].concat();
                self.0.contains_key(&here).then(|| [module.as_slice(), path].concat())
            }
        }
    }

    /// The file that defines what a path names, past re-exports.
    fn defining(&self, path: Vec<String>, hops: usize) -> Option<Module> {
        let (module, item) = (0..=path.len())
            .rev()
            .map(|length| path.split_at(length))
            .find(|(module, _)| self.0.contains_key(*module))
            .map(|(module, rest)| (module.to_vec(), rest.to_vec()))?;
        let Some(first) = item.first().filter(|_| hops < 5) else { return Some(module) };
        let exported = imports(&self.0[&module])
            .0
            .into_iter()
            .find(|import| import.is_public && import.path.last() == Some(first) && import.path.first() != Some(first));
        match exported.and_then(|import| self.absolute(&module, &import.path)) {
            Some(target) if target != path => self.defining([target, item[1..].to_vec()].concat(), hops + 1),
            _ => Some(module),
        }
    }
}

fn name(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

fn reach<'a>(from: &Module, arrows: &'a BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in &arrows[module] {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

/// The `use` items of a file, one a name, and the code without them.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut imports, mut body, mut last) = (Vec::new(), String::new(), 0);
    for at in positions(code, "use ") {
        let before = code[..at].trim_end_matches(' ');
        let is_item = before.is_empty() || before.ends_with(['\n', '{', '}', ';', ')']) || before.ends_with("pub");
        if at < last || !is_item {
            continue;
        }
        let end = code[at..].find(';').map_or(code.len(), |length| at + length);
        let is_public = before.ends_with("pub") || before.ends_with(')');
        let tree: String = code[at + 4..end].split_whitespace().collect::<Vec<_>>().join(" ");
        for path in branches(&tree) {
            let path = path.split(" as ").next().unwrap_or_default().split("::");
            imports.push(Import { path: path.map(|part| part.trim().to_owned()).collect(), is_public });
        }
        body.push_str(&code[last..at]);
        last = end;
    }
    body.push_str(&code[last..]);
    (imports, body)
}

/// `a::{b, c::{d}}` as `a::b` and `a::c::d`.
fn branches(tree: &str) -> Vec<String> {
    let Some((start, inner)) = tree.trim().strip_suffix('}').and_then(|tree| tree.split_once('{')) else {
        return vec![tree.trim().to_owned()];
    };
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[from..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(branches).map(|part| format!("{}{part}", start.trim())).collect()
}

fn path_at(code: &str) -> Vec<String> {
    let path = code.split(|letter: char| !is_name(letter) && letter != ':').next().unwrap_or_default();
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[test]
fn circles_are_found_however_they_are_written() {
    let found = |files: &[(&str, &str)]| Files::new(files.iter().copied()).circles().len();
    assert_eq!(found(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "fn f() {}")]), 0);
    assert_eq!(found(&[("a.rs", "use crate::b::B;"), ("b.rs", "fn f(a: crate::a::A) {}")]), 1);
    assert_eq!(found(&[("a.rs", "use crate::{b::B, c::C};"), ("b.rs", "use crate::c::{D, E};"), ("c.rs", "")]), 0);
    assert_eq!(found(&[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")]), 1);
    let index = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::{B, C};");
    assert_eq!(found(&[index, ("a.rs", "use crate::B;"), ("b.rs", "struct B;")]), 0);
    assert_eq!(found(&[index, ("a.rs", "use crate::B;"), ("b.rs", "use crate::A;")]), 1);
    assert_eq!(found(&[("a.rs", "mod b;\nfn f() { b::g() }"), ("a/b.rs", "fn g() {}")]), 0);
    assert_eq!(found(&[("a.rs", "mod b;\nfn f() { b::g() }"), ("a/b.rs", "use super::f;")]), 1);
    assert_eq!(found(&[("lib.rs", "mod a;\nfn f() { a::g() }"), ("a.rs", "use crate::Kind;")]), 1);
    assert_eq!(found(&[("lib.rs", "mod a;\nenum Kind {}"), ("a.rs", "use crate::Kind;")]), 0);
}
