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

impl Complaint {
    /// Of a field of an object that came from a file.
    pub fn new(source: &str, object: &impl fmt::Display, field: &str, message: impl Into<String>) -> Self {
        Self {
            source: source.to_owned(),
            object: object.to_string(),
            field: field.to_owned(),
            message: message.into(),
        }
    }

    /// Of something that stands in no file.
    pub fn bare(message: impl Into<String>) -> Self {
        Self::new("", &"", "", message)
    }
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

    /// Whether something was said of an object.
    pub fn is_about(&self, object: &impl fmt::Display) -> bool {
        let object = object.to_string();
        self.said.iter().any(|complaint| complaint.object == object)
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
