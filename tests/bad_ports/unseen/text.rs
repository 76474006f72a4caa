//! Variants of the front-end of chat models.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use parity_tests::text::{Chat, Message, TextError};
use tokenizers::Tokenizer;

use super::{Variant, add};
use crate::text::right::{Params, batch, bytes, numbers};

const NAMES: &[&str] = &[
    "content_not_trimmed",
    "default_system_left_out",
    "last_line_end_removed",
    "decoded_id_by_id",
    "spaces_cleaned_up",
    "mask_inverted",
    // Rewrites.
    "rendered_by_hand",
    "special_ids_removed_first",
    "padded_by_hand",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "text::chat", NAMES, converse)
}

fn converse(run: &Run, v: &Variant) -> PortResult {
    let Params { mut template, conversations, batch: texts, pad } = run.params()?;
    let json: Vec<u8> = run.input("tokenizer")?.to_vec_exact()?;
    if v.is("content_not_trimmed") {
        template = template.replace(" | trim", "");
    } else if v.is("default_system_left_out") {
        template = template.replace("messages[0]['role'] != 'system'", "false");
    }
    let tokenizer = Tokenizer::from_bytes(&json)?;
    let chat = Chat::new(&json, &template)?;
    for conversation in &conversations {
        let _scope = scope(&conversation.name, None);
        let mut rendered = match v.is("rendered_by_hand") {
            true => by_hand(&conversation.messages),
            false => chat.render(&conversation.messages)?,
        };
        if v.is("last_line_end_removed") {
            rendered.truncate(rendered.trim_end().len());
        }
        tap("rendered", bytes(&rendered))?;
        let ids = chat.encode(&rendered)?;
        tap("ids", numbers(&ids)?)?;
        tap("decoded", bytes(&decoded(&chat, &tokenizer, &ids, v)?))?;
    }
    let rows: Vec<(Vec<u32>, Vec<u32>)> = if v.is("padded_by_hand") {
        padded(&chat, &tokenizer, &texts, &pad)?
    } else {
        let rows = chat.encode_batch(&texts, &pad)?;
        rows.iter().map(|row| (row.get_ids().to_vec(), row.get_attention_mask().to_vec())).collect()
    };
    let inverted = v.is("mask_inverted");
    let mask =
        |bits: &[u32]| -> Vec<u32> { bits.iter().map(|bit| if inverted { 1 - bit } else { *bit }).collect() };
    let masks: Vec<Vec<u32>> = rows.iter().map(|(_, bits)| mask(bits)).collect();
    batch(rows.iter().zip(&masks).map(|((ids, _), mask)| (&ids[..], &mask[..])))
}

/// What the template writes, without an engine for templates.
fn by_hand(messages: &[Message]) -> String {
    let mut text = String::new();
    if messages.first().is_none_or(|first| first.role != "system") {
        text += "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n";
    }
    for Message { role, content } in messages {
        text += &format!("<|im_start|>{role}\n{}<|im_end|>\n", content.trim());
    }
    text + "<|im_start|>assistant\n"
}

fn decoded(chat: &Chat, tokenizer: &Tokenizer, ids: &[u32], v: &Variant) -> Result<String, TextError> {
    if v.is("decoded_id_by_id") {
        return ids.iter().map(|id| chat.decode(&[*id])).collect();
    }
    if v.is("special_ids_removed_first") {
        let special = tokenizer.get_added_tokens_decoder();
        let others: Vec<u32> = ids.iter().copied().filter(|id| !special.contains_key(id)).collect();
        return tokenizer.decode(&others, false);
    }
    let text = chat.decode(ids)?;
    Ok(match v.is("spaces_cleaned_up") {
        true => text.replace(" ?", "?").replace(" ,", ",").replace(" .", "."),
        false => text,
    })
}

/// The ids of a text, and their mask.
type Row = (Vec<u32>, Vec<u32>);

/// The rows of the texts, filled up on the left.
fn padded(chat: &Chat, tokenizer: &Tokenizer, texts: &[String], pad: &str) -> Result<Vec<Row>, TextError> {
    let pad = tokenizer.token_to_id(pad).ok_or("the tokenizer has no such token")?;
    let rows = texts.iter().map(|text| chat.encode(text)).collect::<Result<Vec<_>, _>>()?;
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let filled = |ids: &Vec<u32>| {
        let missing = longest - ids.len();
        let mask = [vec![0; missing], vec![1; ids.len()]].concat();
        ([vec![pad; missing], ids.clone()].concat(), mask)
    };
    Ok(rows.iter().map(filled).collect())
}
