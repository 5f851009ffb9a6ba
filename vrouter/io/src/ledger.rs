//! What became of frames on their way in and out, told to whoever keeps the counters.

use vrouter_forward::frame::Frame;
use vrouter_objects::DropReason;

/// Takes down what the receiving and sending sides did with frames, beyond passing them on.
pub(crate) trait Ledger {
    /// A received frame is not worth the pipeline: its offload header or tunnel header makes no sense.
    fn refused(&mut self, reason: DropReason);

    /// The kernel did not take a frame, or not all of its segments.
    fn lost(&mut self, frame: &Frame, reason: DropReason);

    /// A super-frame was written whole.
    fn sent_whole(&mut self);

    /// A super-frame was cut into so many packets, since its egress does not take it whole.
    fn cut(&mut self, packets: usize);

    /// So many packets were gathered into one super-frame.
    fn gathered(&mut self, packets: usize);
}
