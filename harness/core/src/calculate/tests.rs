use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::tensor::{Dtype, Tensor};

fn tensor(shape: &[usize], values: &[f64]) -> Tensor {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor::from_vec(Dtype::Float64, shape.to_vec(), bytes).unwrap()
}

fn tensors() -> BTreeMap<String, Tensor> {
    let numbers: Vec<f64> = (0..24).map(f64::from).collect();
    let off: Vec<f64> = numbers.iter().map(|x| x + if *x == 17.0 { 0.5 } else { 0.0 }).collect();
    [
        ("golden", tensor(&[2, 3, 4], &numbers)),
        ("actual", tensor(&[2, 3, 4], &off)),
        ("blocks.0.out", tensor(&[2], &[3.0, 4.0])),
        ("probs", tensor(&[2, 2], &[0.5, 0.5, 1.0, 0.0])),
        ("none", tensor(&[0, 3], &[])),
    ]
    .into_iter()
    .map(|(name, tensor)| (name.to_owned(), tensor))
    .collect()
}

fn run(text: &str) -> Result<Vec<Answer>, CalculateError> {
    let tensors = tensors();
    let answers = Calculator::new(&tensors, Limits { steps: 1 << 24, bytes: 1 << 20 }).run(text);
    // What can be evaluated is also an expression for somebody who does not know the tensors.
    assert!(answers.is_err() || check_syntax(text).is_ok(), "{text}");
    answers
}

#[track_caller]
fn check(text: &str, shape: &[usize], values: &[f64]) {
    let answers = run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let value = &answers.last().unwrap().value;
    assert_eq!(value.shape(), shape, "{text}");
    for (found, expected) in value.values().iter().zip(values) {
        let is_near = (found - expected).abs() <= 1e-14 * expected.abs();
        assert!(
            is_near || found == expected || found.is_nan() && expected.is_nan(),
            "{text}: {found} {expected}"
        );
    }
    assert_eq!(value.values().len(), values.len(), "{text}");
}

#[track_caller]
fn number(text: &str, expected: f64) {
    check(text, &[], &[expected]);
}

/// The values are NumPy 2's.
#[test]
fn values_are_those_of_numpy() {
    number("abs(actual - golden)[1, :, 1].max()", 0.5);
    number("abs(actual - golden).argmax()", 17.0);
    number("(actual - golden).sum()", 0.5);
    number("golden.mean()", 11.5);
    number("golden.std()", 6.922186552431729);
    number("golden.std(ddof=1)", 7.0710678118654755);
    number("var(golden)", 47.916666666666664);
    number("norm(golden)", 65.75712889109438);
    number("cosine(golden, actual)", 0.9999731305420602);
    number("golden.median()", 11.5);
    number("quantile(golden, 0.9)", 20.7);
    check("golden.max(axis=[0, 2])", &[3], &[15.0, 19.0, 23.0]);
    check("golden.mean(axis=-1)", &[2, 3], &[1.5, 5.5, 9.5, 13.5, 17.5, 21.5]);
    check("golden.sum(0, keepdims=true).shape", &[3], &[1.0, 3.0, 4.0]);
    check("golden[0, :, 3]", &[3], &[3.0, 7.0, 11.0]);
    check("golden[..., -1][1]", &[3], &[15.0, 19.0, 23.0]);
    check("golden[0, 0, ::-1]", &[4], &[3.0, 2.0, 1.0, 0.0]);
    check("golden[0, 0, -2:0:-1]", &[2], &[2.0, 1.0]);
    check("golden[0, 0, 1:100:2]", &[2], &[1.0, 3.0]);
    check("golden[1, 2, 3:1]", &[0], &[]);
    check("golden[0].T", &[4, 3], &[0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
    check("golden.transpose(2, 0, 1).shape", &[3], &[4.0, 2.0, 3.0]);
    check("golden.permute([2, 0, 1]).reshape(-1)[:3]", &[3], &[0.0, 4.0, 8.0]);
    check("reshape(golden, 4, -1)[3]", &[6], &[18., 19., 20., 21., 22., 23.]);
    check("golden.first(3)", &[3], &[0.0, 1.0, 2.0]);
    check("golden.first(99).shape", &[1], &[24.0]);
    check("entropy(probs)", &[2], &[std::f64::consts::LN_2, 0.0]);
    // Not -0, which would be printed.
    check("1 / entropy([1, 0])", &[], &[f64::INFINITY]);
    check("softmax([0, 0])", &[2], &[0.5, 0.5]);
    check("[1, 2] @ [[3], [4]]", &[1], &[11.0]);
    check("where(golden[0, 0] > 1, 1, -1)", &[4], &[-1.0, -1.0, 1.0, 1.0]);
    check("golden[0, 0] * [[1], [2]]", &[2, 4], &[0., 1., 2., 3., 0., 2., 4., 6.]);
    check("none.sum(axis=0)", &[3], &[0.0; 3]);
}

#[test]
fn operators_bind_as_in_python() {
    number("-2 ** 2", -4.0);
    number("2 ** 3 ** 2", 512.0);
    number("2 ** -1", 0.5);
    number("1 - 2 - 3", -4.0);
    number("12 / 2 / 3", 2.0);
    number("1 + 2 * 3 % 2", 1.0);
    number("1 + 1 < 3 & 2 == 2 | 0", 1.0);
    number("!(1 > 2)", 1.0);
    number("1e3 + .5 + 1_000", 2000.5);
    number("log(e) + inf * 0 == nan", 0.0);
    number("1 / 0", f64::INFINITY);
}

#[test]
fn lines_and_variables() {
    number("d = actual - golden # the error\n\nabs(\n  d\n).max() * 0 + 2; d.max()", 0.5);
    let answers = run("a = 1; a + 1; b = a * 4").unwrap();
    let shown: Vec<String> = answers.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["a + 1 = 2", "b = 4"]);
    number("max(\n  golden,\n)", 23.0);
}

#[test]
fn dotted_names_are_tensors_if_they_exist() {
    number("blocks.0.out.norm()", 5.0);
    number("`blocks.0.out`.max() + \"blocks.0.out\"[0]", 7.0);
    let tensors = tensors();
    let mut calculator = Calculator::new(&tensors, Limits::default());
    calculator.run("kept = blocks.0.out").unwrap();
    assert_eq!(calculator.run("kept.sum()").unwrap()[0].value.values(), [7.0]);
    assert_eq!(calculator.slice("golden", "0, :, 3").unwrap().values(), [3.0, 7.0, 11.0]);
    let error = calculator.slice("golden", "0, 5").unwrap_err();
    assert_eq!((error.column, &*error.message), (4, "index 5 is outside axis 1, which has length 3"));
}

#[track_caller]
fn fails(text: &str, column: usize, message: &str) {
    let error = run(text).map(|answers| answers[0].to_string()).expect_err(text);
    assert_eq!((error.column, &*error.message), (column, message), "{text}");
}

#[test]
fn errors_name_the_column_and_what_is_allowed() {
    fails("abs(actual - glden)", 14, "unknown name `glden`, did you mean `golden`?");
    fails("golden.maxx()", 8, "unknown function `maxx`, did you mean `max`?");
    fails("golden.max(axes=1)", 12, "`max` has no parameter `axes`, did you mean `axis`?");
    fails("golden.max(axis=3)", 17, "axis 3 does not exist in shape [2, 3, 4]");
    fails("golden[2]", 8, "index 2 is outside axis 0, which has length 2");
    fails("golden[0, 0, 0, 0]", 1, "4 indices into shape [2, 3, 4]");
    fails("golden[..., ...]", 13, "an index has a second `...`");
    fails("golden[::0]", 8, "the step is 0");
    fails("golden[0.5]", 8, "found 0.5, expected a whole number");
    fails("golden + probs", 1, "shapes [[2, 3, 4], [2, 2]] do not broadcast");
    fails("golden.reshape(5, -1)", 1, "shape [2, 3, 4] cannot become [5, -1]");
    fails(
        "golden.reshape(99999999999, 99999999999)",
        1,
        "shape [2, 3, 4] cannot become [99999999999, 99999999999]",
    );
    fails("1 +", 4, "found the end, expected a tensor, a number, a function or `(`");
    fails("(1 + 2", 7, "found the end, expected an operator or `)`");
    fails("1 2", 3, "found the number 2, expected an operator, `;` or the end of the line");
    fails("1 < 2 < 3", 7, "found `<`, expected `&`, or parentheses around one comparison");
    fails("", 1, "the expression is empty");
    fails("golden $ 1", 8, "unexpected character `$`");
    fails("golden = 1", 1, "`golden` is a tensor");
    fails("max", 1, "`max` is a function, and needs parentheses");
    fails("1e999", 1, "the number is too large for float64");
    fails("`golden", 1, "the name has no closing `");
    fails("none.max()", 1, "a group without elements has no extremes");
    fails("cosine(golden, probs)", 1, "`cosine` of shapes [2, 3, 4] and [2, 2]");
    let error = run("a = 1\nabs(ä + glden)").unwrap_err();
    assert_eq!((error.line, error.column), (2, 5));
    assert_eq!(
        run("abs(actual - glden)").unwrap_err().to_string(),
        "unknown name `glden`, did you mean `golden`?\n\
         1 | abs(actual - glden)\n\
         \u{20} |              ^^^^^ column 14\n\
         allowed: `actual`, `blocks.0.out`, `golden`, `none`, `probs`"
    );
}

#[test]
fn hostile_texts_end_in_errors() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
    for text in [
        deep("(", ")"),
        deep("[", "]"),
        deep("-", ""),
        deep("abs(", ")"),
        deep("", "[0]"),
        deep("", ".max()"),
        deep("1**", ""),
        deep("1+", ""),
        deep("", "+1"),
    ] {
        let error = run(&text).map(|_| ()).unwrap_err();
        assert!(error.message.contains("levels") || error.message.contains("bytes"), "{}", error.message);
        assert!(error.to_string().len() < 1000);
    }
    let message = |text: &str| run(text).map(|_| ()).unwrap_err().message;
    assert!(run(&format!("{}1", "1+".repeat(40_000))).is_err());
    // A tower of outer products grows until the memory ends.
    let grow = "a = golden.reshape(-1, 1) * golden.flatten(); b = a.reshape(-1, 1) * a.flatten(); b.sum()";
    assert!(message(grow).starts_with("this needs"), "{}", message(grow));
    let long = format!("a = golden; {}", "a.sum();".repeat(8_000));
    assert!(run(&long).is_ok() || message(&long).contains("steps"));
    let work = "a = (golden.reshape(-1, 1) * golden.flatten()).flatten(); ".to_owned()
        + &"x = exp(a);".repeat(2_000);
    assert_eq!(message(&work), "the expression takes more steps than are allowed");
}

#[test]
fn values_are_printed_short() {
    let shown = |text: &str| run(text).unwrap()[0].to_string();
    assert_eq!(shown("golden[0, :2]"), "golden[0, :2] = [[0, 1, 2, 3],\n [4, 5, 6, 7]]  [2, 4]");
    assert_eq!(shown("1 / 3"), "1 / 3 = 0.33333333");
    assert_eq!(shown("1e-9 / 3"), "1e-9 / 3 = 3.3333333e-10");
    assert_eq!(shown("[nan, -inf, 2.5]"), "[nan, -inf, 2.5] = [nan, -inf, 2.5]  [3]");
    let wide = shown("golden.reshape(-1, 1) * golden.flatten()");
    assert!(wide.contains("…") && wide.lines().count() == 7, "{wide}");
    let json = serde_json::to_string(&Printed::from(&run("[nan, 2]").unwrap()[0].value)).unwrap();
    assert_eq!(json, r#"{"shape":[2],"values":["nan",2.0],"left_out":0}"#);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\\nä…]{0,60}") {
        let _ = run(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn no_list_of_words_panics(
        words in prop::collection::vec(prop::sample::select(vec![
            "golden", "none", "blocks.0.out", "1", "-1", "0.5", "1e300", "9e15", "+", "-", "*", "/", "%", "@", "**", "(", ")",
            "[", "]", ",", ":", "...", ".max", ".T", ".reshape", ".sum(axis=", "abs(", "quantile(", "first(", "\n", ";",
            "a = ", "a", "==", "<", "&", "!", ".transpose(", "where(", "[::-1]", "[0]", "entropy(", "squeeze(",
        ]), 0..20)
    ) {
        let _ = run(&words.concat()).map_err(|error| error.to_string());
        let _ = run(&words.join(" ")).map(|answers| answers.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
}

#[test]
fn syntax_is_checked_without_the_tensors() {
    for right in [
        "used > 0.5",
        "h.norm * 2 > b.0.out.max (axis=0)[1]",
        "a = x@1.mean(); a",
        "`odd name` < 1",
        "i % 5 == 0",
    ] {
        assert!(check_syntax(right).is_ok(), "{right}");
    }
    for wrong in ["", "(", "i % ", "used > 0.5 and", "a.b(", "x ? y", "`odd", "i == 0)"] {
        assert!(check_syntax(wrong).is_err(), "{wrong}");
    }
}
