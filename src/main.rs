//! The program: everything lives in the library.

fn main() -> std::process::ExitCode {
    gpuplan_cli::run()
}
