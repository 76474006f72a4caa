//! Any bytes as a spec file: an answer, and one that can be shown.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use mlx_parity_core::spec::{Policies, PoliciesState, parse_spec};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let policies = Policies {
        path: "policies.yaml".into(),
        named: Default::default(),
        bounds: Default::default(),
        state: PoliciesState::Missing,
    };
    match parse_spec("model/part", Path::new("part.yaml"), source, &policies) {
        Ok(spec) => assert!(!spec.checkpoints.is_empty()),
        Err(error) => assert!(!error.render(true).is_empty()),
    }
});
