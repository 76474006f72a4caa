//! Time and memory of a search in large stages. Only memory is checked, because time depends on the machine.

#![cfg(target_os = "linux")]

use std::time::Instant;

use mlx_parity_core::diagnose::RecipeUse;

use super::recipe_kit::RecipeCase;

const MIB: u64 = 1 << 20;

/// Resident memory, or its peak since it was last reset.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Searches for a cause that does not exist, which takes longest, and prints time and memory.
fn search(name: &str, case: RecipeCase, largest: u64) -> RecipeUse {
    let mut failing = case.failing("\"silu\"", "\"tanh\"");
    // Nothing explains an actual of other numbers.
    let shape = failing.actual.shape().to_vec();
    let mut dice = super::kit::Dice::new(99);
    let values = dice.normals(shape.iter().product());
    failing.actual = super::kit::tensor(failing.actual.dtype(), &shape, &values);
    drop(values);
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before, start) = (memory("VmHWM:"), Instant::now());
    let found = failing.diagnosis();
    let (time, most) = (start.elapsed(), memory("VmHWM:").saturating_sub(before));
    assert!(found.causes.is_empty(), "{:?}", found.causes);
    println!("{name}: {:.2} s, {} MiB, recipe {:?}", time.as_secs_f64(), most / MIB, found.recipe);
    assert!(most < 4 * largest, "{most} bytes");
    found.recipe
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_search_in_large_stages_is_bounded() {
    let nodes = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"w"}], ["mul",[0,1],{}], ["silu",[2],{}], ["add",[3,0],{}]"#;
    let case = RecipeCase::new(nodes).input("x", &[1, 16384, 1024]).weight("w", &[1024]);
    assert_eq!(search("64 MiB", case, 64 * MIB), RecipeUse::Part);
    let nodes =
        r#"["input",[],{"name":"x"}], ["weight",[],{"name":"w"}], ["linear",[0,1],{}], ["silu",[2],{}]"#;
    let case = RecipeCase::new(nodes).input("x", &[1, 1024, 1024]).weight("w", &[1024, 1024]);
    assert_eq!(search("2 GFLOP", case, 64 * MIB), RecipeUse::Part);
    let nodes = r#"["input",[],{"name":"x"}], ["weight",[],{"name":"w"}],
        ["conv",[0,1],{"stride":[1,1],"padding":[[1,1],[1,1]],"dilation":[1,1],"groups":1}], ["silu",[2],{}]"#;
    let case = RecipeCase::new(nodes).input("x", &[1, 128, 96, 96]).weight("w", &[96, 128, 3, 3]);
    assert_eq!(search("convolution of 2 GFLOP", case, 64 * MIB), RecipeUse::Part);
}
