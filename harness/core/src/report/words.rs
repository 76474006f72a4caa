//! Words and numbers that several reports share.

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
