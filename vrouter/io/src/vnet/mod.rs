//! Frames that bear a virtio-net header, as a TAP and a packet socket read and write them: what their sender left to a
//! later stage stays left, and runs of one flow leave in one write.

mod header;
mod transmit;

use vrouter_forward::frame::Frame;

pub(crate) use header::{HEADER_LEN, InvalidHeader, MAX_DATAGRAMS};
pub(crate) use transmit::{PacketSink, SuperFrames, Transmitter, Unplugged};

use self::header::VnetHeader;

/// Makes a frame of `len` bytes that were read behind [`HEADER_LEN`] bytes less than the usual headroom, with the
/// offload that their header tells of.
pub(crate) fn take_in(frame: &mut Frame, len: usize) -> Result<(), InvalidHeader> {
    frame.set_len(len.checked_sub(HEADER_LEN).ok_or(InvalidHeader)?);
    let mut header = [0; HEADER_LEN];
    header.copy_from_slice(&frame.with_header_mut(HEADER_LEN)[..HEADER_LEN]);
    frame.offload = VnetHeader::from_bytes(&header).decode(frame.bytes())?;
    Ok(())
}
