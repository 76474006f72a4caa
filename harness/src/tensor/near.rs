//! Names that somebody may have meant.

/// At most three of `names` that are close to `wanted`, closest first.
pub(crate) fn near_names<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    // Names in files can be of any length, and the distance takes time by the product of both.
    const LONGEST: usize = 256;
    if wanted.len() > LONGEST {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter(|name| name.len() <= LONGEST)
        .map(|name| (strsim::osa_distance(wanted, name), name))
        .filter(|&(distance, name)| distance <= 1 + wanted.len().max(name.len()) / 4)
        .collect();
    near.sort();
    near.truncate(3);
    near.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// The end of a message: ``, did you mean `a` or `b`?``, or nothing.
pub(crate) fn did_you_mean(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        names => format!(", did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_names_are_offered_closest_first() {
        let names = ["norm2", "norm1", "attn.probs", "norm1.weight"];
        assert_eq!(near_names("nrom1", names), ["norm1", "norm2"]);
        assert_eq!(near_names("embedding", names), [""; 0]);
        assert_eq!(did_you_mean(&near_names("norm3", names)), ", did you mean `norm1` or `norm2`?");
        assert_eq!(did_you_mean(&[]), "");
    }
}
