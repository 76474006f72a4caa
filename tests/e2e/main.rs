//! The suite and its commands, end to end: the real binary `bad_ports` runs in projects of its own, and each test expects an exit
//! code and what is printed. One module per subject.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on reports where")]

mod adapters;
mod by_eye;
mod caches;
mod causes;
mod changed_inputs;
mod choices;
mod copied_checkout;
mod debug;
mod external_weights;
mod false_greens;
mod fault_bench;
mod fixtures;
mod guide_samples;
mod injection;
mod interrupted_runs;
mod jq;
mod kill_campaign;
mod lint;
mod listing;
mod looking;
mod merge;
mod mlx_answers;
mod mutation;
mod new_port;
mod nextest;
mod nothing_tested;
mod one_tensor;
mod printed;
mod processes;
mod progress;
mod project;
mod readme;
mod reports;
mod run_folders;
mod screen;
mod settings;
mod statistics;
mod tap_changes;
mod twins;
mod weights;
mod workers;
mod wrong_ports;
