//! Describes the tensors at the taps that `PARITY_PEEK` names.

use std::fs::File;
use std::io::Write;
use std::panic::Location;

use mlx_rs::Array;

use super::array::{info_of, to_host};
use mlx_parity_core::compare::examine;
use mlx_parity_core::gate::Rule;
use mlx_parity_core::record;
use mlx_parity_core::run_folder::{Job, MOST_PEEKS, PEEKS, Peek};
use mlx_parity_core::tensor::Tensor;
use mlx_parity_core::text::glob;

/// A larger array that nothing else evaluates is not evaluated.
const LARGEST: u128 = 1 << 30;

/// Writes one line per hit of a tap with a matching name, up to [`MOST_PEEKS`] and one more.
pub(super) struct Peeks {
    patterns: Vec<String>,
    file: File,
    written: usize,
}

impl Peeks {
    /// Creates the file in the job's folder; `None` if no tap is to be described.
    pub(super) fn start(job: &Job) -> Option<Self> {
        if job.peek.is_empty() {
            return None;
        }
        let path = job.folder.file(PEEKS);
        let file = File::create(&path)
            .map_err(|error| eprintln!("cannot write `{}`: {error}", path.display()))
            .ok()?;
        Some(Self { patterns: job.peek.clone(), file, written: 0 })
    }

    /// Returns whether the tap is to be described.
    pub(super) fn wants(&self, tap: &str) -> bool {
        self.written <= MOST_PEEKS && self.patterns.iter().any(|pattern| glob::matches(pattern, tap))
    }

    /// Describes one hit. `host` is the tensor if it has been evaluated already. A description changes no verdict, so its
    /// problems become part of it.
    pub(super) fn look(
        &mut self,
        tap: &str,
        hit: u64,
        array: &Array,
        host: Option<&Tensor>,
        place: &'static Location<'static>,
    ) {
        let tensor = info_of(array);
        let is_last = self.written == MOST_PEEKS;
        let evaluated = match host {
            _ if is_last => Err("not evaluated: too many hits match".to_owned()),
            Some(host) => Ok(std::borrow::Cow::Borrowed(host)),
            None => evaluate(array, &tensor).map(std::borrow::Cow::Owned),
        };
        let stats = evaluated.as_ref().ok().and_then(|host| examine(&host.view(), &Rule::default()).metrics);
        let peek = Peek {
            tap: tap.to_owned(),
            hit,
            tensor,
            stats: stats.map(|metrics| metrics.actual),
            problem: evaluated.err(),
            location: record::Location { file: place.file().to_owned(), line: place.line() },
        };
        self.written += 1;
        let written = serde_json::to_vec(&peek).map_err(Into::into).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        if let Err(error) = written {
            eprintln!("cannot write the description of `{tap}`: {error}");
        }
    }
}

/// Evaluates an array that is not too large, or returns why not.
pub(super) fn evaluate(array: &Array, tensor: &record::TensorInfo) -> Result<Tensor, String> {
    let elements = tensor.shape.iter().fold(1u128, |count, &length| count.saturating_mul(length as u128));
    let bytes = elements.saturating_mul(tensor.dtype.size() as u128);
    if bytes > LARGEST {
        return Err(format!("not evaluated: it would take {} MiB", bytes >> 20));
    }
    to_host(array).map_err(|error| format!("could not be evaluated: {error}"))
}
