//! Mistakes in the parts of Qwen-Image.

mod vision_tower;

use mlx_parity::Suite;

pub(crate) fn ports(suite: Suite) -> Suite {
    vision_tower::ports(suite)
}
