//! The port that `cargo xtask new-spec` writes compiles, and names what to fill in.

#[path = "../../harness/cli/src/new_spec/templates/port.rs"]
#[allow(unreachable_pub, reason = "in a port's own crate it is reached")]
mod port;

use mlx_rs::module::ModuleParameters;
use port::Port;

#[test]
fn a_new_port_compiles_and_names_what_to_fill_in() {
    assert!(Port::new().unwrap_err().to_string().contains("fill in: the port in"));
    let mut port = Port {};
    assert_eq!(port.num_parameters(), 0);
    assert!(port.forward(&[]).unwrap_err().to_string().contains("fill in: the port in"));
}
