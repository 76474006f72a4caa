//! Images of a checkpoint as PNG files: golden, actual and their difference. Also measures the difference.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use png::{BitDepth, ColorType, Encoder};

use mlx_parity_core::files::hash::sha256;
use mlx_parity_core::record::Image;
use mlx_parity_core::spec::undrawable;
use mlx_parity_core::tensor::{Dtype, TensorView, cast};

/// The golden and the actual of one checkpoint as images of the same size.
pub(super) struct Picture {
    width: u32,
    height: u32,
    colour: ColorType,
    channels: usize,
    /// The values drawn as black and as white.
    range: (f32, f32),
    golden: Vec<f32>,
    actual: Vec<f32>,
    /// The hashes of golden and actual, if the two differ.
    hashes: Option<[String; 2]>,
}

impl Picture {
    /// Returns the images in two tensors with the same dtype and shape: `h w`, `h w c` or `n h w c`, with one to four
    /// channels. The images of a batch are stacked vertically. uint8 is drawn unchanged. Floats are drawn from black to
    /// white over `range` if both its ends are finite, otherwise from the golden's smallest to its largest finite value.
    ///
    /// # Errors
    /// If the tensors cannot be drawn. The error is the reason in one line.
    pub(super) fn of(
        golden: &TensorView<'_>,
        actual: &TensorView<'_>,
        range: Option<(f64, f64)>,
    ) -> Result<Self, String> {
        if (golden.dtype(), golden.shape()) != (actual.dtype(), actual.shape()) {
            return Err("golden and actual differ in dtype or shape".to_owned());
        }
        let lengths: Vec<Option<usize>> = golden.shape().iter().copied().map(Some).collect();
        if let Some(why) = undrawable(Some(golden.dtype()), Some(&lengths)) {
            return Err(why);
        }
        let too_large = || "the image has too many pixels".to_owned();
        let (rows, width, channels) = match *golden.shape() {
            [height, width] => (height, width, 1),
            [height, width, channels] => (height, width, channels),
            [count, height, width, channels] => {
                (count.checked_mul(height).ok_or_else(too_large)?, width, channels)
            }
            _ => return Err(format!("it has {} axes, expected 2 to 4", golden.shape().len())),
        };
        let colour = match channels {
            1 => ColorType::Grayscale,
            2 => ColorType::GrayscaleAlpha,
            3 => ColorType::Rgb,
            _ => ColorType::Rgba,
        };
        let (Ok(width), Ok(height)) = (u32::try_from(width), u32::try_from(rows)) else {
            return Err(too_large());
        };
        let numbers = |view: &TensorView<'_>| -> Result<Vec<f32>, String> {
            let wide = cast(view, Dtype::Float32).map_err(|error| error.to_string())?;
            let mut numbers = vec![0f32; wide.view().len()];
            wide.view().gather(0, bytemuck::cast_slice_mut(&mut numbers));
            Ok(numbers)
        };
        let hashes = [elements(golden), elements(actual)];
        let hashes = (hashes[0] != hashes[1]).then(|| hashes.map(|bytes| hash(golden, &bytes)));
        let (is_float, golden, actual) = (golden.dtype().is_float(), numbers(golden)?, numbers(actual)?);
        let range = match range.map(|(low, high)| (low as f32, high as f32)) {
            _ if !is_float => (0.0, 255.0),
            Some((low, high)) if low.is_finite() && high.is_finite() && low < high => (low, high),
            _ => ends(&golden),
        };
        Ok(Self { width, height, colour, channels, range, golden, actual, hashes })
    }

    /// Returns the PSNR, whose peak is the drawn range, and the number of pixels that differ.
    pub(super) fn measure(&self) -> Image {
        let squares = self.distances().map(|distance| f64::from(distance).powi(2));
        let mean = squares.sum::<f64>() / self.golden.len() as f64;
        let peak = f64::from(self.range.1) - f64::from(self.range.0);
        let pixels = self.golden.chunks(self.channels).zip(self.actual.chunks(self.channels));
        let same = |(golden, actual): (&[f32], &[f32])| {
            golden.iter().zip(actual).all(|(g, a)| g == a || g.is_nan() && a.is_nan())
        };
        Image {
            psnr_db: 10.0 * (peak * peak / mean).log10(),
            pixels: self.golden.len() as u64 / self.channels as u64,
            mismatched_pixels: pixels.filter(|pair| !same(*pair)).count() as u64,
            golden_sha256: self.hashes.as_ref().map(|[golden, _]| golden.clone()),
            actual_sha256: self.hashes.as_ref().map(|[_, actual]| actual.clone()),
        }
    }

    /// Returns the distance of each value from its golden: 0 if both are NaN or the same infinity, infinity if only one
    /// of them is finite.
    fn distances(&self) -> impl Iterator<Item = f32> {
        self.golden.iter().zip(&self.actual).map(|(g, a)| match (a - g).abs() {
            _ if g == a || g.is_nan() && a.is_nan() => 0.0,
            distance if distance.is_nan() => f32::INFINITY,
            distance => distance,
        })
    }

    /// Writes `<stem>.golden.png`, `<stem>.actual.png` and `<stem>.diff.png`. In the last, the largest finite difference
    /// is white.
    pub(super) fn write(&self, folder: &Path, stem: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let distances: Vec<f32> = self.distances().collect();
        let most = distances.iter().copied().filter(|distance| distance.is_finite()).fold(0.0, f32::max);
        let has_alpha = matches!(self.colour, ColorType::GrayscaleAlpha | ColorType::Rgba);
        let alpha = |at: usize| has_alpha && at % self.channels == self.channels - 1;
        let shown = |(at, d): (usize, &f32)| if alpha(at) { 255 } else { grey(*d, (0.0, most)) };
        let difference: Vec<u8> = distances.iter().enumerate().map(shown).collect();
        let drawn = |numbers: &[f32]| numbers.iter().map(|x| grey(*x, self.range)).collect::<Vec<u8>>();
        let (golden, actual) = (drawn(&self.golden), drawn(&self.actual));
        for (kind, pixels) in [("golden", &golden), ("actual", &actual), ("diff", &difference)] {
            let file = File::create(folder.join(format!("{stem}.{kind}.png")))?;
            let mut encoder = Encoder::new(BufWriter::new(file), self.width, self.height);
            encoder.set_color(self.colour);
            encoder.set_depth(BitDepth::Eight);
            encoder.write_header()?.write_image_data(pixels)?;
        }
        Ok(())
    }
}

/// Returns the elements of a tensor in row-major order.
fn elements(view: &TensorView<'_>) -> Vec<u8> {
    let mut bytes = vec![0; view.len() * view.dtype().size()];
    view.gather(0, &mut bytes);
    bytes
}

/// Returns the SHA-256 of a tensor with the dtype and the shape of `view`.
fn hash(view: &TensorView<'_>, elements: &[u8]) -> String {
    let head = format!("{} {:?}\n", view.dtype(), view.shape());
    sha256(&[head.as_bytes(), elements])
}

/// Returns the smallest and the largest finite value, or 0 and 1 if fewer than two different values are finite.
fn ends(numbers: &[f32]) -> (f32, f32) {
    let finite = || numbers.iter().copied().filter(|x| x.is_finite());
    let (low, high) = (finite().fold(f32::INFINITY, f32::min), finite().fold(f32::NEG_INFINITY, f32::max));
    if low < high { (low, high) } else { (0.0, 1.0) }
}

/// Returns the grey level of a value: black at the low end, white at the high end. NaN is black.
fn grey(x: f32, (low, high): (f32, f32)) -> u8 {
    let (x, low, high) = (f64::from(x), f64::from(low), f64::from(high));
    let part = if high > low { (x - low) / (high - low) } else { f64::from(u8::from(x > low)) };
    // A cast from float saturates and turns NaN into 0. The small term keeps whole numbers unchanged.
    (part * 255.0 + 1e-9) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::tensor::Tensor;

    fn tensor(shape: &[usize], bytes: &[u8]) -> Tensor {
        Tensor::from_vec(Dtype::Uint8, shape.to_vec(), bytes.to_vec()).unwrap()
    }

    #[test]
    fn pixels_are_counted_and_written_unchanged() {
        let golden = tensor(&[2, 1, 2, 3], &[0, 0, 0, 10, 20, 30, 255, 255, 255, 1, 2, 3]);
        let actual = tensor(&[2, 1, 2, 3], &[0, 0, 0, 10, 22, 29, 255, 255, 255, 1, 2, 3]);
        let picture = Picture::of(&golden.view(), &actual.view(), Some((3.0, 4.0))).unwrap();
        let image = picture.measure();
        assert_eq!((image.pixels, image.mismatched_pixels), (4, 1));
        // 5 / 12 is the mean of the squares.
        assert!((image.psnr_db - 10.0 * (65025.0f64 * 12.0 / 5.0).log10()).abs() < 1e-9);
        let folder = tempfile::tempdir().unwrap();
        picture.write(&folder.path().join("images"), "pixels").unwrap();
        let read = |kind: &str| {
            let file = File::open(folder.path().join(format!("images/pixels.{kind}.png"))).unwrap();
            let mut reader = png::Decoder::new(io::BufReader::new(file)).read_info().unwrap();
            let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut bytes).unwrap();
            (info.width, info.height, bytes)
        };
        assert_eq!(read("golden"), (2, 2, vec![0, 0, 0, 10, 20, 30, 255, 255, 255, 1, 2, 3]));
        assert_eq!(read("diff").2, [0, 0, 0, 0, 255, 127, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn equal_images_have_an_infinite_psnr_and_undrawable_tensors_are_errors() {
        let grey = tensor(&[2, 2], &[1, 2, 3, 4]);
        let image = Picture::of(&grey.view(), &grey.view(), None).unwrap().measure();
        assert_eq!((image.psnr_db, image.mismatched_pixels), (f64::INFINITY, 0));
        let why =
            |tensor: &Tensor| Picture::of(&tensor.view(), &tensor.view(), None).err().unwrap_or_default();
        assert!(why(&tensor(&[1, 1, 5], &[0; 5])).contains("5 channels"));
        assert!(why(&tensor(&[0, 3, 3], &[])).contains("empty"));
        let other = tensor(&[4, 1], &[1, 2, 3, 4]);
        assert!(Picture::of(&grey.view(), &other.view(), None).is_err());
    }

    #[test]
    fn floats_are_drawn_over_the_declared_range_or_the_goldens() {
        let float = |numbers: &[f32]| {
            let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            Tensor::from_vec(Dtype::Float32, vec![1, numbers.len()], bytes).unwrap()
        };
        let golden = float(&[-1.0, 0.0, 1.0, f32::NAN, f32::INFINITY]);
        let actual = float(&[-1.0, 0.5, 3.0, f32::NAN, f32::NAN]);
        let drawn = |range| {
            let picture = Picture::of(&golden.view(), &actual.view(), range).unwrap();
            let folder = tempfile::tempdir().unwrap();
            picture.write(folder.path(), "x").unwrap();
            let image = picture.measure();
            assert_eq!((image.pixels, image.mismatched_pixels), (5, 3));
            ["golden", "actual", "diff"].map(|kind| {
                let file = File::open(folder.path().join(format!("x.{kind}.png"))).unwrap();
                let mut reader = png::Decoder::new(io::BufReader::new(file)).read_info().unwrap();
                let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
                reader.next_frame(&mut bytes).unwrap();
                bytes
            })
        };
        let found = [[0, 127, 255, 0, 255], [0, 191, 255, 0, 0], [0, 63, 255, 0, 255]].map(Vec::from);
        assert_eq!(drawn(None), found);
        assert_eq!(drawn(Some((f64::NEG_INFINITY, 0.5))), found, "an infinite range is not used");
        let declared = [[0, 85, 170, 0, 255], [0, 127, 255, 0, 0], [0, 63, 255, 0, 255]].map(Vec::from);
        assert_eq!(drawn(Some((-1.0, 2.0))), declared);
        let constant = float(&[2.0, 2.0]);
        let image = Picture::of(&constant.view(), &constant.view(), None).unwrap().measure();
        assert_eq!((image.psnr_db, image.mismatched_pixels), (f64::INFINITY, 0));
    }
}
