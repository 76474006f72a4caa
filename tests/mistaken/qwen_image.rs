//! Mistakes in the parts of Qwen-Image.

mod planted;
mod tower;
mod transformer;
mod vision_tower;

use mlx_parity::Suite;

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = suite
        .port("qwen_image::transformer", |run| transformer::with(run, |_, _| Ok(())))
        .port("qwen_image::vision_tower", |run| vision_tower::with(run, |_| {}, |_| Ok(())));
    let suite = planted::ports(transformer::ports(suite));
    tower::ports(vision_tower::ports(suite))
}
