//! What the number-crunch application of tutorials answers: `/square-root/4` is asked for a root.

use serde::Serialize;
use serde_json::{Value, json};

/// A number and its root.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Crunched {
    input_number: Value,
    square_root: Value,
}

impl Crunched {
    /// What this path asks for; `None`: nothing of the kind.
    pub fn of(path: &str) -> Option<Self> {
        let number: f64 = path.strip_prefix("/square-root/")?.parse().ok()?;
        let root = Some(number.sqrt()).filter(|root| root.is_finite())?;
        Some(Self { input_number: shortest(number), square_root: shortest(root) })
    }
}

/// Whole numbers without a point.
fn shortest(number: f64) -> Value {
    // Beyond that not every whole number has a value of its own.
    if number.fract() == 0.0 && number < 2_f64.powi(53) { json!(number as u64) } else { json!(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_as_in_the_tutorial() {
        let answer = |path| Crunched::of(path).map(|crunched| serde_json::to_string(&crunched).unwrap());
        assert_eq!(answer("/square-root/4").unwrap(), r#"{"InputNumber":4,"SquareRoot":2}"#);
        assert_eq!(answer("/square-root/2.25").unwrap(), r#"{"InputNumber":2.25,"SquareRoot":1.5}"#);
        for path in ["/", "/square-root/", "/square-root/-1", "/square-root/x", "/square-root/nan"] {
            assert_eq!(answer(path), None, "{path}");
        }
    }
}
