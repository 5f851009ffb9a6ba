//! Watching packets go by, without a second implementation of what happens to them.

use vrouter_objects::DropReason;

use crate::flow::FlowKey;
use crate::frame::{Egress, Frame};

/// What can be seen of a packet's way.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A frame came in.
    Received(&'a Frame),
    /// Its flow was not in the table and is resolved.
    Resolving(&'a FlowKey),
    /// It leaves, as it now is.
    Forwarded(&'a Frame, Egress),
    /// A local service took it; where it answered in place, the answer leaves.
    Consumed(&'a Frame),
    /// It ends here; where its sender is told, it has become what the sender is told.
    Dropped(&'a Frame, DropReason),
    /// A piece that a packet was cut into leaves.
    Made(&'a Frame),
    /// It waits for the first fragment of its datagram.
    Held(&'a Frame),
}

/// Told of every event, in order. [`NoObserver`] costs nothing.
pub trait Observer {
    /// Something happened.
    fn observe(&mut self, event: Event<'_>);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    #[inline(always)]
    fn observe(&mut self, _: Event<'_>) {}
}
