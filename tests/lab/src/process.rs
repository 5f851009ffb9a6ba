//! Background processes that outlive the command that started them.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// How often something awaited is looked at.
pub const POLL: Duration = Duration::from_millis(10);

/// A process, told apart from a later one with the same number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: i32,
    /// In clock ticks after boot, as the kernel has it.
    started: u64,
}

impl Process {
    /// Starts a command in a session of its own, its output appended to a file.
    pub fn spawn(command: &Command, marker: (&str, &str), log: &Path) -> Result<Self> {
        let output = open_log(log)?;
        let child = in_own_session(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env(marker.0, marker.1)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .current_dir("/")
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let pid = i32::try_from(child.id())?;
        let Some(stat) = Stat::of(Pid::from_raw(pid)) else { bail!("process {pid} is gone") };
        Ok(Self { pid, started: stat.started })
    }

    /// Its number.
    pub fn pid(self) -> Pid {
        Pid::from_raw(self.pid)
    }

    /// Whether it still runs. One that has ended and was not yet collected does not.
    pub fn runs(self) -> bool {
        Stat::of(self.pid()).is_some_and(|stat| stat.started == self.started && stat.runs())
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(self, signal: Signal) -> Result<()> {
        if self.runs() {
            send(self.pid(), signal)?;
        }
        Ok(())
    }

    /// Waits until it has ended; false where it still runs after this long.
    pub fn wait(self, limit: Duration) -> bool {
        wait_until(limit, || !self.runs())
    }
}

/// A command that will run in a session of its own.
///
/// Linux's autogroups share the processors out among sessions, each as nice as somebody made it. A new one is as good as
/// any other, so what runs in it is as fast as it would be if another shell had started it.
pub fn in_own_session(program: impl AsRef<OsStr>) -> Command {
    // It replaces itself by the program, whose number is the child's then. Only where the child led a process group, which
    // it does not, it would have to start another.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(program);
    command
}

/// Sends a signal; a process that is gone meanwhile is fine.
pub fn send(pid: Pid, signal: Signal) -> Result<()> {
    match kill(pid, signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot signal process {pid}")),
    }
}

/// Kills these processes and waits until they are gone.
pub fn kill_all(pids: &[Pid]) -> Result<()> {
    for &pid in pids {
        send(pid, Signal::SIGKILL)?;
    }
    let ended = |pid: &Pid| Stat::of(*pid).is_none_or(|stat| !stat.runs());
    if !wait_until(Duration::from_secs(10), || pids.iter().all(ended)) {
        bail!("processes survived SIGKILL: {pids:?}");
    }
    Ok(())
}

/// Every process of this machine.
pub fn all() -> Result<Vec<Pid>> {
    let entries = fs::read_dir("/proc").context("/proc")?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw);
    Ok(entries.filter_map(|entry| number(entry.ok()?)).collect())
}

/// This process and those it was started by.
pub fn own_line() -> Vec<Pid> {
    let mut line = vec![Pid::this()];
    while let Some(stat) = line.last().and_then(|&pid| Stat::of(pid))
        && stat.parent.as_raw() > 0
    {
        line.push(stat.parent);
    }
    line
}

/// Whether a process has this `NAME=VALUE` in the environment it was started with.
pub fn bears(pid: Pid, marker: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == marker.as_bytes()))
}

/// Looks again and again until something holds; false where it does not within this time.
pub fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// The last lines of a log, for an error message.
pub fn log_tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(10)..];
    if tail.is_empty() { "it printed nothing".to_owned() } else { tail.join("\n") }
}

fn open_log(log: &Path) -> Result<File> {
    if let Some(directory) = log.parent() {
        fs::create_dir_all(directory)?;
    }
    OpenOptions::new().create(true).append(true).open(log).with_context(|| log.display().to_string())
}

/// What `/proc/PID/stat` tells.
struct Stat {
    state: char,
    parent: Pid,
    threads: u32,
    started: u64,
}

impl Stat {
    fn of(pid: Pid) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The command's name stands in parentheses and may itself hold spaces and parentheses.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<_> = rest.split(' ').collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: Pid::from_raw(fields.get(1)?.parse().ok()?),
            threads: fields.get(17)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// The first thread may be gone before the others, which hold the process's files and locks until they are too.
    fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let line = "42 (a) b) (c) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1 1";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.started, stat.runs()), (Pid::from_raw(7), 98765, true));
        let ended = line.replace(" S ", " Z ");
        assert!(!Stat::parse(&ended).unwrap().runs());
        assert!(Stat::parse(&ended.replace(" 1 0 98765", " 3 0 98765")).unwrap().runs(), "threads are left");
    }

    #[test]
    fn a_process_is_followed_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $COLOUR $MARK; exec sleep 60"]).env("COLOUR", "blue");
        let process = Process::spawn(&command, ("MARK", "mine"), &log).unwrap();
        assert!(wait_until(Duration::from_secs(10), || log_tail(&log) == "blue mine"));
        assert!(process.runs());
        assert!(bears(process.pid(), "MARK=mine"));
        process.signal(Signal::SIGTERM).unwrap();
        assert!(process.wait(Duration::from_secs(10)));
    }

    #[test]
    fn a_session_of_its_own_is_the_childs() {
        let child = in_own_session("cat").arg("/proc/self/stat").stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id().to_string();
        let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let fields: Vec<_> = said.split(' ').collect();
        let (number, session) = (fields[0], fields[5]);
        assert_eq!((number, session), (&*pid, &*pid));
    }

    #[test]
    fn own_line_starts_here_and_ends_at_the_first_process() {
        let line = own_line();
        assert_eq!(line.first(), Some(&Pid::this()));
        assert!(line.len() > 1);
    }
}
