//! The version of MLX, which mlx-rs does not expose.

use std::ffi::CStr;

/// Returns the version of the linked MLX, or `unknown`.
#[expect(unsafe_code, reason = "mlx-rs does not wrap `mlx_version`, and a run records the version")]
pub(super) fn version() -> String {
    let mut text = unsafe { mlx_sys::mlx_string_new() };
    // Safety: the handle is new and owned here. MLX fills it or leaves it unchanged, and null is checked below.
    let (status, data) = unsafe { (mlx_sys::mlx_version(&raw mut text), mlx_sys::mlx_string_data(text)) };
    let version = match data.is_null() || status != 0 {
        true => "unknown".to_owned(),
        // Safety: an MLX string ends in a zero byte and lives until its handle is freed below.
        false => unsafe { CStr::from_ptr(data) }.to_string_lossy().into_owned(),
    };
    // Safety: the handle is freed once and not used afterwards.
    unsafe { mlx_sys::mlx_string_free(text) };
    version
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_has_three_parts() {
        let version = super::version();
        assert_eq!(version.split('.').count(), 3, "{version}");
    }
}
