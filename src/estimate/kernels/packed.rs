//! `Packed`: the text of one GPU's table. Its parts are found at once and read when they are first asked for.

use std::sync::OnceLock;

use crate::kernels::names::Part;
use crate::kernels::surface::Surface;
use gpuplan_embedded::KernelText;

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
    text: KernelText,
    /// Width of a code: a cell is the logarithm of microseconds in these.
    step: f64,
    /// Sorted.
    parts: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    part: Part,
    /// Its number in the text.
    index: usize,
    surface: OnceLock<Option<Surface>>,
}

impl Packed {
    pub(super) fn new(text: KernelText) -> Result<Self, PackedError> {
        let mut header = text.head().lines();
        let gpu = header.next().and_then(|line| line.strip_prefix("gpu,"));
        let step = header.next().and_then(|line| line.strip_prefix("step,")).and_then(|step| step.parse().ok());
        let (Some(_), Some(step)) = (gpu, step) else {
            return Err(PackedError::Header);
        };
        let entry = |(index, name): (usize, &str)| {
            let part = Part::named(name).ok_or_else(|| PackedError::Part(name.to_owned()))?;
            Ok(Entry { part, index, surface: OnceLock::new() })
        };
        let mut parts = text.names().enumerate().map(entry).collect::<Result<Vec<_>, _>>()?;
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
        let read = || Surface::read(&self.text.part(entry.index)?, self.step, part.form());
        entry.surface.get_or_init(read).as_ref()
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        self.parts.iter().map(|entry| entry.part)
    }
}
