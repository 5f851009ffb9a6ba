//! Tables of chains, as `iptables-save` prints them: the kernel's own chains first, then ours in order of name.

use std::collections::BTreeMap;
use std::fmt;

use super::rule::Rule;

/// The two tables that kube-proxy writes to.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) filter: Table,
    pub(super) nat: Table,
}

/// One table.
#[derive(Debug)]
pub(super) struct Table {
    name: &'static str,
    /// Chains that packets begin with.
    hooks: Vec<(&'static str, Vec<Rule>)>,
    chains: BTreeMap<String, Vec<Rule>>,
}

impl Tables {
    /// Empty ones.
    pub(super) fn new() -> Self {
        Self {
            filter: Table::new("filter", &["INPUT", "FORWARD", "OUTPUT"]),
            nat: Table::new("nat", &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"]),
        }
    }
}

impl Table {
    fn new(name: &'static str, hooks: &[&'static str]) -> Self {
        Self { name, hooks: hooks.iter().map(|hook| (*hook, Vec::new())).collect(), chains: BTreeMap::new() }
    }

    /// Makes a chain, unless it is there.
    pub(super) fn chain(&mut self, name: impl Into<String>) {
        self.chains.entry(name.into()).or_default();
    }

    /// Appends a rule to a chain, which is made where it is not there yet.
    pub(super) fn append(&mut self, chain: &str, rule: Rule) {
        match self.hooks.iter_mut().find(|(hook, _)| *hook == chain) {
            Some((_, rules)) => rules.push(rule),
            None => self.chains.entry(chain.to_owned()).or_default().push(rule),
        }
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.filter, self.nat)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "*{}", self.name)?;
        for (hook, _) in &self.hooks {
            writeln!(f, ":{hook} ACCEPT [0:0]")?;
        }
        for name in self.chains.keys() {
            writeln!(f, ":{name} - [0:0]")?;
        }
        let hooks = self.hooks.iter().map(|(hook, rules)| (*hook, rules));
        let chains = self.chains.iter().map(|(name, rules)| (name.as_str(), rules));
        for (chain, rules) in hooks.chain(chains) {
            for rule in rules {
                writeln!(f, "-A {chain}{rule}")?;
            }
        }
        writeln!(f, "COMMIT")
    }
}
