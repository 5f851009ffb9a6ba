//! The order in which numbers out of a range are given.

use std::ops::RangeInclusive;

/// On from the one that was given last, then what lies before it: so one that is given back is given again only after all
/// others. The lowest ones, which manifests may name, come last.
pub fn in_turn(
    range: RangeInclusive<u128>,
    band: u128,
    last_given: Option<u128>,
) -> impl Iterator<Item = u128> {
    let (first, last) = range.into_inner();
    let begin = first.saturating_add(band);
    let from = last_given.map_or(begin, |given| given.saturating_add(1).max(first));
    (from..=last)
        .chain(begin..from.min(last.saturating_add(1)))
        .chain(first..begin.min(last.saturating_add(1)))
}
