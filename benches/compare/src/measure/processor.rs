//! The processor time of the whole machine, which also counts what the kernel does on nobody's account.

use std::fs;
use std::thread;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const FILE: &str = "/proc/stat";

/// The length of a tick in `/proc`, on every architecture that Linux calls its own.
const TICK: Duration = Duration::from_millis(10);

/// How long the processors were busy since the machine started.
pub fn busy() -> Result<Duration> {
    let text = fs::read_to_string(FILE).context(FILE)?;
    parse(&text).with_context(|| format!("{FILE}: no line for all processors"))
}

/// How much of the processors is taken while this waits, 1.0 for all of them.
pub fn busy_share(watched: Duration) -> Result<f64> {
    let cores = available_parallelism().context("counting processors")?.get();
    let (start, before) = (Instant::now(), busy()?);
    thread::sleep(watched);
    let taken = busy()?.saturating_sub(before);
    Ok(taken.as_secs_f64() / start.elapsed().as_secs_f64() / cores as f64)
}

fn parse(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u32> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    // Idle and waiting for a disk come between, time stolen by others after.
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else { return None };
    Some(TICK * [user, nice, system, irq, softirq].iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_do_not_count() {
        let text = "cpu  1092952 98992 239910 919970 5722 0 24694 318 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse(text), Some(Duration::from_millis(10) * (1_092_952 + 98_992 + 239_910 + 24_694)));
        assert_eq!(parse("cpu0 1 2 3 4 5 6 7\n"), None);
        assert_eq!(parse("cpu  1 2 3\n"), None);
    }
}
