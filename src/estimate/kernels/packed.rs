//! `Packed`: the text of one GPU's table. Its parts are found at once and read when they are first asked for.

use std::ops::Range;
use std::sync::OnceLock;

use crate::kernels::names::Part;
use crate::kernels::surface::Surface;

/// What can be wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackedError {
    #[error("the table of kernels does not begin with `gpu,` and `step,`")]
    Header,
    #[error("the table of kernels has no kind `{0}`; read it with the version of gpuplan that packed it")]
    Part(String),
}

#[derive(Debug)]
pub(super) struct Packed {
    text: String,
    /// Width of a code: a cell is the logarithm of microseconds in these.
    step: f64,
    /// Sorted.
    parts: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    part: Part,
    lines: Range<usize>,
    surface: OnceLock<Option<Surface>>,
}

const BEGINNING: &str = "\ntable,";

impl Packed {
    pub(super) fn new(text: String) -> Result<Self, PackedError> {
        let mut header = text.lines();
        let gpu = header.next().and_then(|line| line.strip_prefix("gpu,"));
        let step = header.next().and_then(|line| line.strip_prefix("step,")).and_then(|step| step.parse().ok());
        let (Some(_), Some(step)) = (gpu, step) else {
            return Err(PackedError::Header);
        };
        let mut parts = Vec::new();
        let mut rest = text.find(BEGINNING);
        while let Some(at) = rest {
            let from = at + BEGINNING.len();
            let line = text[from..].find('\n').map_or(text.len(), |length| from + length);
            let next = text[line..].find(BEGINNING).map(|length| line + length);
            let name = &text[from..line];
            let part = Part::named(name).ok_or_else(|| PackedError::Part(name.to_owned()))?;
            let start = (line + 1).min(text.len());
            let lines = start..next.unwrap_or(text.len()).max(start);
            parts.push(Entry { part, lines, surface: OnceLock::new() });
            rest = next;
        }
        parts.sort_by_key(|entry| entry.part);
        Ok(Self { text, step, parts })
    }

    pub(super) fn has(&self, part: Part) -> bool {
        self.parts.binary_search_by_key(&part, |entry| entry.part).is_ok()
    }

    /// `None` where this GPU has no such part, or a damaged one.
    pub(super) fn surface(&self, part: Part) -> Option<&Surface> {
        let found = self.parts.binary_search_by_key(&part, |entry| entry.part).ok()?;
        let entry = &self.parts[found];
        entry.surface.get_or_init(|| Surface::read(&self.text[entry.lines.clone()], self.step, part.form())).as_ref()
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        self.parts.iter().map(|entry| entry.part)
    }
}
