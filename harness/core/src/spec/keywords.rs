//! Keys whose values are one of a closed set of words.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::decode::keyword;
use crate::tensor::Dtype;

/// Declares such a set: the enum, its words, its schema and how it is read.
macro_rules! keyword_enum {
    ($(#[$meta:meta])* $vis:vis $name:ident ($what:literal) { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All values, in declaration order.
            $vis const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The word for this value in specs.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                let found = Self::ALL.into_iter().find(|known| known.name() == word);
                found.ok_or_else(|| serde::de::Error::custom(format!("unknown {} `{word}`", $what)))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut SchemaGenerator) -> Schema { json_schema!({ "enum": [$($word),*] }) }
        }

        keyword!($name, $what);
    };
}

keyword_enum! {
    /// Where a port runs.
    pub Device ("device") {
        /// The default device of MLX.
        Default = "default",
        /// The CPU.
        Cpu = "cpu",
        /// The GPU.
        Gpu = "gpu",
    }
}

keyword_enum! {
    /// The kind of computation that ends at a checkpoint. Explanations that fit it are tried first.
    pub Stage ("stage") {
        /// A lookup of embeddings, or a patch embedding.
        Embedding = "embedding",
        /// A normalisation.
        Norm = "norm",
        /// Rotary position embedding.
        Rope = "rope",
        /// Any part of attention.
        Attention = "attention",
        /// Any part of a feed-forward block.
        Mlp = "mlp",
        /// A linear layer.
        Linear = "linear",
        /// A convolution.
        Conv = "conv",
        /// Scale, shift and gate of a conditioned block.
        Modulation = "modulation",
        /// A residual sum.
        Residual = "residual",
        /// Timesteps, sigmas, a predicted step.
        Scheduler = "scheduler",
        /// The result of a transformer block or of a whole transformer.
        Transformer = "transformer",
        /// The result of a text encoder's layer, or of the whole.
        TextEncoder = "text_encoder",
        /// The result of an autoencoder's block, or of the whole.
        Vae = "vae",
        /// Pixels, as uint8: golden, actual and difference are kept as PNG.
        Image = "image",
        /// The gradient of a parameter.
        Gradient = "gradient",
        /// A parameter or the state of an optimiser after a step.
        Optimizer = "optimizer",
    }
}

keyword_enum! {
    /// The values of `nan`.
    pub(super) NanRule ("nan") {
        /// A NaN agrees with a NaN; without a golden, values need not be finite.
        Equal = "equal",
    }
}

keyword_enum! {
    /// The values of `compare`: the tensor is judged as choices.
    pub(super) Compare ("compare") {
        /// Logits, as the probabilities that they stand for.
        Distribution = "distribution",
        /// Ids, each the one with the highest score.
        Tokens = "tokens",
        /// Rows of ids, in any order.
        Set = "set",
        /// UTF-8 text as uint8, or ids, all of them equal.
        Text = "text",
    }
}

keyword_enum! {
    /// The values of `gate` in a twin.
    pub(super) TwinGate ("gate") {
        /// The gate that each checkpoint has itself.
        Same = "same",
    }
}

keyword!(Dtype, "dtype");
