//! A table while it is written.

use std::fmt;

/// Chains and rules of one table.
#[derive(Debug)]
pub struct Table {
    name: &'static str,
    comment: String,
    chains: Vec<String>,
    rules: Vec<String>,
}

impl Table {
    /// An empty one.
    pub fn new(name: &'static str) -> Self {
        Self { name, comment: "kubernetes".to_owned(), chains: Vec::new(), rules: Vec::new() }
    }

    /// Says what the rules that follow are about.
    pub fn comment(&mut self, text: &str) {
        text.clone_into(&mut self.comment);
    }

    /// Adds a chain.
    pub fn chain(&mut self, name: &str) {
        self.chains.push(format!(":{name} - [0:0]"));
    }

    /// Adds a rule behind the others of its chain.
    pub fn rule(&mut self, chain: &str, words: &str) {
        let comment = &self.comment;
        self.rules.push(format!("-A {chain} -m comment --comment \"{comment}\" {words}"));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "*{}", self.name)?;
        self.chains.iter().chain(&self.rules).try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "COMMIT")
    }
}
