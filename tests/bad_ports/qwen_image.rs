//! Faults in the parts of Qwen-Image.

mod transformer;
mod transformer_at_taps;
mod vision_tower;
mod vision_tower_at_taps;

use mlx_parity::Suite;

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = suite
        .port("qwen_image::transformer", |run| transformer::with(run, |_, _| Ok(())))
        .port("qwen_image::vision_tower", |run| vision_tower::with(run, |_| {}, |_| Ok(())));
    let suite = transformer_at_taps::ports(transformer::ports(suite));
    vision_tower_at_taps::ports(vision_tower::ports(suite))
}
