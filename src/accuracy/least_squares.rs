//! Levenberg-Marquardt over distances from priors, and the robust loss that both fits use. No randomness, so no seed.

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

/// Step of the numeric derivative, in prior widths.
const DIFFERENCE: f64 = 1e-3;
/// Damping beyond which no step helps.
const MOST_DAMPING: f64 = 1e8;

/// Where the search ended.
pub struct Minimum {
    /// Distances from the priors, in prior widths.
    pub at: Vec<f64>,
    pub iterations: usize,
}

/// Minimises the sum of squared residuals from the priors on; stops when an iteration improves it by less than `enough`.
pub fn minimise(
    parameters: usize,
    residuals: impl Fn(&[f64]) -> DVector<f64> + Sync,
    most_iterations: usize,
    enough: f64,
) -> Minimum {
    let mut at = vec![0.0; parameters];
    let mut left = residuals(&at);
    let mut damping = 1e-2;
    let mut iterations = 0;
    while iterations < most_iterations {
        iterations += 1;
        let jacobian = jacobian(&at, &left, &residuals);
        let gradient = jacobian.transpose() * &left;
        let curvature = jacobian.transpose() * &jacobian;
        let before = left.norm_squared();
        while damping < MOST_DAMPING {
            let damped = &curvature + DMatrix::from_diagonal(&curvature.diagonal()) * damping;
            let Some(step) = damped.cholesky().map(|solver| solver.solve(&gradient)) else {
                damping *= 4.0;
                continue;
            };
            let moved: Vec<f64> = at.iter().zip(step.iter()).map(|(z, step)| z - step).collect();
            let rest = residuals(&moved);
            if rest.norm_squared() < left.norm_squared() {
                (at, left) = (moved, rest);
                damping /= 3.0;
                break;
            }
            damping *= 4.0;
        }
        if before - left.norm_squared() < enough * before {
            break;
        }
    }
    Minimum { at, iterations }
}

fn jacobian(at: &[f64], left: &DVector<f64>, residuals: &(impl Fn(&[f64]) -> DVector<f64> + Sync)) -> DMatrix<f64> {
    let column = |index: usize| {
        let mut moved = at.to_vec();
        moved[index] += DIFFERENCE;
        (residuals(&moved) - left) / DIFFERENCE
    };
    let columns: Vec<DVector<f64>> = (0..at.len()).into_par_iter().map(column).collect();
    DMatrix::from_columns(&columns)
}

/// Pseudo-Huber: the square root of a loss that is quadratic for errors below `corner` and linear for large ones.
pub fn robust(error: f64, corner: f64) -> f64 {
    error.signum() * corner * (2.0 * ((1.0 + (error / corner).powi(2)).sqrt() - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_robust_loss_is_quadratic_near_zero_and_linear_far_away() {
        assert!((robust(0.001, 0.12) / 0.001 - 1.0).abs() < 1e-3);
        assert!((robust(10.0, 0.12).powi(2) / robust(5.0, 0.12).powi(2) - 2.0).abs() < 0.05);
    }

    #[test]
    fn a_curved_valley_is_walked_to_its_end() {
        let rosenbrock = |z: &[f64]| DVector::from_vec(vec![10.0 * (z[1] - z[0] * z[0]), 1.0 - z[0]]);
        let found = minimise(2, rosenbrock, 200, 1e-9).at;
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }
}
