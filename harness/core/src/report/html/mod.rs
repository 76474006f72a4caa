//! `report.html`: a run as one file that opens in any browser, without a network.
//!
//! The page is a frame, `report.css`, `report.js` and the results as JSON in an element of their own. The script builds
//! everything from text nodes, so nothing that comes from a file can become markup. The policy in the head of the page
//! allows this one script, and no connection.

mod data;
mod detail;
mod spec_data;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use data::page;

use super::summary_line;
use crate::results::{Against, RunResults};
use crate::text::printable::{clean, json};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Returns the run as one HTML page, with a column against another run if one is given.
pub(super) fn html(run: &RunResults, against: Option<&Against<'_>>) -> Result<String, serde_json::Error> {
    // In JSON, `<` can only stand in a text. Without it, no text can end the element.
    let data = json(&serde_json::to_string(&page(run, against))?).replace('<', "\\u003c");
    let hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    let counts = escaped(&summary_line(&run.summary()));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'unsafe-inline'; script-src 'sha256-{hash}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>parity: {counts}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n\
         <noscript><p>{counts}</p><p>This page needs JavaScript. The file report.txt has the same results as text.</p>\
         </noscript>\n<script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n\
         </body>\n</html>\n"
    ))
}

/// `text` as HTML text.
pub(super) fn escaped(text: &str) -> String {
    clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A picture as an address that holds the picture itself.
fn data_address(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))
}
