//! What the demonstration found: checks and figures.

use serde::Serialize;

use crate::iperf::Traffic;
use crate::status::table;

/// All of it, in the shape that programs rely on.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    checks: Vec<Check>,
    throughput: Vec<Figure>,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
    #[serde(skip)]
    about: About,
}

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// What the router does. It must hold.
    Behaviour,
    /// How fast it is, which a busy machine changes too: shown, but it fails nothing.
    Speed,
}

/// A measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// What was sent.
    pub case: Case,
    /// Between which pods.
    pub place: Place,
    /// What forwarded it.
    pub subject: Subject,
    /// The median.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Case {
    /// One TCP stream.
    #[serde(rename = "tcp")]
    Tcp,
    /// Datagrams of 64 bytes, as many as go.
    #[serde(rename = "udp-64")]
    Udp,
}

/// Where client and member are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Place {
    /// On one node.
    #[serde(rename = "same-node")]
    SameNode,
    /// On two.
    #[serde(rename = "across-nodes")]
    AcrossNodes,
}

/// What forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// This project.
    VRouter,
    /// Linux routing with kube-proxy's nftables rules, and a `vxlan` device between nodes.
    Kernel,
}

impl Outcome {
    /// Notes and prints whether something held that must hold.
    pub fn check(&mut self, name: &'static str, ok: bool, detail: String) {
        self.note(Check { name, ok, detail, about: About::Behaviour });
    }

    /// Notes and prints whether a speed was reached.
    pub fn reached(&mut self, name: &'static str, ok: bool, detail: String) {
        self.note(Check { name, ok, detail, about: About::Speed });
    }

    fn note(&mut self, check: Check) {
        println!("    {} {}: {}", check.mark(), check.name, check.detail);
        self.checks.push(check);
    }

    /// Notes a measurement.
    pub fn measured(&mut self, figure: Figure) {
        self.throughput.push(figure);
    }

    /// A measurement that was noted.
    pub fn figure(&self, case: Case, place: Place, subject: Subject) -> Option<f64> {
        let wanted = |figure: &&Figure| (figure.case, figure.place, figure.subject) == (case, place, subject);
        self.throughput.iter().find(wanted).map(|figure| figure.value)
    }

    /// How many checks did not hold that must hold.
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.ok && check.about == About::Behaviour).count()
    }

    /// For people.
    pub fn tables(&self) -> String {
        let checks =
            self.checks.iter().map(|it| vec![it.mark().to_owned(), it.name.into(), it.detail.clone()]);
        let ours = self.throughput.iter().filter(|figure| figure.subject == Subject::VRouter);
        let rows = ours.map(|ours| {
            let kernel = self.figure(ours.case, ours.place, Subject::Kernel).unwrap_or(f64::NAN);
            vec![
                ours.case.title().to_owned(),
                ours.place.title().to_owned(),
                format!("{:.2} {}", ours.value, ours.unit),
                format!("{kernel:.2} {}", ours.unit),
                format!("{:.2}", ours.value / kernel),
            ]
        });
        let throughput =
            table(&["THROUGH A CLUSTERIP", "MEMBER", "VROUTER", "KERNEL + NFTABLES", "RATIO"], rows);
        format!("{throughput}\n\n{}", table(&["", "CHECK", "DETAIL"], checks))
    }
}

impl Case {
    /// How iperf3 sends it.
    pub fn traffic(self) -> Traffic {
        match self {
            Self::Tcp => Traffic::Tcp { streams: 1 },
            Self::Udp => Traffic::Udp { payload: 64 },
        }
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Tcp => "TCP, one stream",
            Self::Udp => "UDP, 64 bytes",
        }
    }
}

impl Place {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::SameNode => "same node",
            Self::AcrossNodes => "other node",
        }
    }
}

impl Subject {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::VRouter => "vRouter",
            Self::Kernel => "kernel + nftables",
        }
    }
}

/// A title above a part of the demonstration.
pub fn heading(title: &str) {
    println!("\n==> {title}");
}

impl Check {
    fn mark(&self) -> &'static str {
        match (self.ok, self.about) {
            (true, _) => "ok",
            (false, About::Behaviour) => "FAILED",
            (false, About::Speed) => "below",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_json_has_the_promised_shape() {
        let mut outcome = Outcome::default();
        outcome.check("spread", true, "50 % and 50 %".into());
        let figure =
            |subject, value| Figure { case: Case::Udp, place: Place::SameNode, subject, value, unit: "kpps" };
        outcome.measured(figure(Subject::VRouter, 200.0));
        outcome.measured(figure(Subject::Kernel, 100.0));
        let wanted = json!({
            "checks": [{"name": "spread", "ok": true, "detail": "50 % and 50 %"}],
            "throughput": [
                {"case": "udp-64", "place": "same-node", "subject": "vrouter", "value": 200.0, "unit": "kpps"},
                {"case": "udp-64", "place": "same-node", "subject": "kernel", "value": 100.0, "unit": "kpps"},
            ],
        });
        assert_eq!(serde_json::to_value(&outcome).unwrap(), wanted);
        assert!(outcome.tables().contains("2.00"));
        outcome.reached("fast", false, "0.5".into());
        assert_eq!(outcome.failed(), 0, "a busy machine is no fault");
        outcome.check("right", false, "wrong".into());
        assert_eq!(outcome.failed(), 1);
    }
}
