//! How much of an answer is wanted: all that is shown beside the recommended plan, or that plan alone.

/// How much of an answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    Everything,
    /// The recommended plan, or what is in the way of one. What stands beside it is looked at as far as the choice needs.
    Recommendation,
}
