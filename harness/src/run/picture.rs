//! Pixels as people look at them: golden, actual and their difference as PNG, and how far apart they are.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use png::{BitDepth, ColorType, Encoder};

use crate::record::Image;
use crate::tensor::{Dtype, TensorView};

/// Golden and actual of one checkpoint as pictures of the same size.
pub(super) struct Picture {
    width: u32,
    height: u32,
    colour: ColorType,
    channels: usize,
    golden: Vec<u8>,
    actual: Vec<u8>,
}

impl Picture {
    /// The pictures in two tensors of uint8 and one shape: `h w`, `h w c` or `n h w c`, with one to four channels; those
    /// of a batch below each other. `None` when that is not what they are.
    pub(super) fn of(golden: &TensorView<'_>, actual: &TensorView<'_>) -> Option<Self> {
        if [golden, actual].iter().any(|view| view.dtype() != Dtype::Uint8)
            || golden.shape() != actual.shape()
        {
            return None;
        }
        let (rows, width, channels) = match *golden.shape() {
            [height, width] => (height, width, 1),
            [height, width, channels] => (height, width, channels),
            [count, height, width, channels] => (count.checked_mul(height)?, width, channels),
            _ => return None,
        };
        let colour = match channels {
            1 => ColorType::Grayscale,
            2 => ColorType::GrayscaleAlpha,
            3 => ColorType::Rgb,
            4 => ColorType::Rgba,
            _ => return None,
        };
        let (width, height) = (u32::try_from(width).ok()?, u32::try_from(rows).ok()?);
        if width == 0 || height == 0 {
            return None;
        }
        let bytes = |view: &TensorView<'_>| {
            let mut bytes = vec![0; view.len()];
            view.gather(0, &mut bytes);
            bytes
        };
        Some(Self { width, height, colour, channels, golden: bytes(golden), actual: bytes(actual) })
    }

    /// How far the two are apart.
    pub(super) fn measure(&self) -> Image {
        let squares = self.golden.iter().zip(&self.actual).map(|(g, a)| u64::from(g.abs_diff(*a)).pow(2));
        let mean = squares.sum::<u64>() as f64 / self.golden.len() as f64;
        let pixels = self.golden.chunks(self.channels).zip(self.actual.chunks(self.channels));
        Image {
            psnr_db: 10.0 * (255.0 * 255.0 / mean).log10(),
            pixels: self.golden.len() as u64 / self.channels as u64,
            mismatched_pixels: pixels.filter(|(golden, actual)| golden != actual).count() as u64,
        }
    }

    /// Writes `<stem>.golden.png`, `<stem>.actual.png` and `<stem>.diff.png`, in which the largest difference is white.
    pub(super) fn write(&self, folder: &Path, stem: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let distance: Vec<u8> = self.golden.iter().zip(&self.actual).map(|(g, a)| g.abs_diff(*a)).collect();
        let most = u16::from(distance.iter().copied().max().unwrap_or(0).max(1));
        let has_alpha = matches!(self.colour, ColorType::GrayscaleAlpha | ColorType::Rgba);
        let alpha = |at: usize| has_alpha && at % self.channels == self.channels - 1;
        let shown = |(at, d): (usize, &u8)| if alpha(at) { 255 } else { (u16::from(*d) * 255 / most) as u8 };
        let difference: Vec<u8> = distance.iter().enumerate().map(shown).collect();
        for (kind, pixels) in [("golden", &self.golden), ("actual", &self.actual), ("diff", &difference)] {
            let file = File::create(folder.join(format!("{stem}.{kind}.png")))?;
            let mut encoder = Encoder::new(BufWriter::new(file), self.width, self.height);
            encoder.set_color(self.colour);
            encoder.set_depth(BitDepth::Eight);
            encoder.write_header()?.write_image_data(pixels)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    fn tensor(shape: &[usize], bytes: &[u8]) -> Tensor {
        Tensor::from_vec(Dtype::Uint8, shape.to_vec(), bytes.to_vec()).unwrap()
    }

    #[test]
    fn pixels_are_counted_and_written_as_they_are() {
        let golden = tensor(&[2, 1, 2, 3], &[0, 0, 0, 10, 20, 30, 255, 255, 255, 1, 2, 3]);
        let actual = tensor(&[2, 1, 2, 3], &[0, 0, 0, 10, 22, 29, 255, 255, 255, 1, 2, 3]);
        let picture = Picture::of(&golden.view(), &actual.view()).unwrap();
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
    fn equal_pictures_are_infinitely_alike_and_other_tensors_are_none() {
        let grey = tensor(&[2, 2], &[1, 2, 3, 4]);
        let image = Picture::of(&grey.view(), &grey.view()).unwrap().measure();
        assert_eq!((image.psnr_db, image.mismatched_pixels), (f64::INFINITY, 0));
        let five = tensor(&[1, 1, 5], &[0; 5]);
        assert!(Picture::of(&five.view(), &five.view()).is_none());
        let empty = tensor(&[0, 3, 3], &[]);
        assert!(Picture::of(&empty.view(), &empty.view()).is_none());
        let float = Tensor::from_vec(Dtype::Float32, vec![1, 1], vec![0; 4]).unwrap();
        assert!(Picture::of(&float.view(), &float.view()).is_none());
    }
}
