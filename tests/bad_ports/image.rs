//! Faults in the front-ends of vision models.

#[path = "../parity/image.rs"]
mod right;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use parity_tests::image::{Config, Kernel, preprocess};

use crate::at_tap::{TapFault, add_faults};
use crate::change::{backwards, later, times};

/// The fault's name, and what it changes in the config and in the bytes.
type Fault = (&'static str, fn(&mut Config), fn(&Array) -> Result<Array, Exception>);

const FAULTS: &[Fault] = &[
    // That of OpenCV, and of torch without antialiasing.
    ("cubic_of_opencv", |config| config.resampler.cubic = -0.75, same),
    ("no_antialias", |config| config.resampler.antialias = false, same),
    ("antialias", |config| config.resampler.antialias = true, same),
    ("bilinear", |config| config.resampler.kernel = Kernel::Bilinear, same),
    ("bicubic_of_torch", |config| config.resampler.kernel = Kernel::Bicubic, same),
    ("bgr", |_| {}, |bytes| backwards(bytes, 2)),
    (
        "imagenet_statistics",
        |config| {
            config.mean = [0.485, 0.456, 0.406];
            config.deviation = [0.229, 0.224, 0.225];
        },
        same,
    ),
    ("mean_of_one_half", |config| config.mean = [0.5; 3], same),
    ("deviations_backwards", |config| config.deviation.reverse(), same),
];

/// Faults after the taps that they change.
const AT_TAPS: &[TapFault] = &[
    // The fraction is cut off, as a cast does.
    ("not_rounded", "pixels", &["resized"], |pixels, from| {
        let limits = (Array::from_f32(0.0), Array::from_f32(255.0));
        mlx_rs::ops::clip(&from[0], (&limits.0, &limits.1))?.as_dtype(pixels.dtype())
    }),
    // Bytes are normalised as if they were values from 0 to 1.
    ("not_rescaled", "normalised", &[], |x, _| times(x, 255.0)),
    ("channels_last", "pixel_values", &["normalised"], |x, from| from[0].reshape(x.shape())),
    ("one_pixel_right", "resized", &[], |x, _| later(x, 1, 1)),
];

const AT_PATCHES: &[TapFault] = &[
    // Patches row by row, in place of square by square.
    ("patches_in_rows", "patches", &["normalised"], |x, from| {
        let parts = from[0].reshape(&[12, 4, 10, 4, 3])?.transpose_axes(&[0, 2, 4, 1, 3])?.expand_dims(3)?;
        mlx_rs::ops::broadcast_to(&parts, &[12, 10, 3, 2, 4, 4])?.reshape(x.shape())
    }),
    ("frames_before_channels", "patches", &["normalised"], |x, from| {
        let parts = from[0]
            .reshape(&[6, 2, 4, 5, 2, 4, 3])?
            .transpose_axes(&[0, 3, 1, 4, 6, 2, 5])?
            .expand_dims(4)?;
        mlx_rs::ops::broadcast_to(&parts, &[6, 5, 2, 2, 2, 3, 4, 4])?.reshape(x.shape())
    }),
    ("columns_before_rows", "patches", &["normalised"], |x, from| {
        let parts = from[0]
            .reshape(&[6, 2, 4, 5, 2, 4, 3])?
            .transpose_axes(&[0, 3, 1, 4, 6, 5, 2])?
            .expand_dims(5)?;
        mlx_rs::ops::broadcast_to(&parts, &[6, 5, 2, 2, 3, 2, 4, 4])?.reshape(x.shape())
    }),
];

pub(crate) fn ports(suite: Suite) -> Suite {
    let port = "image::preprocess";
    let suite = add_faults(right::ports(suite), port, |run| with(run, |_| {}, same), AT_TAPS);
    let suite = add_faults(suite, port, |run| with(run, |_| {}, same), AT_PATCHES);
    FAULTS.iter().fold(suite, |suite, &(name, fault, change)| {
        suite.port(format!("{port}/{name}"), move |run| with(run, fault, change))
    })
}

fn same(bytes: &Array) -> Result<Array, Exception> {
    Ok(bytes.clone())
}

fn with(run: &Run, fault: fn(&mut Config), change: fn(&Array) -> Result<Array, Exception>) -> PortResult {
    let mut config = run.params()?;
    fault(&mut config);
    preprocess(&config, &change(&run.input("bytes")?)?)?;
    Ok(())
}
