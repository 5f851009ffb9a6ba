//! Names of network interfaces.

/// The longest name that an interface can have.
const MAX_BYTES: usize = 15;

/// Whether an interface can have this name, as the kernel and the CNI specification see it.
pub fn is_interface_name(name: &str) -> bool {
    let forbidden = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    (1..=MAX_BYTES).contains(&name.len()) && !name.contains(forbidden) && ![".", ".."].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_kernel_takes() {
        for good in ["a", "eth0", "fifteen-bytes-x"] {
            assert!(is_interface_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "a:b", "sixteen-bytes-xx", "a\0b"] {
            assert!(!is_interface_name(bad), "{bad:?}");
        }
    }
}
