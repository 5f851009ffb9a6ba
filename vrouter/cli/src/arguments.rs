//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use vrouter_objects::IpProtocol;

use crate::end::{AskedPort, Party, Target};
use crate::iptables::Family;
use crate::output::Format;

/// Shows the tables of this node's vRouter, and the controller's objects behind them.
#[derive(Debug, Parser)]
#[command(name = "vrctl", version)]
pub struct Arguments {
    /// The socket of the vRouter. `get` and `status` also take the controller's.
    #[arg(
        long,
        global = true,
        overrides_with = "socket",
        env = "VRCTL_SOCKET",
        default_value = "/run/vrouter/node.sock",
        value_name = "PATH"
    )]
    pub socket: PathBuf,
    /// How to print.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    /// What to show.
    #[command(subcommand)]
    pub command: Command,
}

/// What to show.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Interfaces, with their counters.
    Vif,
    /// Networks: one VRF each.
    #[command(visible_alias = "vn")]
    Vrf,
    /// Routes.
    #[command(visible_alias = "rt")]
    Route(RouteFilter),
    /// Next hops, and how many routes use each.
    Nh,
    /// VNIs, and the nodes that tunnels lead to.
    Vxlan,
    /// Service addresses with their ports and members.
    Fip {
        /// Only this Service (namespace/name) or address.
        name: Option<String>,
    },
    /// A Service's journey on this node: by which addresses it is reached, and who gets new flows.
    Service {
        /// The Service (namespace/name).
        name: String,
        /// How to show it.
        #[command(flatten)]
        form: ServiceForm,
    },
    /// Services in brief.
    Services {
        /// How to show them.
        #[command(flatten)]
        form: ServiceForm,
    },
    /// Network policies that select pods of this node, in brief, in the order they are asked.
    Policies,
    /// Network policies rule by rule, with what each did on this node; or whether policy allows a connection.
    #[command(args_conflicts_with_subcommands = true)]
    Policy(PolicyArguments),
    /// Peer sets: those whom policies' rules refer to.
    #[command(visible_alias = "peersets")]
    Peerset {
        /// Only this set, by name or number, with its addresses.
        set: Option<String>,
    },
    /// Flows: one line for each direction of a connection.
    Flow(FlowFilter),
    /// Dropped packets, counted by reason, and the last ones.
    Drops {
        /// Also reasons that never occurred.
        #[arg(long)]
        all: bool,
    },
    /// The controller's objects, in the shape Contrail documents.
    #[command(after_help = OBJECTS)]
    Get {
        /// The kind of object.
        object: String,
        /// Only the one with this name, as listed.
        name: Option<String>,
    },
    /// The node as a whole, or the controller.
    Status,
}

const OBJECTS: &str = "Kinds: project (proj), virtual-network (vn), routing-instance (ri), subnet (sn), \
virtual-router (vr), virtual-machine (vm), virtual-machine-interface (vmi), instance-ip (iip), floating-ip (fip), \
load-balancer (lb), listener (lbl), pool (lbp), member (lbm).";

/// What is asked about network policy.
#[derive(Debug, Args)]
pub struct PolicyArguments {
    /// Only this policy (namespace/name, or the name alone where it has no namespace), with its kind before it or without.
    pub name: Option<String>,
    /// Another question.
    #[command(subcommand)]
    pub question: Option<PolicyQuestion>,
}

/// A question about network policy.
#[derive(Debug, Subcommand)]
pub enum PolicyQuestion {
    /// Whether policy allows a new connection, and by which rule: exit status 0: allowed, 1: denied, 2: not decided here.
    ///
    /// It is answered from the tables that packets are forwarded by on this node. What leaves a pod is decided where the
    /// pod is, and so is what comes to one. Nothing is sent and nothing is counted.
    Test(PolicyTest),
}

/// A connection that policy is asked about.
#[derive(Debug, Args)]
pub struct PolicyTest {
    /// Who begins it: a pod (namespace/pod) or an address.
    pub from: Party,
    /// Whom it is to: a pod, a Service (service/namespace/name) or an address.
    pub to: Target,
    /// The port, TCP's unless said otherwise: 80, 53/udp, 9/sctp; or icmp.
    #[arg(value_name = "PORT[/PROTOCOL]")]
    pub port: AskedPort,
    /// The network that FROM is an address of, by name or VRF number, where it could be of several.
    #[arg(long, value_name = "NETWORK")]
    pub vrf: Option<String>,
}

/// Which routes.
#[derive(Debug, Args)]
pub struct RouteFilter {
    /// Only of this network, by name or VRF number.
    #[arg(long, value_name = "NETWORK")]
    pub vrf: Option<String>,
    /// Only those that an address matches, the longest first.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<IpAddr>,
}

/// How services are shown.
#[derive(Debug, Args)]
pub struct ServiceForm {
    /// As the rules that kube-proxy's iptables mode would have for it on this node, in the form of iptables-save.
    #[arg(long)]
    pub as_iptables: bool,
    /// Only the rules of this family, as its own iptables-restore takes them.
    #[arg(long, requires = "as_iptables", value_name = "4|6")]
    pub family: Option<Family>,
    /// The rules of the services of this network, by name or VRF number; else of the first one that has services.
    #[arg(long, requires = "as_iptables", value_name = "NETWORK")]
    pub vrf: Option<String>,
}

/// Which flows.
#[derive(Debug, Args)]
pub struct FlowFilter {
    /// Only with this address at either end, translated or not.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<IpAddr>,
    /// Only with this port at either end.
    #[arg(long)]
    pub port: Option<u16>,
    /// Only of this protocol: tcp, udp, sctp, icmp, icmpv6 or a number.
    #[arg(long, value_name = "PROTOCOL")]
    pub proto: Option<Protocol>,
    /// Only of this network, by name or VRF number.
    #[arg(long, value_name = "NETWORK")]
    pub vrf: Option<String>,
    /// Only those that this interface began, by pod (namespace/name) or number.
    #[arg(long, value_name = "INTERFACE")]
    pub vmi: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub limit: u32,
}

/// An IP protocol, by name or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol(pub IpProtocol);

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = match text.to_ascii_lowercase().as_str() {
            "tcp" => Some(IpProtocol::TCP),
            "udp" => Some(IpProtocol::UDP),
            "sctp" => Some(IpProtocol::SCTP),
            "icmp" => Some(IpProtocol::ICMP),
            "icmpv6" => Some(IpProtocol::ICMPV6),
            _ => None,
        };
        let numbered = || text.parse().ok().filter(|number| *number != 0).map(IpProtocol);
        let unknown =
            || format!("\"{text}\" is none of tcp, udp, sctp, icmp, icmpv6 and no number from 1 to 255");
        named.or_else(numbered).map(Self).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let parse = |line: &str| Arguments::try_parse_from(line.split_whitespace());
        let flow = parse("vrctl flow --address fd00::1 --port 80 --proto TCP -o json").unwrap();
        assert_eq!(flow.output, Format::Json);
        match flow.command {
            Command::Flow(filter) => {
                assert_eq!(filter.proto, Some(Protocol(IpProtocol::TCP)));
                assert_eq!((filter.port, filter.limit), (Some(80), 10_000));
            }
            other => panic!("{other:?}"),
        }
        for bad in [
            "vrctl",
            "vrctl flow --proto ipx",
            "vrctl flow --proto 0",
            "vrctl flow --port 70000",
            "vrctl nhs",
            "vrctl service",
            "vrctl service a/b --family 4",
            "vrctl services --as-iptables --family 5",
            "vrctl services --vrf 2",
            "vrctl policy test a/b c/d",
            "vrctl policy test service/a/b c/d 80",
            "vrctl policy test a/b c/d 0",
            "vrctl policy test a/b c/d 80/icmp",
            "vrctl policy a/b test a/b c/d 80",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for good in [
            "vrctl get fip -o yaml",
            "vrctl --socket /x status",
            "vrctl rt --vrf 1",
            "vrctl flow --proto 47",
            "vrctl service a/b",
            "vrctl services --as-iptables --family 6",
            "vrctl services --as-iptables --vrf 2",
            "vrctl vn",
            "vrctl policies -o json",
            "vrctl policy",
            "vrctl policy shop/front",
            "vrctl policy test a/b service/c/d 53/udp",
            "vrctl policy test 10.0.0.1 fd00::1 icmp --vrf 4",
            "vrctl peerset 7",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }
}
