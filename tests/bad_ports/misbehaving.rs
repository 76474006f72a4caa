//! Ports that misbehave, one per way to do so: they compute something wrong, crash, hang, print, or change files. The end-to-end
//! tests run them and expect each to be caught. `right` is the one that does not misbehave.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::{Module, ModuleParameters};
use mlx_rs::optimizers::{Optimizer, Sgd};
use mlx_rs::{Array, Dtype, nn, ops, random};
use parity_tests::gated_mlp::Block;

/// Registers all ports of this file.
pub(crate) fn ports(suite: Suite) -> Suite {
    let mut suite = suite
        .port("right", |run| forward(run, |_, array| Ok(array)))
        .port("wrong_eps", |run| {
            let mut block = Block::new(run.params()?)?;
            run.weights()?.load_into(&mut block)?;
            block.norm.eps = 1e-5; // the default of mlx-rs, which PyTorch does not share
            block.forward(&run.input("x")?)?;
            Ok(())
        })
        .port("weight_left", |run| {
            let weights = run.weights()?;
            for name in ["norm.weight", "gate.weight", "up.weight", "down.weight"] {
                weights.get(name)?;
            }
            forward_without_weights(run)
        })
        // `gate` keeps the weights that its constructor drew; all others are loaded.
        .port("gate_not_loaded", |run| {
            let (mut block, weights) = (Block::new(run.params()?)?, run.weights()?);
            block.norm.weight.value = weights.get("norm.weight")?;
            block.up.weight.value = weights.get("up.weight")?;
            block.down.weight.value = weights.get("down.weight")?;
            block.down.bias.value = Some(weights.get("down.bias")?);
            block.forward(&run.input("x")?)?;
            Ok(())
        })
        .port("weight_invented", |run| {
            run.weights()?.get("down.scale")?;
            Ok(())
        })
        .port("input_unused", |run| {
            run.weights()?.load_into(&mut Block::new(run.params()?)?)?;
            forward_without_weights(run)
        })
        .port("module", |run| {
            let mut block = Block::new(run.params()?)?;
            run.weights()?.load_into(&mut block)?;
            block.forward(&run.input("x")?)?;
            Ok(())
        })
        .port("quantized", |run| {
            let mut layers = Layers { q: nn::QuantizedLinearBuilder::new(64, 8).bias(true).build()? };
            run.weights()?.load_into(&mut layers)?;
            tap("out", layers.q.forward(&ops::ones::<f32>(&[1, 64])?)?)?;
            Ok(())
        })
        .port("reordered", |run| {
            let mut late = Vec::new();
            forward_by(run, |name, x| {
                late.push((name.to_owned(), x.clone()));
                Ok(x)
            })?;
            late.rotate_right(1);
            late.into_iter().try_for_each(|(name, x)| tap(&name, x).map(drop))?;
            Ok(())
        })
        // A step of SGD also changes the norm.
        .port("trains", |run| {
            let mut block = Block::new(run.params()?)?;
            run.weights()?.load_into(&mut block)?;
            block.norm.freeze_parameters(true);
            let (_, gradients) = nn::value_and_grad(mean_square)(&mut block, &run.input("x")?)?;
            let gradients = run.gradients(&gradients)?;
            Sgd::new(0.1).update(&mut block, gradients)?;
            block.norm.weight.value = block.norm.weight.value.add(Array::from_f32(1.0))?;
            run.parameters_after(&mut block)?;
            Ok(())
        })
        .port("differentiated", |run| differentiated(run, 1e-6))
        .port("differentiated_eps", |run| differentiated(run, 1e-5))
        .port("changed_tap", |run| {
            run.plant_fault("gated", |x| x.multiply(Array::from_f32(1.01)));
            forward(run, |_, array| Ok(array))
        })
        .port("changed_tap_twice", |run| {
            run.plant_fault("gated", |x| x.multiply(Array::from_f32(1.01)));
            run.plant_fault("gated", Ok);
            forward(run, |_, array| Ok(array))
        })
        .port("changed_tap_never_met", |run| {
            run.plant_fault("gatd", Ok);
            forward(run, |_, array| Ok(array))
        })
        .port("changed_tap_fails", |run| {
            run.plant_fault("gated", |x| x.reshape(&[7]));
            forward(run, |_, array| Ok(array))
        })
        // Aborts if somebody changed its norm.
        .port("fragile", |run| {
            forward_by(run, |name, x| {
                let met = tap(name, x.clone())?;
                if name == "norm" && !met.eq_values(&x)? {
                    std::process::abort();
                }
                Ok(met)
            })
        })
        // The tapped array is far too large to be evaluated, and is not used.
        .port("huge", |run| {
            forward_by(run, |name, x| {
                let huge = || ops::ones::<f32>(&[60_000, 60_000]);
                tap(name, if name == "gated" { huge()? } else { x.clone() })?;
                Ok(x)
            })
        })
        .port("compiled", |run| {
            forward_by(run, |name, x| {
                if name != "gated" {
                    return Ok(tap(name, x)?);
                }
                let doubled = |x: &Array| tap("gated", x.multiply(Array::from_f32(2.0))?);
                Ok(mlx_rs::transforms::compile::compile(doubled, None)(&x)?)
            })
        })
        .port("metric", |run| {
            run.metric("generation_tps", 81.5);
            forward(run, |_, array| Ok(array))
        })
        // Taps that are all ones, and grow from `deep.100` on.
        .port("long_chain", |run| {
            forward(run, |_, array| Ok(array))?;
            let mut x = ops::ones::<f32>(&[2])?;
            for i in 0..165 {
                let _scope = scope("deep", None);
                x = if i >= 100 { x.add(Array::from_f32(1.0))? } else { x };
                x = tap(&i.to_string(), x)?;
            }
            Ok(())
        })
        // Three blocks with a scope inside, and a tap after them.
        .port("scoped", |run| {
            forward(run, |_, array| Ok(array))?;
            let mut x = ops::zeros::<f32>(&[2])?;
            for i in 0..3 {
                let _block = scope("blocks", i);
                x = x.add(Array::from_f32(1.0))?;
                {
                    let _attention = scope("attn", None);
                    x = tap("q", x)?;
                    tap("undeclared", x.clone())?;
                }
                x = tap("out", x)?;
            }
            tap("end", x)?;
            Ok(())
        })
        // One tap, again and again.
        .port("loops", |run| {
            forward(run, |_, array| Ok(array))?;
            let x = ops::ones::<f32>(&[64, 64])?;
            for i in 0..1200 {
                tap("loop", x.multiply(Array::from_f32(i as f32))?)?;
            }
            Ok(())
        })
        // Fails in the first of two layers. The spec declares each tap of both layers in one line.
        .port("fails_in_a_layer", |run| {
            forward(run, |_, array| Ok(array))?;
            for layer in 0..2 {
                let _scope = scope("layers", Some(layer));
                for name in ["q", "k", "v"] {
                    assert_ne!(name, "v", "no such head");
                    tap(name, ops::ones::<f32>(&[2])?)?;
                }
            }
            Ok(())
        })
        .port("fails_at_once", |_| Err("missing field `rope_theta`".into()))
        .port("prints", |run| {
            println!("printed by the port");
            forward(run, |_, array| Ok(array))
        });
    if let Some(folder) = std::env::var_os("BAD_PORTS_SNAPSHOTS") {
        suite = suite.snapshots(folder);
    }
    for (name, fault) in FAULTS {
        suite = suite.port(*name, move |run| forward(run, *fault));
    }
    suite
}

/// Receives the name of a tap and its array, and returns the array to tap.
type Fault = fn(&str, Array) -> Met;

const FAULTS: &[(&str, Fault)] = &[
    ("scaled", |name, x| Ok(if name == "gated" { x.multiply(Array::from_f32(1.01))? } else { x })),
    ("scaled_norm", |name, x| Ok(if name == "norm" { x.multiply(Array::from_f32(1.01))? } else { x })),
    // Six floors, where eight are allowed.
    ("scaled_below_the_gate", |name, x| {
        Ok(if name == "norm" { x.multiply(Array::from_f32(1.0 + 3.0 * f32::EPSILON))? } else { x })
    }),
    ("scaled_little", |name, x| Ok(if name == "gated" { x.multiply(Array::from_f32(1.0005))? } else { x })),
    // Right in the first process of a project, and wrong in later ones.
    ("right_once", |name, x| {
        let count = std::env::var_os("BAD_PORTS_COUNT").ok_or("a project counts its workers")?;
        let workers = std::fs::read_to_string(count)?;
        let is_first = workers.lines().next() == Some(&std::process::id().to_string());
        Ok(if name == "norm" && !is_first { x.multiply(Array::from_f32(1.01))? } else { x })
    }),
    // Two mistakes that do not depend on each other, the second in two stages.
    ("scaled_twice", |name, x| match name {
        "norm" => Ok(x.multiply(Array::from_f32(1.01))?),
        "gated" | "out" => Ok(x.add(Array::from_f32(0.5))?),
        _ => Ok(x),
    }),
    ("shape", |name, x| Ok(if name == "gated" { x.reshape(&[6, 48])? } else { x })),
    ("dtype", |name, x| Ok(if name == "gated" { x.as_dtype(Dtype::Bfloat16)? } else { x })),
    ("nan", |name, x| Ok(if name == "gated" { ops::sqrt(&x)? } else { x })),
    // A draw is refused even if it has no effect on the result, which nobody can know.
    ("draws", |name, x| {
        if name == "out" {
            random::normal::<f32>(&[2], None, None, None)?;
            nn::Dropout::new().forward(&x)?;
        }
        Ok(x)
    }),
    ("draws_noise", |name, x| {
        Ok(if name == "out" { x.add(random::normal::<f32>(x.shape(), None, None, None)?)? } else { x })
    }),
    ("draws_with_a_key", |name, x| {
        if name == "out" {
            random::normal::<f32>(&[2], None, None, &random::key(7)?)?;
        }
        Ok(x)
    }),
    ("seeds", |name, x| {
        if name == "out" {
            random::seed(7)?;
        }
        Ok(x)
    }),
    ("strided", |_, x| Ok(x.transpose()?.contiguous()?.transpose()?)),
    ("twice", |name, x| Ok(if name == "gated" { tap("gated", x)? } else { x })),
    ("renamed", |name, x| {
        let _scope = (name == "gated").then(|| scope("mlp", None));
        Ok(if name == "gated" { tap("gatd", x)? } else { x })
    }),
    ("error", |name, x| if name == "out" { Err("error on purpose".into()) } else { Ok(x) }),
    ("mlx_error", |name, x| {
        Ok(if name == "out" { x.matmul(Array::from_slice(&[1f32; 3], &[3]))? } else { x })
    }),
    ("panic", |name, x| {
        assert_ne!(name, "out", "panic on purpose");
        Ok(x)
    }),
    ("abort", |name, x| if name == "out" { std::process::abort() } else { Ok(x) }),
    ("exit", |name, x| if name == "out" { std::process::exit(7) } else { Ok(x) }),
    ("hang", |name, x| {
        if name == "out" {
            loop {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        Ok(x)
    }),
    // Takes as long as somebody wants: it waits until the file `go` appears.
    ("waits", |name, x| {
        while name == "out" && !in_root("go").exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(x)
    }),
    ("tripled", |name, x| Ok(if name == "gated" { x.multiply(Array::from_f32(3.0))? } else { x })),
    ("segfault", |name, x| {
        if name == "out" {
            signal_self("-SEGV")?;
        }
        Ok(x)
    }),
    ("killed", |name, x| {
        if name == "out" {
            signal_self("-KILL")?;
        }
        Ok(x)
    }),
    // Each stage is within its own tolerance, but the errors add up.
    ("drift", |_, x| Ok(x.multiply(Array::from_f32(1.0 + 6e-6))?)),
    ("dies_late", |name, x| {
        thread_local! {
            static LATE: Late = const { Late };
        }
        if name == "out" {
            LATE.with(|_| ());
        }
        Ok(x)
    }),
    ("replaces_golden", |name, x| {
        if name == "norm" {
            let (golden, copy) = (in_root(GOLDENS), in_root("copy.safetensors"));
            std::fs::copy(&golden, &copy)?;
            std::fs::rename(copy, golden)?;
        }
        Ok(x)
    }),
    // Writes the same bytes in place, after every tap was judged.
    ("rewrites_golden", |name, x| {
        if name == "out" {
            let bytes = std::fs::read(in_root(GOLDENS))?;
            std::io::Write::write_all(
                &mut std::fs::OpenOptions::new().write(true).open(in_root(GOLDENS))?,
                &bytes,
            )?;
        }
        Ok(x)
    }),
    ("replaces_spec", |name, x| {
        if name == "norm" {
            let path = in_root("parity-specs/gated_mlp/block.yaml");
            let text = std::fs::read_to_string(&path)?.replace("policy: fp32", "rtol: 1.0, atol: 1.0");
            std::fs::write(path, text)?;
        }
        Ok(x)
    }),
    ("leaves_a_child", |name, x| {
        if name == "out" {
            let child = std::process::Command::new("sleep").arg("600").spawn()?;
            std::fs::write(in_root("child.part"), child.id().to_string())?;
            std::fs::rename(in_root("child.part"), in_root("child"))?;
            loop {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        Ok(x)
    }),
    ("prints_much", |name, x| {
        if name == "out" {
            println!("the first line");
            let line = "x".repeat(1023);
            (0..16 << 10).for_each(|_| println!("{line}"));
            println!("the last line");
        }
        Ok(x)
    }),
    ("kills_its_suite", |name, x| {
        if name == "out" {
            let suite = std::os::unix::process::parent_id().to_string();
            std::process::Command::new("kill").args(["-KILL", &suite]).status()?;
            // The worker ends when it notices that the suite is gone.
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        Ok(x)
    }),
    ("crash_once", |name, x| {
        let again = std::env::var("NEXTEST_ATTEMPT").is_ok_and(|attempt| attempt != "1");
        if name == "out" && !again { std::process::abort() } else { Ok(x) }
    }),
];

const GOLDENS: &str = "fixtures/gated_mlp/block/goldens.safetensors";

/// A file of the project; its root is relative to the package.
fn in_root(file: &str) -> std::path::PathBuf {
    let folder = |name| std::env::var_os(name).map(std::path::PathBuf::from).unwrap_or_default();
    folder("CARGO_MANIFEST_DIR").join(folder("BAD_PORTS_ROOT")).join(file)
}

/// A model with one quantised layer.
#[derive(Debug, ModuleParameters)]
struct Layers {
    #[param]
    q: nn::QuantizedLinear,
}

/// Aborts when the main thread's storage is torn down.
struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Sends this process a signal, as a crash in native code would. Twice, since Rust handles the first SIGSEGV itself.
fn signal_self(signal: &str) -> std::io::Result<()> {
    for _ in 0..2 {
        std::process::Command::new("kill").args([signal, &std::process::id().to_string()]).status()?;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    Ok(())
}

/// Runs the block; `fault` changes the array of each tap.
fn forward(run: &Run, fault: Fault) -> PortResult {
    forward_by(run, |name, array| {
        let array = fault(name, array)?;
        let untapped = std::env::var("BAD_PORTS_UNTAPPED").is_ok_and(|untapped| untapped == name);
        Ok(if untapped { array } else { tap(name, array)? })
    })
}

type Met = Result<Array, Box<dyn std::error::Error + Send + Sync>>;

/// Runs the block with plain operations, and calls `meet` where it has taps.
pub(crate) fn forward_by(run: &Run, mut meet: impl FnMut(&str, Array) -> Met) -> PortResult {
    if let Some(path) = std::env::var_os("BAD_PORTS_COUNT") {
        let mut count = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        std::io::Write::write_all(&mut count, format!("{}\n", std::process::id()).as_bytes())?;
    }
    let weights = run.weights()?;
    let weight = |name: &str| weights.get(name);
    let linear =
        |x: &Array, name: &str| -> Met { Ok(x.matmul(weight(&format!("{name}.weight"))?.transpose()?)?) };
    let x = run.input("x")?;
    let normed = meet("norm", mlx_rs::fast::rms_norm(&x, Some(&weight("norm.weight")?), 1e-6)?)?;
    let gated = nn::silu(linear(&normed, "gate")?)?.multiply(linear(&normed, "up")?)?;
    let gated = meet("gated", gated)?;
    let down =
        linear(&gated.reshape(&[1, 6, 48])?.as_dtype(Dtype::Float32)?, "down")?.add(weight("down.bias")?)?;
    meet("out", x.add(down)?)?;
    Ok(())
}

/// Reaches every tap, but takes no weight and no input.
fn forward_without_weights(_: &Run) -> PortResult {
    for name in ["norm", "gated", "out"] {
        tap(name, Array::from_f32(0.0))?;
    }
    Ok(())
}

fn mean_square(block: &mut Block, x: &Array) -> Result<Array, Exception> {
    block.forward(x)?.square()?.mean(None)
}

/// The block inside `value_and_grad`. It fails if no gradient flows from the loss through its taps.
fn differentiated(run: &Run, eps: f32) -> PortResult {
    let mut block = Block::new(run.params()?)?;
    run.weights()?.load_into(&mut block)?;
    block.norm.eps = eps;
    let (_, gradients) = nn::value_and_grad(mean_square)(&mut block, &run.input("x")?)?;
    if !gradients["norm.weight"].any(None)?.item_exact::<bool>() {
        return Err("no gradient reaches the norm".into());
    }
    Ok(())
}
