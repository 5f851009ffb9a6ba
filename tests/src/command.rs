//! Running programs, none of them without an end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;

use crate::report::STARTED;

const GLANCE: Duration = Duration::from_millis(5);

/// How a program ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The command line.
    pub line: String,
    /// The exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

impl Finished {
    /// Whether it exited with 0.
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// Fails, with all it said, unless it succeeded.
    pub fn success(self) -> Result<Self> {
        if self.succeeded() {
            return Ok(self);
        }
        let code = self.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
        bail!("{}: {code}\n{}{}", self.line, self.stdout, self.stderr)
    }

    /// What it printed, as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("{} printed {:?} {:?}", self.line, self.stdout, self.stderr))
    }
}

/// Runs a command to its end, or kills it after this time.
pub fn run(command: &mut Command, input: &[u8], limit: Duration) -> Result<Finished> {
    let line = line(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| line.clone())?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    if let Some(mut stdin) = child.stdin.take() {
        // Who does not read it to the end says why elsewhere.
        let _ = stdin.write_all(input);
    }
    let code = await_end(&mut child, limit).with_context(|| line.clone())?;
    let text = |reader: JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok(Finished { line, code, stdout: text(stdout), stderr: text(stderr) })
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error counts.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn await_end(child: &mut Child, limit: Duration) -> Result<Option<i32>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("killed after {limit:?}");
        }
        thread::sleep(GLANCE);
    }
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A probe that goes on until it is told to finish, and is killed where nobody does.
#[derive(Debug)]
pub struct Running {
    line: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts a probe and waits until it says that it has begun.
    pub fn start(command: &mut Command, limit: Duration) -> Result<Self> {
        let line = line(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| line.clone())?;
        let stdin = child.stdin.take();
        let stderr = Some(collect(child.stderr.take()));
        let stdout = child.stdout.take().ok_or_else(|| anyhow!("{line}: no standard output"))?;
        let mut running = Self { line, child, stdin, stdout: lines(stdout), stderr };
        match running.next_line(limit)?.as_str() {
            STARTED => Ok(running),
            other => bail!("{}: said {other:?} at first", running.line),
        }
    }

    /// Ends its standard input and reads what it reports.
    pub fn finish<T: DeserializeOwned>(mut self, limit: Duration) -> Result<T> {
        self.stdin = None;
        let text = self.next_line(limit)?;
        await_end(&mut self.child, limit).with_context(|| self.line.clone())?;
        serde_json::from_str(&text).with_context(|| format!("{} printed {text:?}", self.line))
    }

    fn next_line(&mut self, limit: Duration) -> Result<String> {
        match self.stdout.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("{}: silent for {limit:?}", self.line),
            Err(RecvTimeoutError::Disconnected) => {
                let said = self.stderr.take().map(|reader| reader.join().unwrap_or_default());
                bail!("{}: ended: {}", self.line, String::from_utf8_lossy(&said.unwrap_or_default()))
            }
        }
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already where it was finished.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tries again and again until it succeeds; fails with the last reason after this time.
pub fn eventually<T>(limit: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("still after {limit:?}")));
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_input_and_exit_code() {
        let finished = run(&mut shell("cat; echo no >&2; exit 3"), b"yes", Duration::from_secs(10)).unwrap();
        assert_eq!(
            (finished.code, finished.stdout.as_str(), finished.stderr.as_str()),
            (Some(3), "yes", "no\n")
        );
        assert!(finished.success().unwrap_err().to_string().contains("exit code 3"));
    }

    #[test]
    fn nothing_runs_for_ever() {
        let error = run(Command::new("sleep").arg("60"), b"", Duration::from_millis(20)).unwrap_err();
        assert!(format!("{error:#}").contains("sleep 60: killed after"), "{error:#}");
    }

    #[test]
    fn a_running_one_reports_when_its_input_ends() {
        let limit = Duration::from_secs(10);
        let running = Running::start(&mut shell("echo started; cat; echo 7"), limit).unwrap();
        assert_eq!(running.finish::<u64>(limit).unwrap(), 7);
        let error = Running::start(&mut shell("echo oh no >&2"), limit).unwrap_err();
        assert!(error.to_string().contains("oh no"), "{error}");
    }
}
