//! The pages that `gpuplan mcp` hands out. The build script of this crate packs them.

pub const JSON_SCHEMA: &str = "application/schema+json";
pub const MARKDOWN: &str = "text/markdown";

pub struct Page {
    /// Below `gpuplan://`.
    pub path: &'static str,
    pub title: &'static str,
    pub kind: &'static str,
    /// Below `docs/`.
    pub file: &'static str,
}

const fn page(path: &'static str, title: &'static str, kind: &'static str, file: &'static str) -> Page {
    Page { path, title, kind, file }
}

pub const PAGES: [Page; 14] = [
    page("schema/workload-file", "Every key of a workload file", JSON_SCHEMA, "schema/workload-file.json"),
    page("schema/portfolio-file", "Every key of a portfolio", JSON_SCHEMA, "schema/portfolio-file.json"),
    page("schema/plan", "Answer of `plan`", JSON_SCHEMA, "schema/plan.json"),
    page("schema/explain", "Answer of `explain`", JSON_SCHEMA, "schema/explain.json"),
    page("schema/estimate", "Answer of `estimate`", JSON_SCHEMA, "schema/estimate.json"),
    page("schema/prices", "Answer of `prices`", JSON_SCHEMA, "schema/prices.json"),
    page("schema/budget", "Answer of `budget`", JSON_SCHEMA, "schema/budget.json"),
    page("schema/status", "Answer of `status`", JSON_SCHEMA, "schema/status.json"),
    page("schema/error", "An error of any tool", JSON_SCHEMA, "schema/error.json"),
    page("docs/planning", "How a plan is chosen", MARKDOWN, "planning.md"),
    page("docs/prices", "Where prices come from", MARKDOWN, "prices.md"),
    page("docs/risk", "Spot machines and their risk", MARKDOWN, "risk.md"),
    page("docs/finance", "Budgets and costs", MARKDOWN, "finance.md"),
    page("docs/launch", "What a launch does", MARKDOWN, "launch.md"),
];
