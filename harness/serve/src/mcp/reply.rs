//! What a tool answers: a text and the same as JSON, both bounded.

use mlx_parity_core::text::printable::clean_lines;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::Value;

use crate::failure::Failure;

/// The most bytes of a text.
const MOST_TEXT: usize = 16 << 10;
/// The most bytes of the JSON.
const MOST_DATA: usize = 64 << 10;

/// The answer of a tool.
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) data: Value,
    /// Resources that show more.
    pub(super) links: Vec<Resource>,
    /// How to get what is left out of a long answer.
    pub(super) rest: &'static str,
}

impl Reply {
    pub(super) fn new(text: impl Into<String>, data: Value) -> Self {
        Self { text: text.into(), data, links: Vec::new(), rest: "ask for less" }
    }

    /// Sets how to get what is left out of a long answer.
    pub(super) fn with_rest(self, rest: &'static str) -> Self {
        Self { rest, ..self }
    }

    pub(super) fn with_links(self, links: Vec<Resource>) -> Self {
        Self { links, ..self }
    }
}

/// The result of a call.
pub(super) fn result(replied: Result<Reply, Failure>) -> CallToolResult {
    match replied {
        Ok(reply) => {
            let mut text = cut(&clean_lines(&reply.text), MOST_TEXT, reply.rest);
            let size = reply.data.to_string().len();
            let data = (size <= MOST_DATA).then_some(reply.data);
            if data.is_none() {
                text += &format!(
                    "\nthe JSON is left out: it has {size} bytes, at most {MOST_DATA} are sent; {}",
                    reply.rest
                );
            }
            let mut content = vec![ContentBlock::text(text)];
            content.extend(reply.links.into_iter().map(ContentBlock::resource_link));
            let mut result = CallToolResult::success(content);
            result.structured_content = data;
            result
        }
        Err(failure) => {
            let mut text = format!("error: {}", clean_lines(&failure.message));
            if let Some(next) = &failure.next {
                text += &format!("\nto do: {}", clean_lines(next));
            }
            let mut result =
                CallToolResult::error(vec![ContentBlock::text(cut(&text, MOST_TEXT, "ask for less"))]);
            result.structured_content =
                Some(failure.to_json()).filter(|json| json.to_string().len() <= MOST_DATA);
            result
        }
    }
}

/// Cuts a text at the end of a line, and says how much is left out.
pub(super) fn cut(text: &str, most: usize, rest: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let end = text[..end].rfind('\n').map_or(end, |at| at + 1);
    let left_out = text.len() - end;
    format!("{}\n[{left_out} of {} bytes are left out; {rest}]", text[..end].trim_end(), text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_line_and_says_so() {
        assert_eq!(cut("short", 10, "x"), "short");
        let cut_text = cut("one\ntwo\nthree\n", 9, "read the rest");
        assert_eq!(cut_text, "one\ntwo\n[6 of 14 bytes are left out; read the rest]");
        assert!(cut(&"é".repeat(20), 7, "x").starts_with("ééé\n[34 of 40"));
    }

    #[test]
    fn json_that_is_too_long_is_left_out_with_a_note() {
        let long = Reply::new("text", Value::String("x".repeat(MOST_DATA))).with_rest("ask for a slice");
        let result = result(Ok(long));
        assert!(result.structured_content.is_none());
        let text = result.content[0].as_text().unwrap().text.clone();
        assert!(
            text.starts_with("text\nthe JSON is left out") && text.ends_with("ask for a slice"),
            "{text}"
        );
    }
}
