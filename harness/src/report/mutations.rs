//! What a spec's checkpoints notice of planted faults, in words.

use crate::run::Score;

/// `mutation score 61/64 (95 %): 58 at their own tap, 3 later; 3 survived, 5 equivalent`.
pub(crate) fn score_line(score: Score) -> String {
    let percent = score.percent().map(|percent| format!(" ({percent:.0} %)")).unwrap_or_default();
    format!(
        "mutation score {}/{}{percent}: {} at their own tap, {} later; {} survived, {} equivalent",
        score.noticed(),
        score.planted(),
        score.at_itself,
        score.later,
        score.survived,
        score.equivalent
    )
}

#[cfg(feature = "cli")]
pub(crate) use table::{MutatedRow, mutations_text};

#[cfg(feature = "cli")]
mod table {
    use std::fmt::Write as _;

    use crate::compare::Gate;
    use crate::report::columns::percent;
    use crate::report::gate_text;
    use crate::run::{Fault, Mutation, Noticed};
    use crate::spec::list::counted;

    /// Faults that are told one by one before the rest is counted.
    const SHOWN: usize = 20;

    /// One checkpoint and what came of its faults.
    #[derive(Debug)]
    pub(crate) struct MutatedRow<'a> {
        pub(crate) checkpoint: &'a str,
        /// How much of its gate the port used without any fault.
        pub(crate) used: Option<f64>,
        pub(crate) gate: Option<&'a Gate>,
        /// The tightest gate that the port leaves room for, as a spec has it, and what part of the present one it is; only
        /// where it is much tighter.
        pub(crate) tightest: Option<(String, f64)>,
        pub(crate) came: Vec<&'a Mutation>,
    }

    /// The table of checkpoints and faults, then who was noticed late and who not at all.
    pub(crate) fn mutations_text(id: &str, rows: &[MutatedRow<'_>], colour: bool) -> String {
        let paint = |code: &str, text: &str| crate::printable::paint(colour, code, text);
        let width = rows.iter().map(|row| row.checkpoint.len()).max().unwrap_or(0).clamp(10, 48);
        let mut text =
            format!("{}  faults at {}, one at a time\n", paint("1", id), counted(rows.len(), "checkpoint"));
        let heads: Vec<String> = Fault::ALL.iter().map(|fault| format!(" {:<10}", fault.name())).collect();
        let _ = writeln!(text, "  {:<width$}{} {:>8}  tightest", "checkpoint", heads.concat(), "used");
        for row in rows {
            let mut line = format!("  {:<width$}", row.checkpoint);
            for fault in Fault::ALL {
                let came = row.came.iter().find(|mutation| mutation.planted.fault == fault);
                let (word, code) = match came.map(|mutation| &mutation.noticed) {
                    None => ("", ""),
                    Some(Noticed::Equivalent) => ("=", ""),
                    Some(Noticed::Itself) => ("itself", "32"),
                    Some(Noticed::Later(_)) => ("later", "33"),
                    Some(Noticed::Port(_)) => ("port", "33"),
                    Some(Noticed::Never) => ("NEVER", "31"),
                };
                let cell = format!("{word:<10}");
                let _ = write!(line, " {}", if code.is_empty() { cell } else { paint(code, &cell) });
            }
            let used = row.used.map_or_else(|| "-".to_owned(), percent);
            let tightest = row.tightest.as_ref().map_or("-", |(gate, _)| gate.as_str());
            let _ = writeln!(text, "{line} {used:>8}  {tightest}");
        }
        let of = |is: fn(&Noticed) -> bool| {
            let all = rows.iter().flat_map(|row| row.came.iter().map(move |mutation| (row, *mutation)));
            all.filter(move |(_, mutation)| is(&mutation.noticed)).collect::<Vec<_>>()
        };
        let late = of(|noticed| matches!(noticed, Noticed::Later(_) | Noticed::Port(_)));
        list(&mut text, "noticed later", &late, |_, mutation| match &mutation.noticed {
            Noticed::Later(name) => format!("first at `{name}`"),
            Noticed::Port(how) => format!("by the port: {how}"),
            Noticed::Equivalent | Noticed::Itself | Noticed::Never => String::new(),
        });
        let survived = of(|noticed| *noticed == Noticed::Never);
        list(&mut text, &paint("31", "survived"), &survived, survivor);
        text.push_str(
            "\nitself: at its own tap; later: only further on; port: the port failed; NEVER: by nobody; =: it changes nothing\n",
        );
        text
    }

    fn list(
        text: &mut String,
        title: &str,
        found: &[(&MutatedRow<'_>, &Mutation)],
        say: impl Fn(&MutatedRow<'_>, &Mutation) -> String,
    ) {
        if !found.is_empty() {
            let _ = writeln!(text, "\n{title}");
        }
        for (row, mutation) in found.iter().take(SHOWN) {
            let said = say(row, mutation);
            let said = crate::printable::clean(&said);
            let _ = writeln!(text, "  `{}` {}: {said}", row.checkpoint, mutation.planted.fault.about());
        }
        let more = found.len().saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(text, "  and {}", counted(more, "other"));
        }
    }

    /// Why nobody noticed, and what would.
    fn survivor(row: &MutatedRow<'_>, mutation: &Mutation) -> String {
        let (Some(gate), Some(used)) = (row.gate, mutation.used) else {
            return "there is no value gate here, and nothing later notices".to_owned();
        };
        let mut text = format!("{} of {}", percent(used), gate_text(gate));
        match &row.tightest {
            Some((tight, part)) if used > *part => text += &format!("; `{tight}` would notice it"),
            _ if matches!(gate, Gate::Noise { .. }) => text += "; by the floor that is rounding",
            _ => text += "; no gate that leaves the port 4x would notice it",
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_told_in_a_line() {
        let score = Score { at_itself: 58, later: 3, survived: 3, equivalent: 5 };
        assert_eq!(
            score_line(score),
            "mutation score 61/64 (95 %): 58 at their own tap, 3 later; 3 survived, 5 equivalent"
        );
        assert!(score_line(Score::default()).starts_with("mutation score 0/0: "));
    }
}
