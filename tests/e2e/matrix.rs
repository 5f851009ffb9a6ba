//! Every kind of Service × every kind of client × every frontend, on real nodes. The combinations are spanned by their
//! axes (`service.rs`, `question.rs`); what is right is said by [`Question::expected`].

mod question;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use anyhow::{Result, anyhow, ensure};
use serde_json::Value;
use vrouter_tests::lab::{Lab, Place, Programs, Shape};
use vrouter_tests::manifest::idle_pod;
use vrouter_tests::report::{Replies, Reply};

use crate::group::{Group, cases};
use question::{CLIENTS, Client, Question, World, idle};
use service::{MEMBERS, Members, NODES, Service};

pub const GROUP: Group = Group {
    name: "matrix",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![every_client_at_every_frontend_of_every_service],
};

fn objects(_: &Programs) -> Vec<Value> {
    let clients = NODES.map(|node| idle_pod(&idle(node), node));
    let members = MEMBERS.into_iter().flat_map(Members::objects);
    let services = Service::all().into_iter().map(Service::object);
    clients.into_iter().chain(members).chain(services).collect()
}

/// What was asked, what is right by each node that may have chosen the member, and what came of it.
struct Answered {
    question: Question,
    expected: Vec<Replies>,
    found: Replies,
}

/// Asks everything that a client can ask.
fn survey(lab: &Lab, world: &World, client: Client) -> Result<Vec<Answered>> {
    let mut questions = Vec::new();
    let mut lines = String::new();
    for question in Question::of(client) {
        let expected = question.expected(world)?;
        lines += &question.line(world, &expected.iter().flatten().cloned().collect())?;
        lines.push('\n');
        questions.push((question, expected));
    }
    let pod;
    let place = match client {
        Client::PodOn(node) => {
            pod = idle(node);
            Place::Pod(&pod)
        }
        Client::ProcessOn(node) => Place::Node(node),
        Client::Outside => Place::Client,
    };
    let found: Vec<Replies> = lab.probe_with(place, &["survey"], &lines)?;
    ensure!(found.len() == questions.len(), "{client:?}: {} of {} answers", found.len(), questions.len());
    let answered = |((question, expected), found)| Answered { question, expected, found };
    Ok(questions.into_iter().zip(found).map(answered).collect())
}

/// Replies that no node may have caused, a line each.
fn wrong(answered: &[Answered]) -> Vec<String> {
    let wrong = answered.iter().filter(|it| !it.found.iter().all(|reply| it.may_be(reply)));
    wrong.map(|it| format!("{}: {:?}, not {:?}", it.question, it.found, it.expected)).collect()
}

impl Answered {
    fn may_be(&self, reply: &Reply) -> bool {
        self.expected.iter().any(|expected| expected.contains(reply))
    }
}

/// Members that nobody ever reached: all those of one node at least must have answered, in one family and protocol or
/// another.
fn left_out(answered: &[Answered]) -> Vec<String> {
    let mut subjects: BTreeMap<String, (BTreeSet<&str>, Vec<BTreeSet<&str>>)> = BTreeMap::new();
    for it in answered {
        let (found, expected) = subjects.entry(it.question.subject()).or_default();
        found.extend(pods(&it.found));
        *expected = it.expected.iter().map(pods).collect();
    }
    let lacking =
        subjects.iter().filter(|(_, (found, expected))| !expected.iter().any(|it| it.is_subset(found)));
    lacking.map(|(subject, (found, expected))| format!("{subject}: only {found:?} of {expected:?}")).collect()
}

fn pods(replies: &Replies) -> BTreeSet<&str> {
    let pods = replies.iter().filter_map(|reply| match reply {
        Reply::Answered { pod, .. } => Some(pod.as_str()),
        Reply::Refused | Reply::Silent | Reply::Failed(_) => None,
    });
    pods.collect()
}

/// How many combinations there were, by what was right.
fn summary(answered: &[Answered]) -> String {
    let all_by = |reply: Reply| {
        answered.iter().filter(|it| it.expected.iter().all(|by| *by == [reply.clone()].into())).count()
    };
    let (refused, silent) = (all_by(Reply::Refused), all_by(Reply::Silent));
    let by_node = answered.iter().filter(|it| it.expected.windows(2).any(|by| by[0] != by[1])).count();
    let reached = answered.len() - refused - silent - by_node;
    format!(
        "{} combinations checked: {reached} answered, {refused} refused, {silent} silent, {by_node} as the way in decides",
        answered.len()
    )
}

fn every_client_at_every_frontend_of_every_service(lab: &Lab) -> Result<()> {
    let world = World(lab.status()?);
    let mut answered = Vec::new();
    thread::scope(|scope| {
        let world = &world;
        let surveys = CLIENTS.map(|client| scope.spawn(move || survey(lab, world, client)));
        for survey in surveys {
            answered.extend(survey.join().map_err(|_| anyhow!("a survey panicked"))??);
        }
        anyhow::Ok(())
    })?;
    println!("{}", summary(&answered));
    let complaints = [wrong(&answered), left_out(&answered)].concat();
    ensure!(complaints.is_empty(), "{} wrong:\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}
