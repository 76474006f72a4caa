//! The tools that explain causes.

use std::fmt::Write as _;

use mlx_parity_core::diagnose::{CauseKind, FactKind};
use mlx_parity_core::text::suggest::did_you_mean;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::reply::Reply;
use crate::failure::{Failure, FailureKind};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explain {
    /// The kind, such as `norm_eps`; list_causes lists them
    kind: String,
}

/// One kind: `cause` or `fact`, its name, its meaning and what to look at.
type Kind = (&'static str, &'static str, &'static str, &'static str);

fn kinds() -> impl Iterator<Item = Kind> {
    let causes = CauseKind::ALL.iter().map(|kind| ("cause", kind.name(), kind.about(), kind.next()));
    let facts = FactKind::ALL.iter().map(|kind| ("fact", kind.name(), kind.about(), kind.next()));
    causes.chain(facts)
}

pub(super) fn list() -> Result<Reply, Failure> {
    let mut text =
        "A cause predicts the actual from the golden. A fact is an observation about an error that no cause explains.\n".to_owned();
    let mut data = Vec::new();
    for (group, name, about, _) in kinds() {
        let _ = writeln!(text, "{group} {name}: {about}");
        data.push(json!({"group": group, "kind": name, "means": about}));
    }
    Ok(Reply::new(text, json!({"kinds": data})))
}

pub(super) fn explain(explain: &Explain) -> Result<Reply, Failure> {
    let found = kinds().find(|(_, name, ..)| *name == explain.kind);
    let Some((group, name, about, next)) = found else {
        let near = did_you_mean(&explain.kind, kinds().map(|(_, name, ..)| name));
        let failure =
            Failure::new(FailureKind::NotFound, format!("there is no kind `{}`{near}", explain.kind));
        return Err(failure.with_next("list_causes lists the kinds"));
    };
    let data: Value = json!({"group": group, "kind": name, "means": about, "look_at": next});
    Ok(Reply::new(format!("{group} {name}\n  means    {about}\n  look at  {next}\n"), data))
}
