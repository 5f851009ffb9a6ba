//! Running the system's own tools.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command to its end and returns what it printed. A failure names the command and what it said.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = S>) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    succeeded(&command, output)
}

/// The same, with these bytes on standard input.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Result<String> {
    let output = output_with_input(command, input)?;
    succeeded(command, output)
}

/// Runs a command with these bytes on standard input, whatever its exit code.
pub fn output_with_input(command: &mut Command, input: &[u8]) -> Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    // A child that does not read its input to the end says why on standard error.
    let _ = child.stdin.take().expect("it was piped").write_all(input);
    Ok(child.wait_with_output()?)
}

/// Splits a command line at spaces: for our own constant lines, where nothing needs quoting.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn succeeded(command: &Command, output: Output) -> Result<String> {
    if !output.status.success() {
        let line: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(OsStr::to_string_lossy)
            .collect();
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", line.join(" "), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
