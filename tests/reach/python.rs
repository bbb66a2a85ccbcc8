//! `import gpuplan` and `gpuplan mcp`, by the interpreter and the client that people use.

use super::{passes, plain_python, python_with_packages, root};

#[test]
fn the_documents_of_the_package_are_those_of_the_schemas() {
    let Some(python) = plain_python("the_documents_of_the_package") else { return };
    passes(&python, &["src/python/generate.py", "--check"]);
}

#[test]
fn the_package_answers_as_the_program_does() {
    let Some(python) = plain_python("the_package_answers_as_the_program_does") else { return };
    passes(&python, &["tests/python/test_package.py"]);
}

#[test]
fn a_loop_with_checkpointing_loses_nothing() {
    let Some(python) = plain_python("a_loop_with_checkpointing_loses_nothing") else { return };
    passes(&python, &["tests/python/test_checkpointing.py"]);
}

#[test]
fn tables_and_types_are_right() {
    let Some(python) = python_with_packages("tables_and_types_are_right") else { return };
    passes(&python, &["tests/python/test_package.py", "--pandas"]);
    passes(&python, &["-m", "mypy", "--strict", "--no-incremental", "src/python/gpuplan", "tests/python/typed_use.py"]);
}

#[test]
fn the_notebooks_show_what_they_should() {
    let Some(python) = python_with_packages("the_notebooks_show_what_they_should") else { return };
    passes(&python, &["tests/python/test_notebooks.py"]);
}

#[test]
fn an_agent_plans_and_only_a_person_launches() {
    let Some(python) = python_with_packages("an_agent_plans_and_only_a_person_launches") else { return };
    passes(&python, &["tests/python/test_mcp.py"]);
}

#[test]
fn the_version_is_the_same_everywhere() {
    let manifest = std::fs::read_to_string(root().join("src/python/pyproject.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    // Maturin takes it from Cargo.toml.
    assert_eq!(manifest["project"]["dynamic"].as_array().unwrap(), &vec![toml::Value::from("version")]);
    assert_eq!(manifest["tool"]["maturin"]["bindings"].as_str(), Some("bin"));
}
