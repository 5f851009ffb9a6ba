//! The processor time of the whole machine, which also counts what the kernel does on nobody's account.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const FILE: &str = "/proc/stat";

/// The length of a tick in `/proc`, in milliseconds, on every architecture that Linux calls its own.
const TICK: u64 = 10;

/// How long one look at the machine takes.
const GLANCE: Duration = Duration::from_millis(250);

/// How long it is waited at most until the machine is idle.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is called idle: something always runs.
const IDLE: f64 = 0.05;

/// How long the processors were busy since the machine started.
pub fn busy() -> Result<Duration> {
    read().map(|(busy, _)| busy)
}

/// How much of the processors is taken while this waits, 1.0 for all of them.
pub fn busy_share(watched: Duration) -> Result<f64> {
    let (start, before) = (Instant::now(), busy()?);
    thread::sleep(watched);
    let (after, cores) = read()?;
    Ok(after.saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64() / cores as f64)
}

/// Waits until hardly anything runs, but not forever: the kernel still takes namespaces apart when their names are gone.
/// Returns how much of the processors was taken in the end.
pub fn wait_until_idle() -> Result<f64> {
    let start = Instant::now();
    loop {
        let share = busy_share(GLANCE)?;
        if share < IDLE || start.elapsed() >= PATIENCE {
            return Ok(share);
        }
    }
}

/// How long the processors were busy, and how many there are.
fn read() -> Result<(Duration, usize)> {
    let text = fs::read_to_string(FILE).context(FILE)?;
    let busy = parse(&text).with_context(|| format!("{FILE}: no line for all processors"))?;
    Ok((busy, processors(&text)))
}

fn processors(text: &str) -> usize {
    let is_of_one = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    text.lines().filter(is_of_one).count()
}

fn parse(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    // Idle and waiting for a disk come between, time stolen by others after.
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else { return None };
    let ticks: u64 = [user, nice, system, irq, softirq].iter().sum();
    Some(Duration::from_millis(ticks * TICK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_do_not_count() {
        let text = "cpu  5092952000 98992 239910 919970 5722 0 24694 318 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let ticks = 5_092_952_000 + 98_992 + 239_910 + 24_694;
        assert_eq!(parse(text), Some(Duration::from_millis(10 * ticks)));
        assert_eq!(processors(text), 1);
        assert_eq!(parse("cpu0 1 2 3 4 5 6 7\n"), None);
        assert_eq!(parse("cpu  1 2 3\n"), None);
    }
}
