//! One rule, as `iptables-save` prints it: addresses, protocol, matches in the order they were given, target.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::Port;

/// One rule of a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rule {
    source: String,
    destination: String,
    protocol: Option<&'static str>,
    matches: Vec<String>,
    target: String,
}

impl Rule {
    /// One that everything matches.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// For packets from this prefix.
    pub(super) fn from(mut self, prefix: IpNet) -> Self {
        // What matches everything is not printed.
        if prefix.prefix_len() > 0 {
            self.source = format!(" -s {prefix}");
        }
        self
    }

    /// For packets from elsewhere.
    pub(super) fn not_from(mut self, prefix: IpNet) -> Self {
        self.source = format!(" ! -s {prefix}");
        self
    }

    /// For packets to this address.
    pub(super) fn to(mut self, address: IpAddr) -> Self {
        self.destination = format!(" -d {}", IpNet::from(address));
        self
    }

    /// For packets to elsewhere.
    pub(super) fn not_to(mut self, prefix: &str) -> Self {
        self.destination = format!(" ! -d {prefix}");
        self
    }

    /// Says what it is for.
    pub(super) fn comment(self, text: impl fmt::Display) -> Self {
        self.matching(format!("comment --comment \"{text}\""))
    }

    /// For packets that a match of iptables' own takes.
    pub(super) fn matching(mut self, what: impl Into<String>) -> Self {
        self.matches.push(what.into());
        self
    }

    /// For packets of this protocol.
    pub(super) fn protocol(mut self, protocol: &'static str) -> Self {
        self.protocol = Some(protocol);
        self.matching(protocol)
    }

    /// For packets of this protocol to this port.
    pub(super) fn port(mut self, protocol: &'static str, port: Port) -> Self {
        self.protocol = Some(protocol);
        self.matching(format!("{protocol} --dport {port}"))
    }

    /// Where they go, with what the target is told.
    pub(super) fn then(mut self, target: impl Into<String>) -> Self {
        self.target = target.into();
        self
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.source, self.destination)?;
        if let Some(protocol) = self.protocol {
            write!(f, " -p {protocol}")?;
        }
        for what in &self.matches {
            write!(f, " -m {what}")?;
        }
        if self.target.is_empty() { Ok(()) } else { write!(f, " -j {}", self.target) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_printed_as_iptables_save_does() {
        let rule = Rule::new()
            .comment("default/web cluster IP")
            .port("tcp", Port::new(80).unwrap())
            .to("10.96.0.10".parse().unwrap())
            .not_from("10.244.0.0/16".parse().unwrap())
            .then("KUBE-MARK-MASQ");
        assert_eq!(
            rule.to_string(),
            " ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web cluster IP\" \
             -m tcp --dport 80 -j KUBE-MARK-MASQ"
        );
        assert_eq!(Rule::new().from("::/0".parse().unwrap()).then("RETURN").to_string(), " -j RETURN");
        assert_eq!(Rule::new().comment("only").to_string(), " -m comment --comment \"only\"");
    }
}
