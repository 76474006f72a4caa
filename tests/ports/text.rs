//! The front-end of a chat model: a conversation becomes text by the model's template, and text becomes token ids.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind, context};
use serde::{Deserialize, Serialize};
use tokenizers::utils::padding::{PaddingDirection, PaddingParams, PaddingStrategy};
use tokenizers::{EncodeInput, Encoding, Tokenizer};

/// Why a text was not rendered or encoded.
pub type TextError = Box<dyn std::error::Error + Send + Sync>;

/// One message of a conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// Who says it: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

/// A tokenizer with a chat template.
pub struct Chat {
    tokenizer: Tokenizer,
    template: String,
}

impl Chat {
    /// Reads `tokenizer.json`. `template` is the chat template of `tokenizer_config.json`.
    pub fn new(json: &[u8], template: &str) -> Result<Self, TextError> {
        Ok(Self { tokenizer: Tokenizer::from_bytes(json)?, template: template.to_owned() })
    }

    /// Renders a conversation, with the start of an answer at its end.
    pub fn render(&self, messages: &[Message]) -> Result<String, TextError> {
        let mut environment = Environment::new();
        // As transformers sets up Jinja. Without this, the lines of the template's blocks appear in the prompt.
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        let messages = Value::from(Serde(messages));
        Ok(environment.render_str(&self.template, context! { messages, add_generation_prompt => true })?)
    }

    /// The ids of a text. The template wrote the special tokens, so none are added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        Ok(self.tokenizer.encode(text, false)?.get_ids().to_vec())
    }

    /// The text of ids, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        self.tokenizer.decode(ids, true)
    }

    /// The ids of several texts, filled up on the left to the same length. A decoder continues at the right.
    pub fn encode_batch(&self, texts: &[String], pad: &str) -> Result<Vec<Encoding>, TextError> {
        let mut tokenizer = self.tokenizer.clone();
        let pad_id =
            tokenizer.token_to_id(pad).ok_or_else(|| format!("token `{pad}` is not in the vocabulary"))?;
        tokenizer.with_padding(Some(PaddingParams {
            strategy: PaddingStrategy::BatchLongest,
            direction: PaddingDirection::Left,
            pad_id,
            pad_token: pad.to_owned(),
            ..PaddingParams::default()
        }));
        let texts: Vec<EncodeInput> = texts.iter().map(|text| text.as_str().into()).collect();
        tokenizer.encode_batch(texts, false)
    }
}
