//! The node's side of the control channel: one stream to the controller, made again whenever it breaks. The node
//! forwards on meanwhile with what it has.

mod backoff;
mod link;
mod session;
mod target;
#[cfg(test)]
mod tests;
mod update;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tonic::transport::Channel;

pub use link::LinkState;
pub use session::SessionError;
pub use target::{Security, Target, TargetError};
pub use update::{Assembly, Base, FrameError, Update, WireKey};

use crate::agent::Agent;
use backoff::Backoff;
use session::{Outcome, Trust, exchange};

/// The first wait before a broken channel is made again, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Keeps a channel to the controller for as long as it is polled.
pub async fn follow(agent: Arc<Agent>, target: Target) {
    let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
    let mut trust = Trust::Held;
    loop {
        let error = match target.connect().await {
            Ok(channel) => {
                let begun = Instant::now();
                let outcome = attempt(&agent, &target, channel, trust).await;
                if outcome.applied {
                    trust = Trust::Held;
                }
                if outcome.applied || begun.elapsed() > BACKOFF.1 {
                    backoff.reset();
                }
                if outcome.error.breaks_trust() {
                    trust = Trust::Nothing;
                }
                outcome.error
            }
            Err(error) => SessionError::Connect(error),
        };
        let wait = backoff.next(backoff::random());
        tracing::warn!("controller {}: {error}; trying again in {} ms", target.uri(), wait.as_millis());
        agent.link().send_replace(LinkState::Down { error: error.to_string() });
        tokio::time::sleep(wait).await;
    }
}

async fn attempt(agent: &Arc<Agent>, target: &Target, channel: Channel, trust: Trust) -> Outcome {
    tracing::info!("connected to controller {}", target.uri());
    agent.link().send_replace(LinkState::Up { channel: channel.clone() });
    exchange(agent, channel, trust).await
}
