//! Causes in the front-ends of models: windows, logarithms, resizing, channels.

use mlx_parity_core::diagnose::CauseKind;

use super::recipe_kit::{RecipeCase, explained};

/// A periodic Hann window of 16 over the last axis.
const WINDOWED: &str = r#"["input",[],{"name":"x"}], ["arange",[],{"start":0,"end":16,"step":1}],
    ["mul",[1,[0.39269908169872414]],{}], ["cos",[2],{}], ["mul",[3,[0.5]],{}], ["sub",[[0.5],4],{}], ["mul",[0,5],{},0,4]"#;

#[test]
fn a_symmetric_window() {
    let case = RecipeCase::new(WINDOWED).input("x", &[5, 16]);
    let found = case.with("0.39269908169872414", "0.41887902047863906");
    let text = explained(&found, CauseKind::Window);
    assert!(
        text.contains("a symmetric Hann window of 16 in place of a periodic Hann window of 16"),
        "{text}"
    );
}

#[test]
fn no_window() {
    let found = RecipeCase::new(WINDOWED).input("x", &[5, 16]).with(r#"["mul",[0,5]"#, r#"["mul",[0,[1.0]]"#);
    explained(&found, CauseKind::LeftOut);
}

const LOGARITHM: &str = r#"["input",[],{"name":"x"}], ["square",[0],{}], ["clamp",[1],{"min":0.01,"max":null},0,2],
    ["log",[2],{},0,3], ["div",[3,[2.302585092994046]],{},0,3], ["max",[4],{"axes":[0,1],"keep":false},0,4],
    ["sub",[5,[0.5]],{},0,4], ["maximum",[4,6],{},0,4]"#;

fn logarithm() -> RecipeCase {
    RecipeCase::new(LOGARITHM).input("x", &[12, 20])
}

#[test]
fn another_base_and_another_guard() {
    let natural = logarithm().with("2.302585092994046", "1.0");
    let text = explained(&natural, CauseKind::Function);
    assert!(text.contains("the natural logarithm in place of the logarithm to base 10"), "{text}");
    let decibels = logarithm().with("2.302585092994046", "0.2302585092994046");
    assert!(explained(&decibels, CauseKind::Function).contains("decibels of a power"), "{decibels:?}");
    let nodes = LOGARITHM.split(", [\"max\"").next().unwrap();
    let case = || RecipeCase::new(nodes).input("x", &[12, 20]);
    let text = explained(&case().with("\"min\":0.01", "\"min\":1.0"), CauseKind::Constant).to_owned();
    assert!(text.contains("`log(max(x, 1))` in place of `log(max(x, 0.01))`"), "{text}");
    let added = r#"["add",[1,[0.01]],{},0,2]"#;
    let found = case().with(r#"["clamp",[1],{"min":0.01,"max":null},0,2]"#, added);
    assert!(explained(&found, CauseKind::Function).contains("`log(x + 0.01)`"), "{found:?}");
}

#[test]
fn a_bound_below_the_largest_number_of_each_row() {
    let found = logarithm().with(r#""axes":[0,1],"keep":false"#, r#""axes":[1],"keep":true"#);
    let text = explained(&found, CauseKind::Axis);
    assert!(text.contains("`max` along axis 1 in place of all axes"), "{text}");
}

const RESIZED: &str = r#"["input",[],{"name":"x"}],
    ["upsample",[0],{"mode":"bicubic","size":[6,5],"align":false,"antialias":true},0,2]"#;

#[test]
fn another_kernel_or_no_antialiasing() {
    let case = || RecipeCase::new(RESIZED).input("x", &[1, 3, 16, 12]);
    let cubic = case().with("\"antialias\":true", "\"antialias\":true,\"cubic\":-0.75");
    assert!(explained(&cubic, CauseKind::Function).contains("a -0.75, with antialias"), "{cubic:?}");
    let rough = case().with("\"antialias\":true", "\"antialias\":false,\"cubic\":-0.5");
    assert!(explained(&rough, CauseKind::Function).contains("a -0.5, without antialias"), "{rough:?}");
    let linear = case().with("bicubic", "bilinear");
    assert!(explained(&linear, CauseKind::Function).contains("bilinear"), "{linear:?}");
    let turned = r#"["flip",[0],{"axes":[1]}], ["upsample",[1]"#;
    let bgr = case().with(r#"["upsample",[0]"#, turned);
    assert!(explained(&bgr, CauseKind::Position).contains("as BGR"), "{bgr:?}");
}

/// The mean and the deviation of ImageNet, as a vector per channel each.
const NORMALISED: &str = r#"["input",[],{"name":"x"}], ["arange",[],{"start":0,"end":3,"step":1}],
    ["eq",[1,[0]],{}], ["eq",[1,[1]],{}], ["where",[3,[0.456],[0.406]],{}], ["where",[2,[0.485],4],{}],
    ["where",[3,[0.224],[0.225]],{}], ["where",[2,[0.229],6],{}], ["sub",[0,5],{},0,2], ["div",[8,7],{},0,2]"#;

#[test]
fn the_mean_of_another_model_or_of_channels_in_the_other_order() {
    let case = || RecipeCase::new(NORMALISED).input("x", &[8, 8, 3]);
    let backwards = case()
        .with("[0.456],[0.406]],{}], [\"where\",[2,[0.485]", "[0.456],[0.485]],{}], [\"where\",[2,[0.406]");
    assert!(
        explained(&backwards, CauseKind::Constant).contains("the mean of the channels in the reverse order"),
        "{backwards:?}"
    );
    let half =
        case().with("[0.456],[0.406]],{}], [\"where\",[2,[0.485]", "[0.5],[0.5]],{}], [\"where\",[2,[0.5]");
    assert!(explained(&half, CauseKind::Constant).contains("the mean 0.5, 0.5, 0.5 (one half)"), "{half:?}");
}

#[test]
fn padding_on_one_side() {
    let nodes = r#"["input",[],{"name":"x"}],
        ["pad",[0],{"pads":[[0,0],[3,3]],"mode":"reflect","value":0},0,2], ["mul",[1,[2.0]],{},0,3]"#;
    let case = || RecipeCase::new(nodes).input("x", &[4, 20]);
    let zeros = case().with("\"reflect\"", "\"constant\"");
    assert!(explained(&zeros, CauseKind::Function).contains("pad constant"), "{zeros:?}");
    let before = case().with("[3,3]],\"mode\":\"reflect\"", "[6,0]],\"mode\":\"constant\"");
    let text = explained(&before, CauseKind::Constant);
    assert!(text.contains("all padding before the elements by a constant"), "{text}");
}
