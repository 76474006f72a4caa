//! The output of a bench: one row per fault, as text or JSON.

use serde_json::{Value, json};

use super::lists::ListResult;
use super::score::{RedCheckpoint, Row};
use mlx_parity_core::diagnose::{CauseKind, FactKind};

const STAGE: &str = "first faulty stage";

/// Returns the rows of each list; with `missed`, only those with an unexpected result.
pub(super) fn table(results: &[ListResult], missed: bool) -> String {
    let mut text = String::new();
    for result in results {
        let rows = rows_by_spec(&result.rows, missed);
        if results.len() > 1 && !rows.is_empty() {
            text.push_str(&format!("{} faults, {}\n", result.name(), result.file.display()));
        }
        text.push_str(&rows);
    }
    text
}

/// Returns the rows by spec.
fn rows_by_spec(rows: &[Row], missed: bool) -> String {
    let shown: Vec<&Row> = rows.iter().filter(|row| !missed || !row.is_right()).collect();
    let width = |text: fn(&Row) -> usize| shown.iter().map(|row| text(row)).max().unwrap_or(0);
    let fault = width(|row| row.fault.name.len());
    let place = width(|row| expected(row).to_string().len()).max(STAGE.len());
    let mut text = match shown.is_empty() {
        true => String::new(),
        false => format!("           {:<fault$}  {:<place$}  cause\n", "fault", STAGE),
    };
    let mut spec = "";
    for row in shown {
        if row.spec != spec {
            spec = &row.spec;
            text.push_str(&format!("{spec}\n"));
        }
        let fact = row.fault.fact.map(|fact| format!(", fact {fact}")).unwrap_or_default();
        let wanted = row.fault.cause.map_or("none", CauseKind::name).to_owned() + &fact;
        let line = format!(
            "  {:<8} {:<fault$}  {:<place$}  {wanted}{}",
            mark(row),
            row.fault.name,
            expected(row).to_string(),
            otherwise(row)
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn expected(row: &Row) -> RedCheckpoint {
    RedCheckpoint { checkpoint: row.fault.culprit.clone(), class: row.fault.class }
}

/// The first check that failed, or `ok`.
fn mark(row: &Row) -> &'static str {
    if !row.found.caught {
        "missed"
    } else if !row.is_placed() {
        "place"
    } else if row.wrong_causes().next().is_some() {
        "wrong"
    } else if row.is_explained() == Some(false) {
        "cause"
    } else if row.is_seen() == Some(false) {
        "fact"
    } else {
        "ok"
    }
}

/// The parts of the result that differ from the expected ones.
fn otherwise(row: &Row) -> String {
    let mut found = Vec::new();
    let or_none =
        |place: &Option<RedCheckpoint>| place.as_ref().map_or("none".to_owned(), RedCheckpoint::to_string);
    let is_expected = row.found.culprit.as_ref() == Some(&expected(row));
    if !is_expected {
        found.push(format!("{STAGE} {}", or_none(&row.found.culprit)));
    }
    if row.found.first.as_ref().is_none_or(|first| first.checkpoint != row.fault.first()) {
        let wanted = row.fault.first();
        found.push(format!("first red {}, expected {wanted}", or_none(&row.found.first)));
    }
    let causes: Vec<&str> = row.found.causes.iter().map(|kind| kind.name()).collect();
    if causes != row.fault.cause.iter().map(|kind| kind.name()).collect::<Vec<_>>() {
        found
            .push(format!("cause {}", if causes.is_empty() { "none".to_owned() } else { causes.join(", ") }));
    }
    if row.is_seen() == Some(false) {
        let facts: Vec<&str> = row.found.facts.iter().map(|kind| FactKind::name(*kind)).collect();
        found.push(format!("fact {}", if facts.is_empty() { "none".to_owned() } else { facts.join(", ") }));
    }
    if found.is_empty() { String::new() } else { format!("; found {}", found.join("; ")) }
}

/// Returns the results as JSON: an entry per list.
pub(super) fn json(results: &[ListResult]) -> Value {
    let lists = results.iter().map(|result| {
        let rows: Vec<Value> = result.rows.iter().map(row_json).collect();
        let (file, score, alarms) = (result.file.display().to_string(), &result.score, &result.alarms);
        json!({ "list": result.name(), "file": file, "score": score, "false_alarms": alarms, "rows": rows })
    });
    json!({ "lists": lists.collect::<Vec<_>>() })
}

fn row_json(row: &Row) -> Value {
    json!({
        "spec": row.spec,
        "fault": row.fault.name,
        "expected": {
            "culprit": expected(row),
            "first": row.fault.first(),
            "cause": row.fault.cause,
            "or": row.fault.also_true,
            "fact": row.fault.fact,
        },
        "found": row.found,
        "placed": row.is_placed(),
        "explained": row.is_explained(),
        "seen": row.is_seen(),
        "wrong_causes": row.wrong_causes().collect::<Vec<_>>(),
        "right": row.is_right(),
    })
}
