//! What runs in the CI of others: the comment on a pull request, the job of GitLab, the hook of pre-commit.

use super::{passes, python_with_packages};

#[test]
fn a_pull_request_has_one_comment_with_its_cost() {
    let Some(python) = python_with_packages("a_pull_request_has_one_comment_with_its_cost") else { return };
    passes(&python, &["tests/python/test_action.py"]);
}
