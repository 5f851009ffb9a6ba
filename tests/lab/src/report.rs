//! What a command could not do, said as it is found and counted at the end.

use std::fmt;

use anyhow::{Result, bail};

/// Something in what was given that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// The file it came from.
    pub source: String,
    /// Kind and name; empty where it was not even known.
    pub object: String,
    /// The field's path; empty for the object as a whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.source, &self.object, &self.field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.message)
    }
}

/// The complaints of one command.
#[derive(Debug, Default)]
pub struct Report {
    said: Vec<Complaint>,
}

impl Report {
    /// Prints a complaint, once.
    pub fn complain(&mut self, complaint: Complaint) {
        if !self.said.contains(&complaint) {
            eprintln!("error: {complaint}");
            self.said.push(complaint);
        }
    }

    /// Fails where there was any complaint.
    pub fn conclude(self) -> Result<()> {
        match self.said.len() {
            0 => Ok(()),
            1 => bail!("1 problem; everything else is done"),
            count => bail!("{count} problems; everything else is done"),
        }
    }
}

/// Tells what was done with an object, as `kubectl` does.
pub fn done(object: &impl fmt::Display, what: &str) {
    println!("{object} {what}");
}
