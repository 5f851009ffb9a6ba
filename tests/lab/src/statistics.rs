//! What several runs of one measurement come to.

/// Of at least one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Half of the runs are below, half above.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// How many.
    pub runs: usize,
}

impl Summary {
    /// Nothing where there was no run.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, min, max, runs: sorted.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let summary = Summary::of(&[3.0, 1.0, 20.0]);
        assert_eq!(summary, Some(Summary { median: 3.0, min: 1.0, max: 20.0, runs: 3 }));
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).map(|it| it.median), Some(2.5));
        assert_eq!(Summary::of(&[]), None);
    }
}
