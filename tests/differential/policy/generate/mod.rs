//! Random worlds, and what happens in them.

mod changes;
mod cluster_policies;
mod labels;
mod places;
mod policies;
mod probes;
mod services;

use crate::random::Random;
use crate::script::{Script, Step};
use crate::world::World;

/// Changes of the world in one run.
const ROUNDS: usize = 16;
/// Connections that begin between two changes.
const BEGUN: usize = 40;
/// Packets of living connections right after a change.
const CONTINUED: usize = 16;
/// How far back these began.
const REMEMBERED: u16 = 120;

/// A world of its own for each seed.
pub fn script(seed: u64) -> Script {
    let mut random = Random::new(seed);
    let first = places::world(&mut random);
    let mut world = first.clone();
    let mut steps = Vec::new();
    let mut begun = 0;
    for round in 0..ROUNDS {
        if round > 0 {
            steps.push(change(&mut world, &mut random));
            steps.extend((0..CONTINUED).map(|_| {
                let id = begun - 1 - random.below(usize::from(REMEMBERED.min(begun))) as u16;
                if random.percent(70) { Step::GoOn(id) } else { Step::Answer(id) }
            }));
        }
        for _ in 0..BEGUN {
            steps.push(Step::Begin(probes::probe(&world, begun, &mut random)));
            begun += 1;
        }
    }
    Script { world: first, steps }
}

fn change(world: &mut World, random: &mut Random) -> Step {
    let mut changes = Vec::new();
    for _ in 0..1 + random.below(3) {
        let change = changes::change(world, random);
        change.apply(world);
        changes.push(change);
    }
    Step::Change(changes)
}
