//! A client that asks a service again and again and counts who answered: over HTTP on kept or fresh connections, or by
//! datagrams.

mod session;
mod tally;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::sleep;

use session::Session;
pub use tally::Tally;

/// Whom to ask, and how.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// ADDRESS:PORT.
    target: SocketAddr,
    /// How many ask at the same time.
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// How many requests in all; without it, until told to end.
    #[arg(long)]
    requests: Option<u64>,
    /// For how many seconds at most.
    #[arg(long)]
    seconds: Option<u64>,
    /// Milliseconds that each client rests between two requests.
    #[arg(long, default_value_t = 0)]
    pause: u64,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
struct Manner {
    /// A new connection for every request.
    #[arg(long)]
    fresh: bool,
    /// Datagrams instead of HTTP.
    #[arg(long)]
    udp: bool,
}

/// Asks, prints the tally as JSON, and fails where a request failed.
pub fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tally = runtime.block_on(LocalSet::new().run_until(ask_all(options)))?;
    println!("{}", serde_json::to_string(&tally)?);
    if tally.failed > 0 {
        bail!("{} of {} requests failed", tally.failed, tally.requests);
    }
    Ok(())
}

async fn ask_all(options: &Options) -> Result<Tally> {
    let tally = Rc::new(RefCell::new(Tally::default()));
    let clients = LocalSet::new();
    for _ in 0..options.clients {
        clients.spawn_local(client(options.clone(), tally.clone()));
    }
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        () = clients => {}
        () = time_is_up(options) => {}
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(tally.take())
}

async fn time_is_up(options: &Options) {
    match options.seconds {
        Some(seconds) => sleep(Duration::from_secs(seconds)).await,
        None => std::future::pending().await,
    }
}

async fn client(options: Options, tally: Rc<RefCell<Tally>>) {
    let mut session: Option<Session> = None;
    while tally.borrow_mut().take_turn(options.requests) {
        let mut current = match session.take() {
            Some(session) => session,
            None => match Session::open(options.target, options.manner).await {
                Ok(session) => session,
                Err(error) => {
                    tally.borrow_mut().failed(&error);
                    continue;
                }
            },
        };
        match current.ask().await {
            Ok(answer) => {
                tally.borrow_mut().answered(&answer, current.member.as_deref());
                current.member = Some(answer.pod);
                session = Some(current).filter(Session::goes_on);
            }
            Err(error) => tally.borrow_mut().failed(&error),
        }
        if options.pause > 0 {
            sleep(Duration::from_millis(options.pause)).await;
        }
    }
}
