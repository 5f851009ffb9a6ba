//! How the channel to the controller is.

use tonic::transport::Channel;

/// The channel to the controller, as the rest of the node sees it.
#[derive(Debug, Clone)]
pub enum LinkState {
    /// The node has just started and has not reached it yet, nor failed to.
    Connecting,
    /// It is open.
    Up {
        /// The connection, which other services of the controller can be asked through too.
        channel: Channel,
    },
    /// It is broken; the node tries again.
    Down {
        /// Why.
        error: String,
    },
}

impl LinkState {
    /// Whether it is worth waiting for something from the controller.
    pub fn may_bring_more(&self) -> bool {
        !matches!(self, Self::Down { .. })
    }

    /// The connection, while there is one.
    pub fn channel(&self) -> Option<Channel> {
        match self {
            Self::Up { channel } => Some(channel.clone()),
            Self::Connecting | Self::Down { .. } => None,
        }
    }

    /// What is wrong with it, if something is.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Down { error } => Some(error),
            Self::Connecting | Self::Up { .. } => None,
        }
    }
}
