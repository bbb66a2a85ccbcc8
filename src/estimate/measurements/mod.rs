//! What measurements change in the estimate: calibrations of a GPU and of its host, and finished runs of the user.

pub mod correction;
pub mod curve;
pub mod measured;
pub mod own_runs;
pub mod work_class;
