//! How the tool ends, for scripts.

use std::process::ExitCode;

use crate::arguments::{Arguments, Command, PolicyArguments, PolicyQuestion};

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was shown, or what was asked is so.
    Shown,
    /// What was asked is not so.
    Denied,
    /// It cannot be told here.
    Untold,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Shown => Self::SUCCESS,
            Outcome::Denied => Self::FAILURE,
            Outcome::Untold => Self::from(2),
        }
    }
}

impl Arguments {
    /// What it comes to where there is an error: nobody may take one for a denial.
    pub fn outcome_of_error(&self) -> Outcome {
        match &self.command {
            Command::Policy(PolicyArguments { question: Some(PolicyQuestion::Test(_)), .. }) => {
                Outcome::Untold
            }
            _ => Outcome::Denied,
        }
    }
}
