//! Lines of source in error messages: short paths, and only those that help.

/// Returns a place in source as messages show it: a file of the project as it is, a file of a dependency from the name of its
/// crate on. `None` for the standard library.
pub(super) fn shown_place(file: &str, line: u32) -> Option<String> {
    if file.starts_with("/rustc/") {
        return None;
    }
    let parts: Vec<&str> = file.split('/').collect();
    // `…/registry/src/<index>/<crate>/src/…` and `…/git/checkouts/<repository>/<commit>/…`
    let below = parts.windows(2).enumerate().find_map(|(at, pair)| match pair {
        ["registry", "src"] => Some(at + 3),
        ["git", "checkouts"] => Some(at + 4),
        _ => None,
    });
    let shown = below.and_then(|at| parts.get(at..)).filter(|rest| !rest.is_empty());
    Some(format!("{}:{line}", shown.map_or_else(|| file.to_owned(), |rest| rest.join("/"))))
}

/// Returns an error message without the places that MLX and mlx-rs append and that do not help: ` at /…/ops.cpp:22` inside
/// mlx-c, and ` at /rustc/…/function.rs:250:5` in the standard library, which calls closures. A place in the port stays.
///
/// mlx-rs prints an error as `"<text of MLX>" at <place>`, which loses its quotes.
pub(super) fn without_places(text: &str) -> String {
    let text = text.trim();
    let Some((before, place)) = text.rsplit_once(" at ") else { return text.to_owned() };
    let Some((file, line)) = file_and_line(place) else { return text.to_owned() };
    let quoted = before.strip_suffix('"').and_then(|before| before.split_once('"'));
    let before = match quoted {
        Some((start, inside)) => {
            format!("{start}{}", without_places(&inside.replace("\\n", "\n").replace("\\\"", "\"")))
        }
        None if file.starts_with('/') => without_places(before),
        None => return text.to_owned(),
    };
    match shown_place(file, line).filter(|_| !file.ends_with(".cpp")) {
        Some(place) => format!("{before} at {place}"),
        None => before,
    }
}

/// The file and the line of `file:line` or `file:line:column`, if this is a place in source of Rust or C++.
fn file_and_line(place: &str) -> Option<(&str, u32)> {
    let (file, rest) = [".rs:", ".cpp:"].iter().find_map(|end| {
        let at = place.find(end)? + end.len();
        Some((&place[..at - 1], &place[at..]))
    })?;
    let is_place =
        !file.contains(char::is_whitespace) && rest.split(':').all(|number| number.parse::<u32>().is_ok());
    is_place.then(|| Some((file, rest.split(':').next()?.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_short_or_left_out() {
        let shown = |file| shown_place(file, 7);
        assert_eq!(shown("src/llama/decoder.rs").as_deref(), Some("src/llama/decoder.rs:7"));
        assert_eq!(shown("/rustc/0a1b/library/core/src/ops/function.rs"), None);
        let registry = "/home/me/.cargo/registry/src/index.crates.io-1949/mlx-rs-0.25.3/src/array.rs";
        assert_eq!(shown(registry).as_deref(), Some("mlx-rs-0.25.3/src/array.rs:7"));
        let git = "/home/me/.cargo/git/checkouts/mlx-rs-12ab/9f8e7d6/mlx-rs/src/array.rs";
        assert_eq!(shown(git).as_deref(), Some("mlx-rs/src/array.rs:7"));
        assert_eq!(shown("/registry/src").as_deref(), Some("/registry/src:7"));
    }

    #[test]
    fn a_message_loses_the_places_that_do_not_help() {
        for (text, kept) in [
            (
                "[matmul] Last dimension at 3 differs at /x/mlx/c/ops.cpp:22",
                "[matmul] Last dimension at 3 differs",
            ),
            (
                "\"[add] Shapes \\\"a\\\" differ. at /m/ops.cpp:8\" at /rustc/0a/library/core/src/ops/function.rs:250:5",
                "[add] Shapes \"a\" differ.",
            ),
            (
                "\"[add] Shapes differ. at /m/ops.cpp:8\" at src/model.rs:8:5",
                "[add] Shapes differ. at src/model.rs:8",
            ),
            (
                "layer 3: \"[add] Shapes differ.\" at src/model.rs:8:5",
                "layer 3: [add] Shapes differ. at src/model.rs:8",
            ),
            ("stopped at src/model.rs:8:5", "stopped at src/model.rs:8:5"),
            ("no tokenizer at /models/x: denied", "no tokenizer at /models/x: denied"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_places(text), kept);
        }
    }
}
