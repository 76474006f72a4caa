//! Words and numbers that several reports share.

use crate::gate::Class;

/// A failure's class in a few words.
pub(super) fn headline(class: Class) -> &'static str {
    match class {
        Class::Spec => "the spec cannot be used",
        Class::Missing => "the golden is missing",
        Class::Stale => "the golden is stale",
        Class::Corrupt => "the fixtures cannot be trusted",
        Class::Crash => "crash",
        Class::Unreached => "never reached",
        Class::Hits => "wrong number of hits",
        Class::Shape => "shape differs",
        Class::Dtype => "dtype differs",
        Class::Finite => "NaN or infinity differs",
        Class::Untestable => "the floor is too high to test this",
        Class::Value => "value differs",
        Class::Systematic => "a systematic error below the gate",
        Class::Range => "out of range",
        Class::Unused => "an input is never used",
        Class::Random => "random numbers were drawn",
        Class::Weights => "the weight audit failed",
        Class::Stats => "statistics differ from the snapshot",
        Class::Memory => "the port uses too much memory",
    }
}

/// Returns a multiple such as `0.02x`, `112x` or `4.0e5x`, which is short at any magnitude.
pub fn multiple(value: f64) -> String {
    match value {
        value if !value.is_finite() => format!("{value}x"),
        value if value >= 9999.5 => format!("{value:.1e}x"),
        value if value >= 99.95 => format!("{value:.0}x"),
        value if value >= 9.995 => format!("{value:.1}x"),
        value => format!("{value:.2}x"),
    }
}
