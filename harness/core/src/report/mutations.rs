//! The result of `mutate` as text: which mutations the checkpoints of a spec notice.

use crate::mutation::MutationScore;

/// Returns `mutation score 61/64 (95 %): 58 at their own tap, 3 later; 3 survived, 5 equivalent`.
pub fn score_line(score: MutationScore) -> String {
    let percent = score.percent().map(|percent| format!(" ({percent:.0} %)")).unwrap_or_default();
    format!(
        "mutation score {}/{}{percent}: {} at their own tap, {} later; {} survived, {} equivalent",
        score.noticed(),
        score.noticeable(),
        score.at_itself,
        score.later,
        score.survived,
        score.equivalent
    )
}

pub use table::{MutatedRow, mutations_text};

mod table {
    use std::fmt::Write as _;

    use crate::gate::Gate;
    use crate::mutation::{MutationKind, MutationResult, Noticed};
    use crate::report::columns::percent;
    use crate::spec::list::counted;

    /// How many mutations a list shows; it counts the rest.
    const SHOWN: usize = 20;

    /// One checkpoint with the results of its mutations.
    #[derive(Debug)]
    pub struct MutatedRow<'a> {
        /// The name of the checkpoint.
        pub checkpoint: &'a str,
        /// The share of its gate that the port uses without a mutation.
        pub used: Option<f64>,
        /// The gate of the checkpoint.
        pub gate: Option<&'a Gate>,
        /// The tightest gate that the port still passes with headroom, as a spec writes it, and its ratio to the
        /// present gate; only if it is much tighter.
        pub tightest: Option<(String, f64)>,
        /// The results of its mutations.
        pub came: Vec<&'a MutationResult>,
    }

    /// Returns the table of checkpoints and mutations, then the mutations noticed late, then the survivors.
    pub fn mutations_text(id: &str, rows: &[MutatedRow<'_>], colour: bool) -> String {
        let paint = |code: &str, text: &str| crate::text::printable::paint(colour, code, text);
        let width = rows.iter().map(|row| row.checkpoint.len()).max().unwrap_or(0).clamp(10, 48);
        let mut text = format!(
            "{}  mutations at {}, one at a time\n",
            paint("1", id),
            counted(rows.len(), "checkpoint")
        );
        let heads: Vec<String> =
            MutationKind::ALL.iter().map(|fault| format!(" {:<10}", fault.name())).collect();
        let _ = writeln!(text, "  {:<width$}{} {:>8}  tightest", "checkpoint", heads.concat(), "used");
        for row in rows {
            let mut line = format!("  {:<width$}", row.checkpoint);
            for fault in MutationKind::ALL {
                let came = row.came.iter().find(|mutation| mutation.mutation.kind == fault);
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
            "\nitself: noticed at its own tap; later: at a later tap; port: the port failed; NEVER: not noticed; \
             =: changes nothing\n",
        );
        text
    }

    fn list(
        text: &mut String,
        title: &str,
        found: &[(&MutatedRow<'_>, &MutationResult)],
        describe: impl Fn(&MutatedRow<'_>, &MutationResult) -> String,
    ) {
        if !found.is_empty() {
            let _ = writeln!(text, "\n{title}");
        }
        for (row, mutation) in found.iter().take(SHOWN) {
            let described = describe(row, mutation);
            let described = crate::text::printable::clean(&described);
            let _ = writeln!(text, "  `{}` {}: {described}", row.checkpoint, mutation.mutation.kind.about());
        }
        let more = found.len().saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(text, "  and {}", counted(more, "other"));
        }
    }

    /// Why no checkpoint noticed the mutation, and which gate would.
    fn survivor(row: &MutatedRow<'_>, mutation: &MutationResult) -> String {
        let (Some(gate), Some(used)) = (row.gate, mutation.used) else {
            return "no value gate here, and no later checkpoint notices it".to_owned();
        };
        let mut text = format!("used {} of {}", percent(used), gate.text());
        match &row.tightest {
            Some((tight, part)) if used > *part => text += &format!("; `{tight}` would notice it"),
            _ if gate.is_of_ids() => text += "; every id that it changes is a tie",
            _ if gate.needs_floor() => text += "; this mutation is as small as the reference's rounding",
            _ => text += "; a gate that notices it would leave the port less than 4x headroom",
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_fits_in_a_line() {
        let score = MutationScore { at_itself: 58, later: 3, survived: 3, equivalent: 5 };
        assert_eq!(
            score_line(score),
            "mutation score 61/64 (95 %): 58 at their own tap, 3 later; 3 survived, 5 equivalent"
        );
        assert!(score_line(MutationScore::default()).starts_with("mutation score 0/0: "));
    }
}
