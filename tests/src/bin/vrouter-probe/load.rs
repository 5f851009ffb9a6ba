//! A steady load: some connections that are kept, and a stream of fresh ones.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use vrouter_tests::report::Load;

use crate::http::{After, Connection};
use crate::requests::{count, fresh};
use crate::until_told::UntilTold;

/// Whom to load, and how much.
#[derive(Debug, Args)]
pub struct Options {
    target: SocketAddr,
    /// How many connections are kept.
    #[arg(long, default_value_t = 16)]
    kept: u32,
    /// Milliseconds between two requests of one client.
    #[arg(long, default_value_t = 5)]
    pause: u64,
}

/// Loads until told to stop.
pub fn run(options: &Options) -> Result<Load> {
    let load = Mutex::new(Load::default());
    let told = UntilTold::begin()?;
    let pause = Duration::from_millis(options.pause);
    thread::scope(|scope| {
        for _ in 0..options.kept {
            scope.spawn(|| keep_asking(options.target, pause, &told, &load));
        }
        scope.spawn(|| {
            while !told.is_over() {
                let outcome = fresh(options.target, 0);
                count(&mut locked(&load).fresh, &outcome);
                thread::sleep(pause);
            }
        });
    });
    load.into_inner().map_err(|_| anyhow!("a client panicked"))
}

fn keep_asking(target: SocketAddr, pause: Duration, told: &UntilTold, load: &Mutex<Load>) {
    while !told.is_over() {
        if let Err(error) = one_connection(target, pause, told, load) {
            count(&mut locked(load).kept, &Err(error));
            thread::sleep(pause);
        }
    }
}

/// Asks on one connection until the server closes it, it fails, or there has been enough.
fn one_connection(target: SocketAddr, pause: Duration, told: &UntilTold, load: &Mutex<Load>) -> Result<()> {
    let mut connection = Connection::open(target, 0)?;
    let mut first: Option<String> = None;
    while !told.is_over() {
        let answer = connection.ask(After::Open)?;
        let mut load = locked(load);
        load.moved += u64::from(first.as_ref().is_some_and(|first| *first != answer.member.pod));
        count(&mut load.kept, &Ok(answer.member.clone()));
        if answer.after == After::Close {
            load.closed += 1;
            return Ok(());
        }
        drop(load);
        first.get_or_insert(answer.member.pod);
        thread::sleep(pause);
    }
    Ok(())
}

fn locked(load: &Mutex<Load>) -> MutexGuard<'_, Load> {
    load.lock().expect("no thread panics while it counts")
}
