//! How the front-end of chat models is run.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use parity_tests::text::{Chat, Message, TextError};
use serde::Deserialize;

/// The parameters of the spec beside the size of the vocabulary.
#[derive(Deserialize)]
pub(crate) struct Params {
    pub(crate) template: String,
    pub(crate) conversations: Vec<Conversation>,
    pub(crate) batch: Vec<String>,
    pub(crate) pad: String,
}

/// One conversation, and the scope of its taps.
#[derive(Deserialize)]
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) messages: Vec<Message>,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("text::chat", |run| {
        let (chat, params) = loaded(run)?;
        for Conversation { name, messages } in &params.conversations {
            let _scope = scope(name, None);
            let rendered = chat.render(messages)?;
            tap("rendered", bytes(&rendered))?;
            let ids = chat.encode(&rendered)?;
            tap("ids", numbers(&ids)?)?;
            tap("decoded", bytes(&chat.decode(&ids)?))?;
        }
        let rows = chat.encode_batch(&params.batch, &params.pad)?;
        batch(rows.iter().map(|row| (row.get_ids(), row.get_attention_mask())))
    })
}

/// The tokenizer of the fixture set with the template of the spec.
pub(crate) fn loaded(run: &Run) -> Result<(Chat, Params), TextError> {
    let params: Params = run.params()?;
    let json: Vec<u8> = run.input("tokenizer")?.to_vec_exact()?;
    Ok((Chat::new(&json, &params.template)?, params))
}

/// Taps the rows of a batch: their ids, and which of them are no filling.
pub(crate) fn batch<'r>(rows: impl Iterator<Item = (&'r [u32], &'r [u32])>) -> PortResult {
    let (ids, masks): (Vec<_>, Vec<_>) = rows.unzip();
    tap("batch.ids", numbers(&ids.concat())?.reshape(&[ids.len() as i32, -1])?)?;
    tap("batch.mask", numbers(&masks.concat())?.reshape(&[masks.len() as i32, -1])?)?;
    Ok(())
}

/// A text as its bytes in UTF-8.
pub(crate) fn bytes(text: &str) -> Array {
    Array::from_slice(text.as_bytes(), &[text.len() as i32])
}

pub(crate) fn numbers(ids: &[u32]) -> Result<Array, Exception> {
    let signed: Result<Vec<i32>, _> = ids.iter().map(|id| i32::try_from(*id)).collect();
    let signed = signed.map_err(|_| Exception::custom("an id is larger than int32 can hold"))?;
    Ok(Array::from_slice(&signed, &[signed.len() as i32]))
}
