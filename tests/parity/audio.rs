//! How the front-ends of audio models are run.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use parity_tests::audio::{Stft, inverse, log_mel, spectrum};
use serde::Deserialize;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        .port("audio::log_mel", |run| {
            log_mel(&run.params()?, &run.input("audio")?)?;
            Ok(())
        })
        .port("audio::stft", |run| transform(run, spectrum, |found, gain| found.multiply(gain), inverse))
}

/// One transform.
#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    #[serde(flatten)]
    stft: Stft,
}

#[derive(Deserialize)]
struct Params {
    cases: Vec<Case>,
}

/// Runs every case. `filtered` multiplies a spectrum with one factor per frequency.
pub(crate) fn transform(
    run: &Run,
    forward: impl Fn(&Stft, &Array) -> Result<Array, Exception>,
    filtered: impl Fn(&Array, &Array) -> Result<Array, Exception>,
    back: impl Fn(&Stft, &Array, usize) -> Result<Array, Exception>,
) -> PortResult {
    let audio = run.input("audio")?;
    for Case { name, stft } in run.params::<Params>()?.cases {
        let _scope = scope(&name, None);
        let found = tap("spectrum", forward(&stft, &audio)?)?;
        let bins = stft.n_fft / 2;
        let gain = (0..=bins).map(|bin| 1.5 - 1.25 * bin as f32 / bins as f32);
        let gain = Array::from_iter(gain, &[bins as i32 + 1]);
        let changed = tap("changed", filtered(&found, &gain)?)?;
        tap("waveform", back(&stft, &changed, audio.dim(0) as usize)?)?;
    }
    Ok(())
}
