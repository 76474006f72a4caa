//! Patterns of names, as shells have them.

/// Returns whether the whole `name` matches `pattern`. `*` stands for any characters, also dots and none at all, `?` for one
/// character. Every other character stands for itself.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on after a mismatch: behind the last star, which then takes one more character.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match &mut star {
                Some((after, taken)) => {
                    *taken += 1;
                    (p, n) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_takes_any_characters_and_a_question_mark_one() {
        for (pattern, name) in [
            ("norm", "norm"),
            ("blocks.*.q", "blocks.0.q"),
            ("blocks.*.q", "blocks.11.attn.q"),
            ("*", ""),
            ("*", "blocks.0.q"),
            ("a*b*c", "a.b.b.c"),
            ("blocks.?.q", "blocks.3.q"),
            ("**out", "out"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("norm", "norm1"),
            ("norm", "a.norm"),
            ("blocks.*.q", "blocks.0.k"),
            ("blocks.?.q", "blocks.10.q"),
            ("?", ""),
            ("", "x"),
            ("a*b*c", "a.c.b"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_the_product_of_both_lengths() {
        let (pattern, name) = ("*a".repeat(200) + "b", "a".repeat(2000));
        assert!(!matches(&pattern, &name));
    }
}
