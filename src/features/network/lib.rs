//! No code: what `gpuplan-features` does, for the foreign crates below an HTTP client.
