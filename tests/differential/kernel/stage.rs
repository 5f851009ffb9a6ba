//! Two namespaces without names, of one thread: the node, and the far ends of its links.

use std::fs::{self, File};
use std::path::Path;
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, setns, unshare};
use nix::unistd::Pid;
use vrouter_tests::command::run;
use vrouter_tests::lab::Family;

use super::links;
use crate::place::by_family;

const LIMIT: Duration = Duration::from_secs(30);
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// The node forwards, takes packets back where they came from, and answers every packet that it refuses.
const NODE_SETTINGS: [(&str, &str); 10] = [
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/icmp_ratemask", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    // A type that nobody sends: all others are free of any limit.
    ("ipv6/icmp/ratemask", "255"),
];
const FAR_SETTINGS: [(&str, &str); 2] =
    [("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];

/// The calling thread's namespaces. The thread is in the node's.
#[derive(Debug)]
pub struct Stage {
    node: File,
    far: File,
}

impl Stage {
    /// Makes both, and the links between them. The thread stays on one CPU from now on, so that packets are dealt with in
    /// the order they were sent.
    pub fn set_up() -> Result<Self> {
        stay_on_one_cpu()?;
        let far = new_namespace()?;
        set(&FAR_SETTINGS)?;
        let node = new_namespace()?;
        set(&NODE_SETTINGS)?;
        let stage = Self { node, far };
        stage.batch(&links::making(&stage.far_path()))?;
        stage.at_far_end(|| stage.batch(&links::far_ends()))?;
        for family in Family::BOTH {
            stage.batch(&links::addressing(family))?;
        }
        stage.observe()?;
        Ok(stage)
    }

    /// Puts rules in place of those of the same tables.
    pub fn load(&self, family: Family, rules: &str) -> Result<()> {
        let program = by_family(family, "iptables-restore", "ip6tables-restore");
        run(&mut Command::new(program), rules.as_bytes(), LIMIT)?.success().context(program).map(drop)
    }

    /// Does something at the far ends.
    pub fn at_far_end<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        setns(&self.far, CloneFlags::CLONE_NEWNET)?;
        let done = work();
        setns(&self.node, CloneFlags::CLONE_NEWNET)?;
        done
    }

    /// What gets through to the node itself goes to the observer, translated as it is, and no further: nobody answers.
    fn observe(&self) -> Result<()> {
        let table = |family| {
            let (kind, icmp) = by_family(family, ("ip", "icmp"), ("ip6", "icmpv6"));
            let (observer, device) = (links::observer(family), links::Link::Observer.name());
            format!(
                "table {kind} observer {{\nchain input {{\ntype filter hook input priority 200;\n\
                 meta l4proto {{ tcp, udp, sctp, {icmp} }} dup to {observer} device {device} drop\n}}\n}}\n"
            )
        };
        let rules: String = Family::BOTH.into_iter().map(table).collect();
        run(Command::new("nft").args(["-f", "-"]), rules.as_bytes(), LIMIT)?.success().map(drop)
    }

    fn batch(&self, lines: &str) -> Result<()> {
        run(Command::new("ip").args(["-batch", "-"]), lines.as_bytes(), LIMIT)?.success().map(drop)
    }

    fn far_path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", process::id(), self.far.as_raw_fd())
    }
}

fn new_namespace() -> Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    File::open(OWN_NAMESPACE).context(OWN_NAMESPACE)
}

fn stay_on_one_cpu() -> Result<()> {
    let own = Pid::from_raw(0);
    let allowed = sched_getaffinity(own)?;
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(first.context("no CPU")?)?;
    sched_setaffinity(own, &one).map_err(Into::into)
}

fn set(settings: &[(&str, &str)]) -> Result<()> {
    for (name, value) in settings {
        let path = Path::new("/proc/sys/net").join(name);
        fs::write(&path, value).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
