//! Questions to many ports, many at a time.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use vrouter_tests::report::{Replies, Reply};

use crate::http::{After, Connection, Member};
use crate::requests::{Protocol, datagram};

/// Those that nobody answers wait for most of the time.
const AT_A_TIME: usize = 48;

/// A line of standard input: where to ask, and how.
#[derive(Debug, Clone, Parser)]
#[command(no_binary_name = true)]
struct Question {
    target: SocketAddr,
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// How often, each time from a port of its own.
    #[arg(long)]
    count: u64,
    /// Milliseconds to wait for each answer.
    #[arg(long)]
    patience: u64,
}

/// Asks them all; returns what came of each, in their order.
pub fn run() -> Result<Vec<Replies>> {
    let questions: Vec<Question> =
        std::io::stdin().lines().map(|line| parse(&line?)).collect::<Result<_>>()?;
    let rest = Mutex::new(questions.iter().enumerate());
    let replies = Mutex::new(vec![Replies::new(); questions.len()]);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                let next = || rest.lock().expect("no thread panics while it takes a question").next();
                while let Some((number, question)) = next() {
                    let found = (0..question.count).map(|_| reply(question)).collect();
                    replies.lock().expect("no thread panics while it files a reply")[number] = found;
                }
            });
        }
    });
    replies.into_inner().map_err(|_| anyhow!("a client panicked"))
}

fn parse(line: &str) -> Result<Question> {
    Question::try_parse_from(line.split_whitespace()).with_context(|| line.to_owned())
}

fn reply(question: &Question) -> Reply {
    match ask(question) {
        Ok(Member { pod, client }) => Reply::Answered { pod, client },
        Err(error) => match error.downcast_ref().map(Error::kind) {
            Some(ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => Reply::Refused,
            Some(ErrorKind::TimedOut | ErrorKind::WouldBlock) => Reply::Silent,
            _ => Reply::Failed(format!("{error:#}")),
        },
    }
}

fn ask(question: &Question) -> Result<Member> {
    let patience = Duration::from_millis(question.patience);
    match question.protocol {
        Protocol::Tcp => {
            let answer = Connection::open_within(question.target, 0, patience)?.ask(After::Close)?;
            Ok(answer.member)
        }
        Protocol::Udp => datagram(question.target, 0, patience),
    }
}
