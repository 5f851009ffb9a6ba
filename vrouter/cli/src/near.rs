//! Names that somebody may have meant.

/// So many are told at most.
const SUGGESTIONS: usize = 3;
/// So many letters may differ.
const TOLERANCE: usize = 3;

/// The names that come nearest to one that nothing has, the nearest first: the same name in another namespace, what few
/// letters tell apart, and what one is a part of.
pub(crate) fn near_names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut near: Vec<_> = names.filter_map(|name| Some((distance(wanted, name)?, name))).collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

/// How far apart two names are; `None`: too far.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let (own, others) = (without_namespace(wanted), without_namespace(name));
    if own == others {
        return Some(0);
    }
    // Of short names everything would be near.
    let tolerance = TOLERANCE.min(others.len().div_ceil(2));
    let is_part = others.contains(own) || own.contains(others);
    // Where no namespace was given, any will do.
    let whole = if wanted.contains('/') { name } else { others };
    Some(edits(wanted, whole))
        .filter(|edits| *edits <= tolerance)
        .or((!own.is_empty() && is_part).then_some(TOLERANCE + 1))
}

fn without_namespace(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// How many letters are to be put in, taken out or changed to make one text of the other (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<_> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (taken, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], taken + 1);
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] =
        ["default/web", "shop/web", "shop/checkout", "kube-system/kube-dns", "default/kubernetes"];

    #[test]
    fn what_may_have_been_meant() {
        let near = |wanted| near_names(wanted, NAMES.into_iter());
        assert_eq!(near("web"), ["default/web", "shop/web"]);
        assert_eq!(near("default/checkout"), ["shop/checkout"]);
        assert_eq!(near("shop/chekout"), ["shop/checkout"]);
        assert_eq!(near("default/kubernets"), ["default/kubernetes"]);
        assert_eq!(near("default/wbe"), ["default/web"]);
        assert_eq!(
            near("default/app"),
            Vec::<String>::new(),
            "with three letters changed it is another word"
        );
        assert_eq!(near("default/webb"), ["default/web", "shop/web"]);
        assert_eq!(near("default/dns"), ["kube-system/kube-dns"]);
        assert_eq!(near("kube-dns-upstream"), ["kube-system/kube-dns"]);
        assert_eq!(near("chekcout"), ["shop/checkout"]);
        assert_eq!(near("default/"), Vec::<String>::new());
    }

    #[test]
    fn letters_are_counted() {
        for (from, to, expected) in [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!((edits(from, to), edits(to, from)), (expected, expected), "{from} {to}");
        }
    }
}
