//! The resources that ports used: memory, time, evaluations, weights, and the ports' own numbers.

use crate::calculate::short;
use crate::files::size::words;
use crate::results::RunResults;
use crate::run_folder::Resources;
use crate::spec::list::counted;
use crate::text::printable::clean;

/// Returns what one port used, one line per subject.
pub fn resource_lines(used: &Resources) -> Vec<String> {
    let share = |bytes: u64| match used.machine_bytes {
        Some(machine) if machine > 0 => {
            format!(" ({:.1} % of this machine's {})", 100.0 * bytes as f64 / machine as f64, words(machine))
        }
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "memory     peak {}{}, {} active and {} cached at the end",
        words(used.peak_bytes),
        share(used.peak_bytes),
        words(used.active_bytes),
        words(used.cache_bytes)
    )];
    if let Some(rss) = used.rss_bytes {
        let most = used.peak_rss_bytes.map(|most| format!(", at most {}", words(most))).unwrap_or_default();
        lines.push(format!("resident   {}{most}", words(rss)));
    }
    lines.push(format!(
        "time       port {:.1} ms with {}, harness {:.1} ms",
        used.port_millis,
        counted(usize::try_from(used.evaluations).unwrap_or(usize::MAX), "evaluation"),
        used.harness_millis
    ));
    if let Some(warm) = &used.warm {
        lines.push(format!(
            "warm       {:.3} ms with taps, {:.3} ms with one evaluation ({} passes each)",
            warm.tapped_millis, warm.untapped_millis, warm.passes
        ));
    }
    if let Some(weights) = &used.weights {
        let tensors = counted(usize::try_from(weights.tensors).unwrap_or(usize::MAX), "tensor");
        lines.push(format!(
            "weights    {tensors}, {} parameters, {}{}",
            weights.parameters,
            words(weights.bytes),
            share(weights.bytes)
        ));
    }
    lines.push(format!("stream     {}", clean(&used.stream)));
    let metrics =
        used.metrics.iter().map(|(name, value)| format!("metric     {} {}", clean(name), short(value.0)));
    lines.extend(metrics);
    lines
}

/// Returns one line about the whole run, and one per number of the ports' own. Empty for a run without resources.
pub fn run_resources(run: &RunResults) -> Vec<String> {
    let used: Vec<(&str, &Resources)> = run
        .accounts()
        .filter_map(|account| Some((account.spec.id.as_str(), account.data.resources()?)))
        .collect();
    let Some((id, most)) = used.iter().max_by_key(|(_, used)| used.peak_bytes) else { return Vec::new() };
    let sum = |part: fn(&Resources) -> f64| used.iter().map(|(_, used)| part(used)).sum::<f64>() / 1e3;
    let evaluations: u64 = used.iter().map(|(_, used)| used.evaluations).sum();
    let mut lines = vec![format!(
        "memory peak {} in {}; ports {:.1} s, harness {:.1} s, {}",
        words(most.peak_bytes),
        clean(id),
        sum(|used| used.port_millis),
        sum(|used| used.harness_millis),
        counted(usize::try_from(evaluations).unwrap_or(usize::MAX), "evaluation")
    )];
    for (id, used) in &used {
        let metrics = used.metrics.iter();
        lines.extend(
            metrics.map(|(name, value)| format!("{}: {} {}", clean(id), clean(name), short(value.0))),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_folder::{Metric, WarmPasses, WeightSize};

    #[test]
    fn every_number_has_a_line() {
        let used = Resources {
            stream: "Stream(Device(cpu, 0), 0)".into(),
            active_bytes: 1_000_000,
            peak_bytes: 2_000_000,
            cache_bytes: 500,
            rss_bytes: Some(80_000_000),
            peak_rss_bytes: Some(90_000_000),
            machine_bytes: Some(20_000_000_000),
            port_millis: 3.25,
            harness_millis: 12.0,
            evaluations: 9,
            weights: Some(WeightSize { tensors: 3, parameters: 3072, bytes: 12_288 }),
            metrics: [("generation_tps".to_owned(), Metric(81.5))].into(),
            warm: Some(WarmPasses { passes: 10, tapped_millis: 2.5, untapped_millis: 1.75 }),
        };
        assert_eq!(
            resource_lines(&used),
            [
                "memory     peak 2.0 MB (0.0 % of this machine's 20 GB), 1.0 MB active and 500 bytes cached at the end",
                "resident   80 MB, at most 90 MB",
                "time       port 3.2 ms with 9 evaluations, harness 12.0 ms",
                "warm       2.500 ms with taps, 1.750 ms with one evaluation (10 passes each)",
                "weights    3 tensors, 3072 parameters, 12 kB (0.0 % of this machine's 20 GB)",
                "stream     Stream(Device(cpu, 0), 0)",
                "metric     generation_tps 81.5",
            ]
        );
        let back: Resources = serde_json::from_str(&serde_json::to_string(&used).unwrap()).unwrap();
        assert_eq!(back, used);
    }
}
