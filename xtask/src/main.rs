//! The commands of this repository. A port's own repository can have the same file with its own names.

use std::process::ExitCode;

use mlx_parity::cli::Project;

fn main() -> ExitCode {
    Project::new("..", "parity-specs", "fixtures")
        .exporter("exporter")
        .fault_bench("tests/faults.yaml", "parity-tests", "mistaken")
        .main()
}
