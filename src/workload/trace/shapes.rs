//! `Shapes`: how long the kernels took of matrix products whose sizes suit no GPU. A product is an operator of the host; the call
//! inside it that launches a kernel names the kernel's correlation.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::profile::Products;
use crate::trace::event::Product;

/// A step that NVIDIA's guide calls aligned: sizes in multiples of eight halves (Deep Learning Performance Guide, "Matrix
/// Multiplication", requirements to use tensor cores).
const ALIGNED: u64 = 8;
/// Multiplications of a product that is over before a large GPU has started all its multiprocessors: 256^3. Judged.
const SMALL: u64 = 1 << 24;
/// Products and kernels remembered: 64 MiB.
const MOST: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Shape {
    is_unaligned: bool,
    is_small: bool,
}

/// Products in bad sizes until their kernels come. Nanoseconds.
#[derive(Debug, Default)]
pub struct Shapes {
    /// Thread and start; end.
    open: BTreeMap<(i64, i64), (i64, Shape)>,
    launched: FxHashMap<u32, Shape>,
}

impl Shapes {
    /// Counts a product, and waits for its kernel if its size is bad.
    pub fn product(
        &mut self,
        products: &mut Products,
        name: &str,
        found: &Product,
        thread: i64,
        (start, end): (i64, i64),
    ) {
        products.shaped += 1;
        products.in_fp16 += u64::from(found.format.contains("Half"));
        let sizes = [found.rows, found.shared, found.columns];
        let shape = Shape {
            is_unaligned: sizes.iter().any(|size| !size.is_multiple_of(ALIGNED)),
            is_small: sizes.into_iter().fold(1, u64::saturating_mul) < SMALL,
        };
        if shape.is_unaligned {
            products.unaligned += 1;
            let example = || format!("{name} of {} x {} x {}", found.rows, found.shared, found.columns);
            products.unaligned_example.get_or_insert_with(example);
        }
        products.small += u64::from(shape.is_small);
        if (shape.is_unaligned || shape.is_small) && self.open.len() < MOST {
            self.open.insert((thread, start), (end, shape));
        }
    }

    /// A call of the host that launches something.
    pub fn launch(&mut self, thread: i64, at: i64, correlation: u32) {
        let inside = self.open.range(..=(thread, at)).next_back();
        let Some((_, (_, shape))) = inside.filter(|((of, _), (end, _))| *of == thread && at <= *end) else { return };
        if correlation != 0 && self.launched.len() < MOST {
            self.launched.insert(correlation, *shape);
        }
    }

    /// A kernel that a product launched.
    pub fn kernel(&mut self, products: &mut Products, correlation: u32, seconds: f64) {
        let Some(shape) = self.launched.get(&correlation) else { return };
        if shape.is_unaligned {
            products.unaligned_seconds += seconds;
        }
        if shape.is_small {
            products.small_seconds += seconds;
        }
    }
}
