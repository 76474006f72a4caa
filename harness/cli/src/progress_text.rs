//! The progress of a spec in one line, for `status` and for the live lines of a run.

use std::time::Duration;

use mlx_parity_core::results::{SpecProgress, SpecState};
use mlx_parity_core::runs::DeviceHolder;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::clean;

/// `a/b  2 of 3 checkpoints, last tap `gated`, 12 s, pid 7`.
pub(crate) fn spec_text(spec: &SpecProgress) -> String {
    let mut words = Vec::new();
    match &spec.state {
        SpecState::WaitingForDevice { holder } => {
            words.push(format!("waiting for the device, {}", device_text(holder.as_ref())));
        }
        state => {
            words.push(format!("{} of {}", spec.done, counted(spec.declared, "checkpoint")));
            words.extend(match state {
                SpecState::SecondPass => Some("second pass, on golden inputs".to_owned()),
                SpecState::Timing => Some("timing".to_owned()),
                SpecState::Done => Some("done".to_owned()),
                SpecState::Interrupted => Some("interrupted".to_owned()),
                _ => None,
            });
            words.extend((spec.failed > 0).then(|| format!("{} failed", spec.failed)));
            words.extend(spec.last.as_ref().map(|last| format!("last tap `{}`", clean(last))));
        }
    }
    words.extend(spec.elapsed.map(seconds));
    words.extend(spec.process.filter(|_| !spec.state.is_over()).map(|process| format!("pid {process}")));
    format!("{}  {}", clean(&spec.spec), words.join(", "))
}

/// `held by pid 7, which runs `a/b``.
pub(crate) fn device_text(holder: Option<&DeviceHolder>) -> String {
    match holder {
        Some(holder) => holder.to_string(),
        None => "held by another process".to_owned(),
    }
}

fn seconds(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(state: SpecState) -> SpecProgress {
        SpecProgress {
            spec: "a/b".into(),
            state,
            done: 2,
            declared: 3,
            failed: 0,
            last: Some("gated".into()),
            process: Some(7),
            elapsed: Some(Duration::from_secs(75)),
        }
    }

    #[test]
    fn a_line_has_what_is_known() {
        assert_eq!(
            spec_text(&spec(SpecState::Running)),
            "a/b  2 of 3 checkpoints, last tap `gated`, 1 min 15 s, pid 7"
        );
        let red = SpecProgress { failed: 1, ..spec(SpecState::SecondPass) };
        assert_eq!(
            spec_text(&red),
            "a/b  2 of 3 checkpoints, second pass, on golden inputs, 1 failed, last tap `gated`, 1 min 15 s, pid 7"
        );
        let holder = Some(DeviceHolder::new(9, "c/d"));
        assert_eq!(
            spec_text(&spec(SpecState::WaitingForDevice { holder })),
            "a/b  waiting for the device, held by pid 9, which runs `c/d`, 1 min 15 s, pid 7"
        );
        let ended = SpecProgress { last: None, elapsed: None, ..spec(SpecState::Done) };
        assert_eq!(spec_text(&ended), "a/b  2 of 3 checkpoints, done");
    }
}
