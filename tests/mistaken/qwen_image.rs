//! Mistakes in the parts of Qwen-Image.

mod transformer;
mod vision_tower;

use mlx_parity::Suite;

pub(crate) fn ports(suite: Suite) -> Suite {
    transformer::ports(vision_tower::ports(suite))
}
