//! `Curve`: measured over expected time of one class of work, by the size of the work.

use crate::measurements::work_class::WorkClass;

/// Measured over expected time at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// FLOPs of a product, or bytes that a kernel or a message moves.
    pub size: f64,
    /// Logarithm of measured seconds over expected ones; above 0 is slower.
    pub log_time: f64,
    /// Standard deviation of `log_time`, from repetitions and from one operator to the next.
    pub spread: f64,
    /// Part in the whole, against the other points.
    pub weight: f64,
}

/// What a curve says at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveValue {
    pub log_time: f64,
    pub spread: f64,
    /// Natural logarithm of the size over the nearest measured one; 0 where it was measured.
    pub distance: f64,
}

/// Points of one class on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub class: WorkClass,
    /// By size, smallest first; at least one.
    points: Vec<Point>,
    /// The one point holds for every size.
    is_flat: bool,
    /// Part of the deviation that belongs to what ran and not to the GPU, so that it goes wherever that runs: 0 of a benchmark.
    pub of_program: f64,
}

/// `of_program` of a user's own run. Code bases that the fit never saw are off by 8.5 % on average (docs/estimate.md), a standard
/// deviation of 0.106, beside the 0.08 of a GPU model: 0.106^2 / (0.106^2 + 0.08^2). The other classes are judged alike.
const OF_PROGRAM: f64 = 0.64;

/// No GPU is this far from its estimate; such a ratio means that two different things were compared.
pub const LARGEST_RATIO: f64 = 5.0;

/// Sizes within this factor are one point: forward and backward products of a layer, whose shapes differ and whose work does not.
const ONE_POINT: f64 = 2.0;

impl Point {
    fn is_sane(&self) -> bool {
        let limit = LARGEST_RATIO.ln();
        self.log_time.abs() <= limit
            && (0.0..=limit).contains(&self.spread)
            && self.size > 0.0
            && self.size.is_finite()
            && self.weight > 0.0
    }
}

impl Curve {
    /// One ratio for every size. `None` for what no measurement can give: not finite, not positive, or off by more than a factor
    /// of five.
    pub fn flat(class: WorkClass, time: f64, spread: f64) -> Option<Self> {
        let point = Point { size: 1.0, log_time: time.ln(), spread, weight: 1.0 };
        point.is_sane().then(|| Self { class, points: vec![point], is_flat: true, of_program: 0.0 })
    }

    /// Of the points that can be believed; `None` without any.
    pub fn new(class: WorkClass, mut points: Vec<Point>) -> Option<Self> {
        points.retain(Point::is_sane);
        points.sort_by(|a, b| a.size.total_cmp(&b.size));
        let mut merged: Vec<Point> = Vec::new();
        let mut rest = points.as_slice();
        while let Some(first) = rest.first() {
            let alike = rest.partition_point(|point| point.size <= first.size * ONE_POINT);
            merged.push(mean(&rest[..alike]));
            rest = &rest[alike..];
        }
        (!merged.is_empty()).then_some(Self { class, points: merged, is_flat: false, of_program: 0.0 })
    }

    /// The same, measured on a user's own run.
    #[must_use]
    pub fn of_run(self) -> Self {
        Self { of_program: OF_PROGRAM, ..self }
    }

    /// Between two points the straight line over the logarithm of the size; beyond them the last one.
    pub fn interpolate(&self, size: f64) -> CurveValue {
        let next = self.points.partition_point(|point| point.size < size);
        let (left, right) = (&self.points[next.saturating_sub(1)], &self.points[next.min(self.points.len() - 1)]);
        let (below, above) = ((size / left.size).ln().abs(), (right.size / size).ln().abs());
        let between = below + above;
        let share = if next == 0 || next == self.points.len() || between <= 0.0 { 0.0 } else { below / between };
        let mixed = |of: fn(&Point) -> f64| of(left) + share * (of(right) - of(left));
        let distance = if self.is_flat { 0.0 } else { below.min(above) };
        CurveValue { log_time: mixed(|point| point.log_time), spread: mixed(|point| point.spread), distance }
    }

    /// All points as one, weighted with their part in the whole: for work whose size is not known.
    pub fn overall(&self) -> CurveValue {
        let all = mean(&self.points);
        CurveValue { log_time: all.log_time, spread: all.spread, distance: 0.0 }
    }

    /// Measured over expected time of all together.
    pub fn time(&self) -> f64 {
        self.overall().log_time.exp()
    }

    /// Sizes of the smallest and of the largest work, where more than one was measured.
    pub fn ends(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        (last.size > first.size).then_some((first.size, last.size))
    }
}

/// Weighted means; the spread is how the points scatter, each by itself and among one another. The slice is not empty.
fn mean(points: &[Point]) -> Point {
    let weight: f64 = points.iter().map(|point| point.weight).sum();
    let of =
        |value: &dyn Fn(&Point) -> f64| points.iter().map(|point| point.weight * value(point)).sum::<f64>() / weight;
    let log_time = of(&|point| point.log_time);
    let between = of(&|point| (point.log_time - log_time).powi(2)) / points.len() as f64;
    let within = of(&|point| point.spread.powi(2));
    Point { size: of(&|point| point.size.ln()).exp(), log_time, spread: (between + within).sqrt(), weight }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(size: f64, time: f64) -> Point {
        Point { size, log_time: time.ln(), spread: 0.01, weight: 1.0 }
    }

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve::new(WorkClass::Compute, points.iter().map(|(size, time)| point(*size, *time)).collect()).unwrap()
    }

    #[test]
    fn between_two_sizes_it_is_a_line_and_beyond_them_the_nearest() {
        let curve = curve(&[(1e12, 1.0), (1e10, 1.5)]);
        let time = |size| curve.interpolate(size).log_time.exp();
        assert!((time(1e10) - 1.5).abs() < 1e-12 && (time(1e12) - 1.0).abs() < 1e-12);
        assert!((time(1e11) - 1.5_f64.sqrt()).abs() < 1e-12, "{}", time(1e11));
        assert!((time(1e6) - 1.5).abs() < 1e-12 && (time(1e15) - 1.0).abs() < 1e-12);
        let distance = |size| curve.interpolate(size).distance;
        assert!(
            distance(1e10) < 1e-12
                && (distance(1e11) - 10_f64.ln()).abs() < 1e-9
                && (distance(1e13) - 10_f64.ln()).abs() < 1e-9
        );
        assert_eq!(Curve::flat(WorkClass::Compute, 1.2, 0.0).unwrap().interpolate(1e30).distance, 0.0);
    }

    #[test]
    fn sizes_of_a_layer_are_one_point_and_strange_ones_none() {
        let merged = curve(&[(1e10, 1.1), (1.5e10, 1.1), (1e12, 1.0), (1e13, 9.0)]);
        assert_eq!(merged.points.len(), 2);
        assert!((merged.interpolate(1.2e10).log_time - 1.1_f64.ln()).abs() < 1e-3);
        let (_, last) = merged.ends().unwrap();
        assert!((last / 1e12 - 1.0).abs() < 1e-12, "what is off by a factor of nine is left out: {last}");
        assert_eq!(Curve::new(WorkClass::Memory, vec![point(1e9, 9.0), point(f64::NAN, 1.0)]), None);
        assert_eq!(Curve::flat(WorkClass::Copy, 7.0, 0.1), None);
    }

    proptest! {
        #[test]
        fn no_curve_leaves_what_was_measured(
            points in prop::collection::vec((1.0..1e18_f64, 0.1..6.0_f64), 1..20), size in 1e-3..1e30_f64,
        ) {
            let points: Vec<Point> = points.into_iter().map(|(size, time)| point(size, time)).collect();
            let believed: Vec<f64> = points.iter().filter(|point| point.is_sane()).map(|point| point.log_time).collect();
            if let Some(curve) = Curve::new(WorkClass::Compute, points) {
                let (least, most) = believed.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
                let reading = curve.interpolate(size);
                prop_assert!(reading.log_time >= least - 1e-9 && reading.log_time <= most + 1e-9);
                prop_assert!(reading.spread.is_finite() && reading.distance >= 0.0 && reading.distance.is_finite());
            }
        }
    }
}
