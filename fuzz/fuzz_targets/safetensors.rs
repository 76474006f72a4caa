#![no_main]

mod read_all;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read_all::read_all("a.safetensors", bytes));
