//! What set-up installs on Linux: which MLX belongs to which mlx-sys, and the SHA-256 of every wheel.

use super::SetupError;

/// One file to fetch with pip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PinnedWheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    pub(super) sha256: &'static str,
}

/// The wheels for one mlx-sys on one kind of processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pins {
    /// MLX's CPU backend: library, headers, BLAS.
    pub(super) mlx: PinnedWheel,
    /// The library with which bindgen reads headers.
    pub(super) libclang: PinnedWheel,
}

/// The oldest glibc that the wheels above run on.
pub(super) const GLIBC: (u32, u32) = (2, 35);

const SUPPORTED: &str = "0.7.0";

/// The wheels for that mlx-sys, whose mlx-c is written against exactly one version of MLX.
pub(super) fn pins(mlx_sys: &str, arch: &str) -> Result<Pins, SetupError> {
    if mlx_sys != SUPPORTED {
        return Err(SetupError::UnknownMlxSys { found: mlx_sys.to_owned(), known: SUPPORTED });
    }
    let (mlx, libclang) = match arch {
        "x86_64" => (
            "fc5d31b90fc4f457b2f9614ed45651a567d22a6a11a03d114a90a4e10bdd8878",
            "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
        ),
        "aarch64" => (
            "d0f94625588b51a878786dd51cec5617894ce586cf3c94645ce1b64e24c27c0b",
            "54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592",
        ),
        other => return Err(SetupError::UnknownArch { found: other.to_owned() }),
    };
    Ok(Pins {
        mlx: PinnedWheel { package: "mlx-cpu", version: "0.32.2", sha256: mlx },
        libclang: PinnedWheel { package: "libclang", version: "18.1.1", sha256: libclang },
    })
}
