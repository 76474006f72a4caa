//! What mlx-rs does not tell of MLX.

use std::ffi::CStr;

/// The version of the MLX that this process is linked with.
#[expect(unsafe_code, reason = "mlx-rs does not wrap it, and a run must say what computed it")]
pub(super) fn version() -> String {
    let mut text = unsafe { mlx_sys::mlx_string_new() };
    // Safety: the handle is new and ours; MLX fills it in or leaves it as it is, and a null is looked for.
    let (status, data) = unsafe { (mlx_sys::mlx_version(&raw mut text), mlx_sys::mlx_string_data(text)) };
    let version = match data.is_null() || status != 0 {
        true => "unknown".to_owned(),
        // Safety: a string of MLX ends in a zero and lives until its handle is freed, below.
        false => unsafe { CStr::from_ptr(data) }.to_string_lossy().into_owned(),
    };
    // Safety: freed once, and not used after.
    unsafe { mlx_sys::mlx_string_free(text) };
    version
}

#[cfg(test)]
mod tests {
    #[test]
    fn mlx_says_which_it_is() {
        let version = super::version();
        assert_eq!(version.split('.').count(), 3, "{version}");
    }
}
