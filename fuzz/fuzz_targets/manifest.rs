#![no_main]

use mlx_parity_core::golden::{Manifest, canonical_json};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(manifest) = Manifest::parse(bytes) {
        let text = serde_text(&manifest);
        assert_eq!(Manifest::parse(text.as_bytes()).unwrap(), manifest);
    }
});

fn serde_text(manifest: &Manifest) -> String {
    canonical_json(&serde_json::to_value(manifest).unwrap())
}
