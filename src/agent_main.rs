//! The agent alone: `gpuplan agent` for machines that need nothing else of the program.

fn main() -> std::process::ExitCode {
    gpuplan_cli::agent::alone()
}
