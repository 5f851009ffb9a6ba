//! `nft`, which carries out scripts as a whole or not at all, in the caller's network namespace.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use thiserror::Error;

/// Why `nft` did not do it, in its own words.
#[derive(Debug, Error)]
#[error("nft: {0}")]
pub struct NftError(String);

/// Has a script carried out.
pub fn run(script: &str) -> Result<(), NftError> {
    let output = ask(script).map_err(|error| NftError(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(NftError(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn ask(script: &str) -> io::Result<Output> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    // Closed before it is waited for; if it ends without reading, its own words say why.
    if let Some(mut input) = nft.stdin.take() {
        let _ = input.write_all(script.as_bytes());
    }
    nft.wait_with_output()
}

/// Whether a table is there. Where `nft` cannot be asked it is not: without that none could have been made.
pub fn has_table(table: &str) -> bool {
    print(&["list", "tables"])
        .is_some_and(|tables| tables.lines().any(|line| line.strip_prefix("table ") == Some(table)))
}

/// A table as `nft` prints it, without what its sets contain and its counters say; `None` where it is not there.
pub fn outline(table: &str) -> Option<String> {
    let words: Vec<_> = ["-s", "-t", "list", "table"].into_iter().chain(table.split(' ')).collect();
    print(&words)
}

fn print(words: &[&str]) -> Option<String> {
    let output = Command::new("nft").args(words).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
