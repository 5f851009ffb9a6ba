//! What an example says must work and what must not: lines of its comments, for people and tests alike.
//!
//! ```text
//! #   shop/front -> service shop/api  80/TCP  works
//! #   client     -> service shop/web  80/TCP  denied
//! ```
//!
//! On the left stands who asks: a pod as `namespace/name`, `client`, `client2` or `internet`, as the lab calls those outside,
//! or `another-node`: one that the pod is not on which is asked. On the right stands who is asked: a pod, a Service, or the
//! `internet`; then how: a port, or `ping`; and what comes of it.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

/// Somebody tries to reach somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Who asks.
    pub from: Asker,
    /// Who is asked.
    pub to: Asked,
    /// How.
    pub manner: Manner,
    /// What comes of it.
    pub verdict: Verdict,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A pod, by its namespace and name.
    Pod(String),
    /// The client outside.
    Client,
    /// The other client outside.
    SecondClient,
    /// A host beyond the nodes' network.
    Internet,
    /// The node of the pod that is asked: it probes.
    OwnNode,
    /// Another node.
    AnotherNode,
}

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A pod, by its namespace and name.
    Pod(String),
    /// A Service, by its namespace and name: at its cluster address, and from outside at its load balancer's.
    Service(String),
    /// A host beyond the nodes' network.
    Internet,
}

/// How somebody is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// By an HTTP request.
    Tcp(u16),
    /// By a datagram.
    Udp(u16),
    /// By a packet that begins an association.
    Sctp(u16),
    /// By an ICMP echo request.
    Ping,
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// An answer.
    Works,
    /// Nothing: policy drops it, and tells nobody.
    Denied,
    /// No answer, whether that is said or not: there is no way.
    Fails,
}

impl Attempt {
    /// The same attempt, with this outcome.
    pub fn that(&self, verdict: Verdict) -> Self {
        Self { verdict, ..self.clone() }
    }
}

/// All attempts that the comments of an example speak of.
pub fn attempts(text: &str) -> Result<Vec<Attempt>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| line.contains(" -> "));
    let attempts: Vec<_> =
        lines.map(|line| line.parse().context(line.trim().to_owned())).collect::<Result<_>>()?;
    ensure!(!attempts.is_empty(), "no line says who reaches whom");
    Ok(attempts)
}

impl FromStr for Attempt {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let (from, to, manner, verdict) = match words[..] {
            [from, "->", "service", to, manner, verdict] => {
                (from, Asked::Service(qualified(to)?), manner, verdict)
            }
            [from, "->", "internet", manner, verdict] => (from, Asked::Internet, manner, verdict),
            [from, "->", to, manner, verdict] => (from, Asked::Pod(qualified(to)?), manner, verdict),
            _ => bail!("wanted FROM -> TO PORT/PROTOCOL OUTCOME"),
        };
        Ok(Self { from: from.parse()?, to, manner: manner.parse()?, verdict: verdict.parse()? })
    }
}

fn qualified(name: &str) -> Result<String> {
    ensure!(name.contains('/'), "{name:?} is not NAMESPACE/NAME");
    Ok(name.to_owned())
}

impl FromStr for Asker {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Ok(match word {
            "client" => Self::Client,
            "client2" => Self::SecondClient,
            "internet" => Self::Internet,
            "another-node" => Self::AnotherNode,
            pod => Self::Pod(qualified(pod)?),
        })
    }
}

impl FromStr for Manner {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        if word == "ping" {
            return Ok(Self::Ping);
        }
        let (port, protocol) = word.split_once('/').with_context(|| format!("{word:?} is no port"))?;
        let port = port.parse().with_context(|| format!("{word:?} is no port"))?;
        Ok(match protocol {
            "TCP" => Self::Tcp(port),
            "UDP" => Self::Udp(port),
            "SCTP" => Self::Sctp(port),
            _ => bail!("{protocol:?} is no protocol"),
        })
    }
}

impl FromStr for Verdict {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Ok(match word {
            "works" => Self::Works,
            "denied" => Self::Denied,
            "fails" => Self::Fails,
            _ => bail!("{word:?} is no outcome"),
        })
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, manner, verdict } = self;
        match from {
            Asker::Pod(pod) => f.write_str(pod)?,
            Asker::Client => f.write_str("client")?,
            Asker::SecondClient => f.write_str("client2")?,
            Asker::Internet => f.write_str("internet")?,
            Asker::OwnNode => f.write_str("its node")?,
            Asker::AnotherNode => f.write_str("another-node")?,
        }
        match to {
            Asked::Pod(pod) => write!(f, " -> {pod}")?,
            Asked::Service(service) => write!(f, " -> service {service}")?,
            Asked::Internet => write!(f, " -> internet")?,
        }
        match manner {
            Manner::Tcp(port) => write!(f, " {port}/TCP")?,
            Manner::Udp(port) => write!(f, " {port}/UDP")?,
            Manner::Sctp(port) => write!(f, " {port}/SCTP")?,
            Manner::Ping => write!(f, " ping")?,
        }
        f.write_str(match verdict {
            Verdict::Works => " works",
            Verdict::Denied => " denied",
            Verdict::Fails => " fails",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back_as_they_were_written() {
        let lines = [
            "a/b -> c/d 80/TCP works",
            "client -> service c/d 53/UDP denied",
            "client2 -> service c/d 7/SCTP fails",
            "another-node -> c/d ping denied",
            "a/b -> internet 80/TCP works",
            "internet -> service c/d 80/TCP works",
        ];
        let text = format!("# What it is about.\n#\n#   {}\nkind: Pod\n", lines.join("\n#   "));
        let read: Vec<_> = attempts(&text).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(read, lines);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for line in [
            "a -> c/d 80/TCP works",
            "a/b -> c/d 80/HTTP works",
            "a/b -> c/d TCP works",
            "a/b -> c/d 80/TCP perhaps",
            "a/b -> c/d works",
        ] {
            assert!(attempts(&format!("# {line}")).is_err(), "{line}");
        }
        assert!(attempts("# Nothing is said here.").is_err());
    }
}
