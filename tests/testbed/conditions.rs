//! A small evaluator of the conditions of Google's IAM, as far as `setup.tf` needs it: what the account of machines may write.

/// The parts of an expression, read from left to right.
struct Reader<'a> {
    rest: &'a str,
    resource: &'a str,
}

/// Whether a condition holds for a resource: `extract` (cloud.google.com/iam/docs/conditions-attribute-reference#extract), `==`, `!=`, `&&`,
/// `||` and parentheses.
pub fn holds(expression: &str, resource: &str) -> bool {
    let mut reader = Reader { rest: expression, resource };
    let is_so = reader.any();
    assert!(reader.rest.trim().is_empty(), "not read: {}", reader.rest);
    is_so
}

impl<'a> Reader<'a> {
    fn takes(&mut self, word: &str) -> bool {
        let Some(rest) = self.rest.trim_start().strip_prefix(word) else { return false };
        self.rest = rest;
        true
    }

    fn any(&mut self) -> bool {
        let mut is_so = self.all();
        while self.takes("||") {
            is_so |= self.all();
        }
        is_so
    }

    fn all(&mut self) -> bool {
        let mut is_so = self.one();
        while self.takes("&&") {
            is_so &= self.one();
        }
        is_so
    }

    fn one(&mut self) -> bool {
        if self.takes("(") {
            let is_so = self.any();
            assert!(self.takes(")"), "not closed: {}", self.rest);
            return is_so;
        }
        let left = self.text();
        let is_same = self.takes("==");
        assert!(is_same || self.takes("!="), "no comparison: {}", self.rest);
        let right = self.text();
        (left == right) == is_same
    }

    fn text(&mut self) -> &'a str {
        if self.takes("resource.name.extract(") {
            let template = self.quoted();
            assert!(self.takes(")"), "not closed: {}", self.rest);
            return extracted(self.resource, template);
        }
        self.quoted()
    }

    fn quoted(&mut self) -> &'a str {
        assert!(self.takes("'"), "no text: {}", self.rest);
        let (text, rest) = self.rest.split_once('\'').unwrap();
        self.rest = rest;
        text
    }
}

/// What stands between the first place of what is before the braces and the next one of what is behind them; nothing where either is missing.
fn extracted<'a>(resource: &'a str, template: &str) -> &'a str {
    let (before, rest) = template.split_once('{').unwrap();
    let behind = rest.split_once('}').unwrap().1;
    let Some((_, found)) = resource.split_once(before) else { return "" };
    if behind.is_empty() { found } else { found.split_once(behind).map_or("", |(found, _)| found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iam::tests::WRITTEN_BY_AGENTS;

    const SETUP: &str = include_str!("../../src/clouds/gcp/setup.tf");

    #[test]
    fn a_template_takes_what_google_says_it_takes() {
        // The examples of its page.
        let name = "projects/_/buckets/acme-orders-aaa/objects/data_lake/orders/order_date=2019-11-03/aef87g87ae0876";
        for (template, taken) in [
            ("/order_date={date}/", "2019-11-03"),
            ("buckets/{name}/", "acme-orders-aaa"),
            ("/orders/{empty}order_date", ""),
            ("{start}/objects/data_lake", "projects/_/buckets/acme-orders-aaa"),
            ("orders/{end}", "order_date=2019-11-03/aef87g87ae0876"),
            ("{all}", name),
            ("/orders/{none}/order_date=", ""),
            ("/orders/order_date=2019-11-03/{id}/data_lake", ""),
        ] {
            assert_eq!(extracted(name, template), taken, "{template}");
        }
        assert!(holds("resource.name.extract('a/{b}/') == 'c' && ('x' == 'y' || 'x' != 'y')", "a/c/d"));
        assert!(!holds("'x' == 'y' || 'x' == 'z' && 'x' == 'x'", ""));
    }

    /// The conditions as Terraform writes them out.
    fn conditions() -> Vec<String> {
        let lists = SETUP.split_once("written = {").unwrap().1.split_once('}').unwrap().0;
        let quoted = |text: &str| text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let made = SETUP.split_once("is_written = {").unwrap().1;
        let guard = quoted(made.lines().nth(1).unwrap()).remove(0);
        let each = made.split_once("for place in places : \"").unwrap().1.split_once('"').unwrap().0;
        let lists = lists.lines().filter(|line| line.contains('[')).map(quoted);
        lists
            .map(|places| {
                let places: Vec<String> = places.iter().map(|place| each.replace("${place}", place)).collect();
                format!("{guard} ({})", places.join(" || "))
            })
            .collect()
    }

    #[test]
    fn a_machine_on_google_cloud_writes_what_agents_write_and_nothing_that_others_run_or_go_by() {
        let conditions = conditions();
        assert_eq!(conditions.len(), 2, "{conditions:?}");
        for condition in &conditions {
            let operators = condition.matches("||").count() + condition.matches("&&").count();
            assert!(operators <= 12, "IAM takes no more: {operators} in {condition}");
        }
        let may = |key: &str| {
            let name = format!("projects/_/buckets/gpuplan-runs-p-us-central1/objects/{key}");
            conditions.iter().any(|condition| holds(condition, &name))
        };
        for key in WRITTEN_BY_AGENTS {
            for place in ["runs/r", "team/runs/r", "runs/sweep-007"] {
                assert!(may(&format!("{place}/{key}")), "{place}/{key}");
            }
        }
        let token = "0123456789abcdef".repeat(4);
        for key in [
            "runs/_bin/ab/gpuplan",
            "runs/r/spec.json",
            "team/runs/r/spec.json",
            &format!("runs/r/next/{token}.json"),
            &format!("team/runs/r/next/{token}.json"),
            "runs/r/lead/7",
            "runs/r/lead-over/7",
            "runs/r/lead-keeps/7",
            "runs/r/lease/7",
            "runs/r/stop/3",
            "runs/r/keep/500",
            "runs/r/rented.json",
            "runs/r/workdir/ab.tar.gz",
            "runs/r/dataset/ab/x",
            "runs/r/dataset/ab/data/x",
            "runs/r/dataset/ab/result.json",
            "other/file",
            "terraform.tfstate",
            "data/x",
        ] {
            assert!(!may(key), "{key}");
        }
        let bucket = "projects/_/buckets/gpuplan-runs-p-us-central1";
        assert!(!conditions.iter().any(|condition| holds(condition, bucket)));
        // Whoever trains has these roles alone, and both of them nowhere else.
        let whole = SETUP.matches("roles/storage.objectUser").count();
        assert_eq!(whole, 1, "only whoever leads writes all of it");
    }
}
