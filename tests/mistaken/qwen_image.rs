//! Mistakes in the parts of Qwen-Image.

mod planted;
mod tower;
mod transformer;
mod vision_tower;

use mlx_parity::Suite;

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = planted::ports(transformer::ports(suite));
    tower::ports(vision_tower::ports(suite))
}
