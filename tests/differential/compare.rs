//! One seed: both worlds are asked the same, and what they say is compared.

use std::fmt::Write as _;
use std::slice;

use anyhow::{Result, ensure};
use vrouter_tests::lab::Family;

use crate::control;
use crate::difference::{DIFFERENCES, Difference, Met};
use crate::generate;
use crate::kernel::{Kernel, Ruleset, with_kernel};
use crate::objects::Objects;
use crate::place::{NodePortAddresses, family_of};
use crate::proxy::rules;
use crate::question::{Question, Sources, questions};
use crate::random::Random;
use crate::rendered;
use crate::router::Router;
use crate::verdict::Answer;
use crate::world::{World, answers};

/// Packets per question, at first.
const PACKETS: usize = 24;
/// And so many more, where worlds disagree: a member that chance left out turns up.
const MORE_PACKETS: usize = 232;
/// Disagreements that are printed of a seed.
const PRINTED: usize = 5;

/// The objects of a seed and the questions about them.
#[derive(Debug)]
pub struct Scene {
    seed: u64,
    node_ports: NodePortAddresses,
    objects: Objects,
    /// The independent rules.
    ruleset: Ruleset,
    questions: Vec<Question>,
}

impl Scene {
    /// The scene of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let objects = generate::objects(&mut random);
        let node_ports =
            random.pick(&[NodePortAddresses::All, NodePortAddresses::All, NodePortAddresses::First]);
        let questions = questions(&objects, node_ports, &mut random);
        let [v4, v6] = Family::BOTH.map(|family| rules(&objects, node_ports, family));
        let ruleset = Ruleset { v4, v6 };
        Self { seed, node_ports, objects, ruleset, questions }
    }

    /// Compares the kernel under the independent rules with the vRouter, and says which intended differences were met.
    pub fn against_router(&self) -> Result<Met> {
        with_kernel(&self.ruleset, |kernel| {
            let mut router = Router::new(control::tables(&self.objects)?, self.node_ports)?;
            self.compare(kernel, &mut router, DIFFERENCES)
        })
    }

    /// Compares the kernel under the independent rules with one under those that the operator's tool shows.
    pub fn against_rendered(&self) -> Result<()> {
        let rendered = rendered::ruleset(&control::tables(&self.objects)?, self.node_ports)?;
        with_kernel(&self.ruleset, |kernel| {
            with_kernel(&rendered, |other| self.compare(kernel, other, &[]).map(drop))
        })
    }

    fn compare(
        &self,
        kernel: &mut Kernel,
        other: &mut impl World,
        differences: &'static [Difference],
    ) -> Result<Met> {
        let mut met = Met::none_of(differences);
        let stand_ins: Vec<Question> = self.questions.iter().map(|it| met.stand_in(it)).collect();
        let mut sources = Sources::default();
        let of_kernel = answers(kernel, &sources.asked(&stand_ins, PACKETS))?;
        let of_other = answers(other, &sources.asked(&self.questions, PACKETS))?;
        let mut disagreements = Vec::new();
        let questions = self.questions.iter().zip(&stand_ins);
        for (((question, stand_in), mut kernels), mut others) in questions.zip(of_kernel).zip(of_other) {
            if met.clone().expected(question, &kernels) != others {
                let (question, stand_in) = (slice::from_ref(question), slice::from_ref(stand_in));
                kernels.extend(answers(kernel, &sources.asked(stand_in, MORE_PACKETS))?);
                others.extend(answers(other, &sources.asked(question, MORE_PACKETS))?);
            }
            let expected = met.expected(question, &kernels);
            if expected != others {
                disagreements.push(self.disagreement(question, &kernels, &expected, &others));
            }
        }
        let (count, shown) = (disagreements.len(), disagreements.iter().take(PRINTED));
        let shown: String = shown.flat_map(|text| [text, "\n"]).collect();
        ensure!(count == 0, "seed {}: {count} of {} disagree\n{shown}", self.seed, self.questions.len());
        Ok(met)
    }

    /// All there is to see of a disagreement: the question, what each world says, the objects, and the rules.
    fn disagreement(
        &self,
        question: &Question,
        kernel: &Answer,
        expected: &Answer,
        other: &Answer,
    ) -> String {
        let mut text = format!("  {question}\n   the kernel:\n{kernel}   so it should be:\n{expected}");
        let _ = writeln!(text, "   but it is:\n{other}");
        if let Some(service) = &question.service {
            let _ = writeln!(text, "   objects:\n{}", self.objects.only(service));
            let (one, several) = (format!("\"default/{service}\""), format!("\"default/{service}:"));
            let rules = match family_of(question.destination.ip()) {
                Family::V4 => &self.ruleset.v4,
                Family::V6 => &self.ruleset.v6,
            };
            let _ = writeln!(text, "   rules:");
            for rule in rules.lines().filter(|rule| rule.contains(&one) || rule.contains(&several)) {
                let _ = writeln!(text, "{rule}");
            }
        }
        text
    }
}
