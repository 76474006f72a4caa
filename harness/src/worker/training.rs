//! One training step of a port: its gradients, its optimiser's state and its new parameters, as checkpoints.

use std::collections::HashMap;
use std::rc::Rc;

use mlx_parity_tap::{open_scopes, tap};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::module::ModuleParameters;
use mlx_rs::optimizers::{Optimizer, OptimizerState};

use super::port::Run;

impl Run {
    /// Taps each gradient as `grad.<name>`, and returns the arrays to continue with: the goldens, if they are injected.
    ///
    /// `gradients` is what mlx-rs's `value_and_grad` returns, or any other pairs of names and arrays. A gradient that the
    /// spec declares and that is not among them fails with the class `gradient`, and so does one that is zero everywhere.
    ///
    /// ```no_run
    /// # use mlx_rs::{Array, error::Exception, module::Module, nn, optimizers::{AdamW, Optimizer}};
    /// # fn port(run: &mlx_parity::Run, mut model: nn::Linear, mut optimizer: AdamW) -> mlx_parity::PortResult {
    /// # let x = run.input("x")?;
    /// let loss = |model: &mut nn::Linear, x: &Array| -> Result<Array, Exception> {
    ///     mlx_parity_tap::tap("loss", model.forward(x)?.square()?.mean(None)?)
    /// };
    /// let (_, gradients) = nn::value_and_grad(loss)(&mut model, &x)?;
    /// let gradients = run.gradients(&gradients)?;
    /// optimizer.update(&mut model, gradients)?;
    /// run.state_after(&mut optimizer, &["exp_avg", "exp_avg_sq"])?;
    /// run.parameters_after(&mut model)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of `tap`.
    #[track_caller]
    pub fn gradients<K: AsRef<str>, A: AsRef<Array>>(
        &self,
        gradients: impl IntoIterator<Item = (K, A)>,
    ) -> Result<HashMap<Rc<str>, Array>, Exception> {
        let gradients: Vec<(K, A)> = gradients.into_iter().collect();
        for (name, gradient) in &gradients {
            self.note_gradient(name.as_ref(), gradient.as_ref())?;
        }
        self.tap_each("grad", gradients)
    }

    /// Taps each array as `<prefix>.<name>`, such as clipped gradients, and returns the arrays to continue with.
    ///
    /// The taps come in the order in which the reference made the goldens: a backward pass reaches the last layer first.
    ///
    /// # Errors
    /// Those of `tap`.
    #[track_caller]
    pub fn tap_each<K: AsRef<str>, A: AsRef<Array>>(
        &self,
        prefix: &str,
        arrays: impl IntoIterator<Item = (K, A)>,
    ) -> Result<HashMap<Rc<str>, Array>, Exception> {
        let arrays =
            arrays.into_iter().map(|(name, array)| (Rc::from(name.as_ref()), array.as_ref().clone()));
        let mut arrays: Vec<(Rc<str>, Array)> = arrays.collect();
        self.sort_as_reference(prefix, &mut arrays, |(name, _)| name);
        let mut given = HashMap::with_capacity(arrays.len());
        for (name, array) in arrays {
            let array = tap(&format!("{prefix}.{name}"), array)?;
            given.insert(name, array);
        }
        Ok(given)
    }

    /// Taps the state that an optimiser has after a step, as `step.1.state.<parameter>.<slot>`. Call it before
    /// [`Run::parameters_after`], which ends the step.
    ///
    /// `slots` are the reference's words for the arrays that mlx-rs keeps per parameter, in its order. Those of Adam and
    /// AdamW are the first and the second moment. Without slots, the names are those of mlx-rs.
    ///
    /// # Errors
    /// Those of `tap`, or if mlx-rs cannot list the state.
    #[track_caller]
    pub fn state_after<O: Optimizer>(&self, optimizer: &mut O, slots: &[&str]) -> Result<(), Exception> {
        let prefix = format!("step.{}.state", self.step());
        let state = optimizer.state_mut().flatten_mut();
        let state = state.map_err(|error| Exception::custom(error.to_string()))?;
        let mut state: Vec<(String, &mut Array)> =
            state.into_iter().map(|(name, array)| (slot_name(&name, slots), array)).collect();
        self.sort_as_reference(&prefix, &mut state, |(name, _)| name);
        for (name, array) in state {
            *array = tap(&format!("{prefix}.{name}"), array.clone())?;
        }
        Ok(())
    }

    /// Taps the parameters that a model has after a step, as `step.1.param.<parameter>`. The next call is `step.2`.
    ///
    /// Parameters that the spec lists in `weights.frozen` are not taps: the trial `<spec>::weights` fails if one differs
    /// from its weight. Goldens that are injected become the model's parameters.
    ///
    /// # Errors
    /// Those of `tap`.
    #[track_caller]
    pub fn parameters_after(&self, model: &mut impl ModuleParameters) -> Result<(), Exception> {
        let prefix = format!("step.{}.param", self.step());
        let mut trained = HashMap::new();
        for (name, array) in model.parameters().flatten() {
            if !self.note_parameter(&name, array)? {
                trained.insert(name, array.clone());
            }
        }
        let after = self.tap_each(&prefix, &trained)?;
        model.update_flattened(after);
        self.end_step();
        Ok(())
    }

    /// Sorts taps as the reference made their goldens. Taps without a golden come last, by name.
    fn sort_as_reference<T>(&self, prefix: &str, taps: &mut [T], name: impl Fn(&T) -> &str) {
        let scopes = open_scopes().into_iter().map(|scope| scope + ".").collect::<String>();
        let order = self.golden_order();
        taps.sort_by_cached_key(|one| {
            let name = name(one);
            (order.get(&*format!("{scopes}{prefix}.{name}")).copied().unwrap_or(u64::MAX), name.to_owned())
        });
    }
}

/// The name of one array of an optimiser's state. mlx-rs names the arrays of a parameter `<parameter>.0` and
/// `<parameter>.1` if there are two, and `<parameter>` if there is one.
fn slot_name(name: &str, slots: &[&str]) -> String {
    if let [slot] = slots {
        return format!("{name}.{slot}");
    }
    let slot = name.rsplit_once('.').and_then(|(own, at)| Some((own, slots.get(at.parse::<usize>().ok()?)?)));
    slot.map_or_else(|| name.to_owned(), |(own, slot)| format!("{own}.{slot}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_has_the_words_of_the_reference() {
        assert_eq!(slot_name("layers.0.weight.0", &["exp_avg", "exp_avg_sq"]), "layers.0.weight.exp_avg");
        assert_eq!(slot_name("layers.0.weight.1", &["exp_avg", "exp_avg_sq"]), "layers.0.weight.exp_avg_sq");
        assert_eq!(slot_name("layers.0.weight", &["momentum_buffer"]), "layers.0.weight.momentum_buffer");
        assert_eq!(slot_name("layers.0.weight", &[]), "layers.0.weight");
        assert_eq!(slot_name("weight.2", &["exp_avg", "exp_avg_sq"]), "weight.2");
    }
}
