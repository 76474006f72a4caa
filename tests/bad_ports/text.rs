//! Faults in the front-end of chat models.

#[path = "../parity/text.rs"]
pub(crate) mod right;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use parity_tests::text::{Message, TextError};
use right::{Params, batch, bytes, numbers};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::utils::padding::{PaddingDirection, PaddingParams};
use tokenizers::{EncodeInput, Encoding, Tokenizer};

/// What a port does otherwise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The lines of the template's blocks stay in the text.
    BlocksNotTrimmed,
    /// The text ends with the last message.
    NoGenerationPrompt,
    /// `<|im_start|>` is encoded letter by letter.
    SpecialTokensAsText,
    /// The text starts with a space, as some models want it.
    PrefixSpace,
    /// The regular expression of GPT-2 splits text into words.
    WordsOfGpt2,
    /// Accents in two characters stay as they are.
    NotNormalised,
    /// Decoded text contains `<|im_end|>`.
    SpecialTokensDecoded,
    /// Short texts are filled up on the right.
    PaddedRight,
    /// The id 0 fills texts up, but the mask says that it is text.
    MaskOfOnes,
    /// The ends of the messages are written as the text ends.
    OtherEnd,
}

const FAULTS: &[(&str, Fault)] = &[
    ("blocks_not_trimmed", Fault::BlocksNotTrimmed),
    ("no_generation_prompt", Fault::NoGenerationPrompt),
    ("special_tokens_as_text", Fault::SpecialTokensAsText),
    ("prefix_space", Fault::PrefixSpace),
    ("words_of_gpt2", Fault::WordsOfGpt2),
    ("not_normalised", Fault::NotNormalised),
    ("special_tokens_decoded", Fault::SpecialTokensDecoded),
    ("padded_right", Fault::PaddedRight),
    ("mask_of_ones", Fault::MaskOfOnes),
    ("other_end", Fault::OtherEnd),
];

pub(crate) fn ports(suite: Suite) -> Suite {
    FAULTS.iter().fold(right::ports(suite), |suite, &(name, fault)| {
        suite.port(format!("text::chat/{name}"), move |run| with(run, fault))
    })
}

fn with(run: &Run, fault: Fault) -> PortResult {
    let params: Params = run.params()?;
    let json: Vec<u8> = run.input("tokenizer")?.to_vec_exact()?;
    let mut tokenizer = Tokenizer::from_bytes(&json)?;
    match fault {
        Fault::SpecialTokensAsText => tokenizer.set_encode_special_tokens(true),
        Fault::PrefixSpace => {
            tokenizer.with_pre_tokenizer(Some(ByteLevel::new(true, true, true)));
        }
        Fault::WordsOfGpt2 => {
            tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
        }
        Fault::NotNormalised => {
            tokenizer.with_normalizer(None::<tokenizers::NormalizerWrapper>)?;
        }
        _ => {}
    }
    for conversation in &params.conversations {
        let _scope = scope(&conversation.name, None);
        let rendered = rendered(&params.template, &conversation.messages, fault)?;
        tap("rendered", bytes(&rendered))?;
        let ids = tokenizer.encode(rendered, false)?.get_ids().to_vec();
        tap("ids", numbers(&ids)?)?;
        tap("decoded", bytes(&tokenizer.decode(&ids, fault != Fault::SpecialTokensDecoded)?))?;
    }
    let rows = padded(&tokenizer, &params, fault)?;
    let ones: Vec<Vec<u32>> = rows.iter().map(|row| vec![1; row.len()]).collect();
    let masks = rows.iter().zip(&ones).map(|(row, ones)| match fault {
        Fault::MaskOfOnes => &ones[..],
        _ => row.get_attention_mask(),
    });
    batch(rows.iter().map(Encoding::get_ids).zip(masks))
}

fn rendered(template: &str, messages: &[Message], fault: Fault) -> Result<String, TextError> {
    let mut environment = Environment::new();
    let trims = fault != Fault::BlocksNotTrimmed;
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(trims).lstrip_blocks(true).build()?);
    environment.add_function("raise_exception", |message: String| message);
    let template = match fault {
        Fault::OtherEnd => template.replace("}}<|im_end|>", "}}<|endoftext|>"),
        _ => template.to_owned(),
    };
    let messages = Value::from(Serde(messages));
    let add_generation_prompt = fault != Fault::NoGenerationPrompt;
    Ok(environment.render_str(&template, context! { messages, add_generation_prompt })?)
}

fn padded(tokenizer: &Tokenizer, params: &Params, fault: Fault) -> Result<Vec<Encoding>, TextError> {
    let mut tokenizer = tokenizer.clone();
    let pad_id = tokenizer.token_to_id(&params.pad).unwrap_or_default();
    let direction =
        if fault == Fault::PaddedRight { PaddingDirection::Right } else { PaddingDirection::Left };
    tokenizer.with_padding(Some(PaddingParams { direction, pad_id, ..PaddingParams::default() }));
    let texts: Vec<EncodeInput> = params.batch.iter().map(|text| text.as_str().into()).collect();
    tokenizer.encode_batch(texts, false)
}
