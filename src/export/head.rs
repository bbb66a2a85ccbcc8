//! The head of a file: what the plan is, what to edit, and what the program has to set by itself.

use crate::assumed::left_to_program;
use crate::job::{Job, prefixed_lines};

impl Job {
    /// What the plan is, for the head of a file.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = self.plan_lines();
        lines.extend(self.to_edit.iter().map(|what| format!("EDIT {what}")));
        let left = left_to_program(self);
        if !left.is_empty() {
            lines.push(format!(
                "SET in your program: {}. The price assumes it, and nothing below says it",
                left.join("; ")
            ));
        }
        lines
    }

    /// Machines, layout and time.
    pub fn plan_lines(&self) -> Vec<String> {
        let (plan, machines, hours) = (&self.plan, self.machines(), self.plan.time.run_hours);
        [
            format!(
                "{}: {} on {} x {} ({} x {} each)",
                self.run, plan.id, machines.nodes, machines.instance_type, machines.gpus_per_node, self.gpu.name
            ),
            format!(
                "layout {}, micro batch {}, {} micro-steps",
                self.layout(),
                plan.layout.micro_batch,
                self.micro_steps()
            ),
            format!("about {:.1} hours, nine of ten such runs within {:.1}", hours.expected, hours.p90),
        ]
        .into_iter()
        .chain(self.sweep.as_ref().map(crate::swept::Swept::summary))
        .collect()
    }

    /// Comments, each line with `#`.
    pub fn comments(&self, more: &[String]) -> String {
        prefixed_lines("# ", self.summary().iter().chain(more))
    }
}
