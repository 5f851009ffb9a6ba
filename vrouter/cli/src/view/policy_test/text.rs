//! An answer, for people.

use serde::Serialize;

use super::answer::{Answer, Connection, Course};
use crate::output::{Row, fact, lines, table};
use crate::view::opinion::Verdict;
use crate::words::or_dash;

pub(super) fn text(answer: &Answer) -> String {
    let from = &answer.from;
    let node = from.node.as_ref().map(|node| format!(", on {node}")).unwrap_or_default();
    let mut facts = vec![
        fact("from", format!("{} in {}{node}", from.name, from.network)),
        fact("to", format!("{}, {}", answer.to, answer.port)),
        fact("verdict", in_words(answer.verdict)),
    ];
    let others = answer.deciding_elsewhere();
    if answer.verdict != Verdict::Deny && !others.is_empty() {
        facts.push(fact("ask on", others.join(", ")));
    }
    let connections: Vec<_> = answer.connections.iter().map(Line).collect();
    format!("{}\n\n{}", lines(&facts), table(&connections))
}

fn in_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allowed",
        Verdict::Deny => "denied",
        Verdict::Untold => "not denied here, and not decided here alone",
    }
}

/// A connection as a line.
#[derive(Serialize)]
#[serde(transparent)]
struct Line<'a>(&'a Connection);

impl Row for Line<'_> {
    const HEADINGS: &'static [&'static str] = &["FROM", "TO", "MEMBER", "BY", "EGRESS", "INGRESS", "VERDICT"];

    fn cells(&self) -> Vec<String> {
        let Self(connection) = self;
        let [member, by, egress, ingress] = match &connection.course {
            Course::Astray { why } => ["-".to_owned(), why.to_string(), "-".to_owned(), "-".to_owned()],
            Course::To { member, by, egress, ingress } => {
                let member = member.as_ref().map(|member| format!("{} ({})", member.name, member.at));
                [or_dash(member.unwrap_or_default()), by.clone(), egress.to_string(), ingress.to_string()]
            }
        };
        let verdict = match connection.verdict {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::Untold => "untold",
        };
        vec![
            connection.source.to_string(),
            connection.destination.to_string(),
            member,
            by,
            egress,
            ingress,
            verdict.to_owned(),
        ]
    }
}
