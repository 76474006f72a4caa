//! The Rust samples of the guide. A test of `mlx-parity-cli` requires that each Rust sample in `docs/src` is in this file, line
//! by line, so that it compiles; most of them also run here.

use std::error::Error;
use std::time::{Duration, Instant};

use half::bf16;
use mlx_rs::module::{Module, ModuleParameters};
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, nn};

type Tested = Result<(), Box<dyn Error>>;

/// Numbers from 0, in this shape.
fn counted(shape: &[i32]) -> Array {
    let count: i32 = shape.iter().product();
    Array::from_slice(&(0..count).map(|value| value as f32).collect::<Vec<_>>(), shape)
}

#[test]
fn shapes_are_known_before_evaluation() -> Tested {
    let x = counted(&[2, 3]);
    let y = x.square()?.sum_axis(-1, true)?; // a graph: nothing is computed yet
    println!("{:?} {:?}", y.shape(), y.dtype()); // known from the graph
    y.eval()?; // now it is computed
    assert_eq!(y.shape(), [2, 1]);
    assert_eq!(y.to_vec_exact::<f32>()?, [5.0, 50.0]);
    Ok(())
}

#[test]
fn a_view_must_be_made_contiguous_before_its_values_are_read() -> Tested {
    let chw = counted(&[3, 4, 5]);
    let hwc = chw.transpose_axes(&[1, 2, 0])?; // a view: the bytes are still in the order c, h, w
    assert!(hwc.try_as_slice::<f32>().is_err()); // NotContiguous

    let pixels = hwc.contiguous()?.to_vec_exact::<f32>()?;
    assert_eq!(pixels[..3], [0.0, 20.0, 40.0]);
    Ok(())
}

#[test]
fn an_index_must_be_checked() -> Tested {
    let sigmas = counted(&[10]);
    let beyond = sigmas.try_index(1000)?; // no error; evaluated, it is whatever lies after the array
    let short = sigmas.try_index(5..1000)?; // no error: the range ends at 10
    assert_eq!(short.shape(), [5]);
    assert!(beyond.shape().is_empty());

    let step = 9;
    assert!(step < sigmas.dim(0), "step {step} of {} sigmas", sigmas.dim(0));
    let sigma = sigmas.try_index(step)?;
    assert_eq!(sigma.item_exact::<f32>(), 9.0);
    Ok(())
}

#[test]
fn a_scalar_promotes_bfloat16() -> Tested {
    let x = Array::from_slice(&[bf16::ONE], &[1]);
    assert_eq!((&x * 0.5).dtype(), Dtype::Float32); // in Python this stays bfloat16

    let half = Array::from_f32(0.5).as_dtype(x.dtype())?;
    assert_eq!((&x * &half).dtype(), Dtype::Bfloat16);
    Ok(())
}

#[test]
fn all_close_broadcasts() -> Tested {
    let (one, four) = (Array::from_slice(&[1.0f32], &[1]), Array::from_slice(&[1.0f32; 4], &[4]));
    assert!(one.all_close(&four, 1e-5, 1e-8, None)?); // the shapes differ, and it is true
    assert_ne!(one.shape(), four.shape()); // so compare shapes and dtypes first
    Ok(())
}

#[test]
fn memory_is_measured_after_evaluation() -> Tested {
    use mlx_rs::memory;

    memory::reset_peak_memory()?;
    let y = counted(&[64, 64]).square()?;
    y.eval()?; // otherwise nothing has been allocated
    println!("active {} B", memory::active_memory()?);
    println!("peak   {} B", memory::peak_memory()?);
    println!("cache  {} B", memory::cache_memory()?);
    memory::clear_cache()?; // gives freed buffers back to the system
    assert!(memory::peak_memory()? > 0);
    Ok(())
}

#[test]
fn the_size_of_a_model_is_the_size_of_its_parameters() -> Tested {
    let model = nn::Linear::new(8, 4)?;
    let parameters = model.parameters().flatten();
    let count: usize = parameters.values().map(|array| array.size()).sum();
    let bytes: usize = parameters.values().map(|array| array.nbytes()).sum();
    println!("{count} parameters, {bytes} bytes");
    assert_eq!((count, bytes), (36, 144));
    Ok(())
}

#[test]
fn a_time_includes_evaluation_and_excludes_the_first_run() -> Tested {
    let mut model = nn::Linear::new(8, 4)?;
    let x = counted(&[2, 8]);
    let mut times = Vec::new();
    for _ in 0..6 {
        x.eval()?; // earlier work must not count
        let start = Instant::now();
        model.forward(&x)?.eval()?;
        times.push(start.elapsed());
    }
    times.remove(0); // kernels are compiled and caches are filled in the first run
    times.sort();
    let median: Duration = times[times.len() / 2];
    assert_eq!((times.len(), times.contains(&median)), (5, true));
    Ok(())
}

#[test]
fn the_next_step_is_built_before_the_last_one_is_awaited() -> Tested {
    use mlx_rs::transforms::async_eval;

    let step = |x: &Array| x.add(Array::from_f32(1.0));
    let mut token = step(&counted(&[1]))?;
    async_eval([&token])?;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let next = step(&token)?; // 1. build the next graph
        async_eval([&next])?; // 2. start it
        seen.push(token.item_exact::<f32>()); // 3. only now wait for this one
        token = next;
    }
    assert_eq!(seen, [1.0, 2.0, 3.0]);
    Ok(())
}

#[test]
fn heads_are_split_by_reshape_and_then_transpose() -> Tested {
    let (batch, tokens, heads, head_dim) = (1, 2, 2, 3);
    let x = counted(&[batch, tokens, heads * head_dim]);
    let right = x.reshape(&[batch, tokens, heads, head_dim])?.transpose_axes(&[0, 2, 1, 3])?;
    let wrong = x.reshape(&[batch, heads, tokens, head_dim])?; // the same shape, other elements
    assert_eq!(right.shape(), wrong.shape());
    assert!(!right.eq_exact(&wrong)?);
    Ok(())
}

#[expect(unreachable_pub, reason = "a page of the guide shows this function as a model would export it")]
mod modulation {
    use mlx_rs::Array;
    use mlx_rs::error::Exception;

    /// `(1 + scale) * normed + shift`, with the chunks in the order shift, scale, gate.
    pub fn modulate(normed: &Array, chunks: &[Array]) -> Result<Array, Exception> {
        let [shift, scale, _gate] = chunks else {
            return Err(Exception::custom("expected shift, scale and gate"));
        };
        let one = Array::from_f32(1.0).as_dtype(scale.dtype())?;
        normed.multiply(scale.add(one)?)?.add(shift)
    }
}

#[test]
fn modulation_adds_one_to_the_scale() -> Tested {
    let normed = counted(&[1, 2]);
    let chunks = counted(&[1, 6]).split_equal(3, -1)?;
    let modulated = modulation::modulate(&normed, &chunks)?;
    assert_eq!(modulated.to_vec_exact::<f32>()?, [0.0, 1.0 + 4.0]);
    Ok(())
}

mod taps {
    use mlx_parity_tap::tap;
    use mlx_rs::error::Exception;
    use mlx_rs::module::Module;
    use mlx_rs::{Array, nn};

    /// What the samples call.
    #[derive(Debug)]
    pub(super) struct Attention {
        norm: nn::RmsNorm,
        q_proj: nn::Linear,
        blocks: Vec<nn::Linear>,
        heads: i32,
    }

    #[expect(dead_code, reason = "the samples only have to compile")]
    impl Attention {
        fn first_taps(&mut self, x: &Array) -> Result<Array, Exception> {
            let mut x = x.clone();
            use mlx_parity_tap::{scope, tap};

            let normed = tap("norm", self.norm.forward(&x)?)?;
            for (i, block) in self.blocks.iter_mut().enumerate() {
                let _scope = scope("blocks", i); // taps inside are `blocks.0.…`, `blocks.1.…`
                x = tap("out", block.forward(&x)?)?;
            }
            x.add(normed)
        }

        fn rotation(
            &mut self,
            x: &Array,
            rope: impl Fn(&Array) -> Result<Array, Exception>,
        ) -> Result<Array, Exception> {
            let (batch, tokens) = (x.dim(0), x.dim(1));
            let q = self.q_proj.forward(x)?; // [batch, tokens, heads * head_dim]
            let q = q.reshape(&[batch, tokens, self.heads, -1])?.transpose_axes(&[0, 2, 1, 3])?;
            let q = tap("q_heads", q)?; // [batch, heads, tokens, head_dim]: what rope sees
            let q = tap("q_rope", rope(&q)?)?;
            Ok(q)
        }

        fn residual(&mut self, x: &Array, block: &mut nn::Linear) -> Result<Array, Exception> {
            let mlp_in = tap("mlp.in", self.norm.forward(x)?)?;
            let mlp_out = tap("mlp.out", block.forward(&mlp_in)?)?;
            let x = tap("after_mlp", x.add(mlp_out)?)?;
            Ok(x)
        }
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod suite {
    use parity_tests::gated_mlp::Block;

    use std::process::ExitCode;

    use mlx_parity::Suite;

    fn main() -> ExitCode {
        Suite::new(".", "parity-specs", "fixtures") // relative to the package
            .port("my_model::block", |run| {
                let mut block = Block::new(run.params()?)?; // the spec's `reference.params`
                run.weights()?.load_into(&mut block)?; // strict: every weight, its shape and its kind
                block.forward(&run.input("x")?)?;
                Ok(())
            })
            .main()
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod suite_of_a_member {
    use mlx_parity::Suite;

    fn suite() -> Suite {
        Suite::new("../..", "parity-specs", "fixtures")
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod training {
    use mlx_parity::{PortResult, Run};
    use mlx_parity_tap::tap;
    use mlx_rs::error::Exception;
    use mlx_rs::module::Module;
    use mlx_rs::optimizers::{AdamW, Optimizer};
    use mlx_rs::{Array, nn};

    fn step(run: &Run, mut model: nn::Linear, mut optimizer: AdamW) -> PortResult {
        let x = run.input("x")?;
        let loss = |model: &mut nn::Linear, x: &Array| -> Result<Array, Exception> {
            tap("loss", model.forward(x)?.square()?.mean(None)?)
        };
        let (_, gradients) = nn::value_and_grad(loss)(&mut model, &x)?;
        let gradients = run.gradients(&gradients)?;
        optimizer.update(&mut model, gradients)?;
        run.state_after(&mut optimizer, &["exp_avg", "exp_avg_sq"])?;
        run.parameters_after(&mut model)?;
        Ok(())
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod adapters {
    use mlx_parity::{PortResult, Run};
    use parity_tests::training::LoraModel;

    fn apply(run: &Run) -> PortResult {
        let mut model = LoraModel::new(&run.params()?)?;
        run.weights()?.load_into(&mut model)?;
        run.adapters()?.load_into(&mut model)?;
        model.forward(&run.input("input_ids")?)?;
        Ok(())
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod commands {
    use std::process::ExitCode;

    use mlx_parity_cli::Project;

    fn main() -> ExitCode {
        Project::new("..", "parity-specs", "fixtures").main()
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod faults {
    use mlx_parity::{PortResult, Run, Suite};

    fn block(run: &Run) -> PortResult {
        run.input("x")?;
        Ok(())
    }

    fn faulty(suite: Suite) -> Suite {
        suite
            // The port as it is.
            .port("my_model::block", block)
            .port("my_model::block/velocity_sign", |run| {
                run.plant_fault("velocity", |x| x.negative());
                block(run)
            })
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod twins {
    use mlx_parity::{PortResult, Run, Suite};

    fn decode(run: &Run, _pads: usize) -> PortResult {
        run.input("input_ids")?;
        Ok(())
    }

    fn with_twins(suite: Suite) -> Suite {
        suite
            .port("llama::decoder", |run| decode(run, 0))
            .twin("llama::decoder", "padded", |run| decode(run, 2))
    }
}

#[expect(dead_code, reason = "the samples only have to compile")]
mod caches {
    use mlx_parity_tap::{scope, tap};
    use mlx_rs::error::Exception;
    use parity_tests::cache::State;

    fn tapped(state: State) -> Result<State, Exception> {
        let _scope = scope("cache", None);
        let state = State {
            positions: tap("positions", state.positions)?,
            keys: tap("keys", state.keys)?,
            values: tap("values", state.values)?,
        };
        Ok(state)
    }
}

mod params {
    #[derive(serde::Deserialize)]
    struct Config {
        dim: i32,
        layers: usize,
        eps: f32,
    }

    #[test]
    fn params_fill_a_struct() -> super::Tested {
        let config: Config = serde_json::from_str(r#"{"dim": 64, "layers": 2, "eps": 1e-6}"#)?;
        assert_eq!((config.dim, config.layers, config.eps), (64, 2, 1e-6));
        Ok(())
    }
}
