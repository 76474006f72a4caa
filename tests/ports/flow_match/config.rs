//! How the noise levels are spaced.

use serde::Deserialize;

/// The config, with the names of `scheduler_config.json` and the defaults of diffusers.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Number of timesteps in training; a timestep is a sigma times this.
    pub num_train_timesteps: u32,
    /// Moves the sigmas towards 1 if the shift does not depend on the image.
    pub shift: f64,
    /// Whether the shift depends on the size of the image, through `mu`; then `shift` is not used.
    pub use_dynamic_shifting: bool,
    /// `mu` for an image of `base_image_seq_len` tokens.
    pub base_shift: f64,
    /// `mu` for an image of `max_image_seq_len` tokens.
    pub max_shift: f64,
    /// See `base_shift`.
    pub base_image_seq_len: u32,
    /// See `max_shift`.
    pub max_image_seq_len: u32,
    /// How `mu` shifts.
    pub time_shift_type: TimeShift,
    /// Stretches the sigmas so that the last step starts here.
    pub shift_terminal: Option<f64>,
    /// Spaces the sigmas evenly in their seventh root, between their first and last.
    pub use_karras_sigmas: bool,
    /// Spaces the sigmas evenly in their logarithm, between their first and last.
    pub use_exponential_sigmas: bool,
    /// Not supported: it needs the inverse of the incomplete beta function.
    pub use_beta_sigmas: bool,
    /// Whether sigmas rise from 0 to 1, for models whose time runs backwards.
    pub invert_sigmas: bool,
    /// Not supported: it draws noise in every step.
    pub stochastic_sampling: bool,
}

/// How `mu` shifts sigmas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeShift {
    /// By `exp(mu)`.
    Exponential,
    /// By `mu` itself.
    Linear,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            num_train_timesteps: 1000,
            shift: 1.0,
            use_dynamic_shifting: false,
            base_shift: 0.5,
            max_shift: 1.15,
            base_image_seq_len: 256,
            max_image_seq_len: 4096,
            time_shift_type: TimeShift::Exponential,
            shift_terminal: None,
            use_karras_sigmas: false,
            use_exponential_sigmas: false,
            use_beta_sigmas: false,
            invert_sigmas: false,
            stochastic_sampling: false,
        }
    }
}
