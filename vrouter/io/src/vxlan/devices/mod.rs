//! VXLAN through the kernel's vxlan devices, one for each VNI, by packet sockets (packet(7)) with virtio-net headers: a
//! super-frame crosses them whole, and the kernel's own path takes it to the other node.
//!
//! The outer header is the kernel's business, and not seen here. Where a frame goes, the device finds by the inner
//! destination MAC address, in its forwarding database; where one came from, the inner source MAC address says. So
//! these can be believed only as far as strangers are kept from the device.

mod packet_socket;
mod peers;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use vrouter_forward::frame::{Egress, Frame, Ingress};
use vrouter_objects::{DropReason, Vni};

use self::packet_socket::PacketSocket;
use super::syscall::ReceiveBatch;
use super::window::{MOST_BUFFERS, Window};
use crate::IoError;
use crate::ledger::Ledger;
use crate::vnet::{self, HEADER_LEN, SuperFrames, Transmitter};
use crate::worker::{Waiting, take};

pub use peers::Peers;

/// One of the kernel's vxlan devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelDevice {
    /// What it carries.
    pub vni: Vni,
    /// Its name, in the network namespace of the caller.
    pub name: String,
}

/// The packet sockets of all workers, by VNI and device: a device that was removed and made anew has another index.
#[derive(Debug)]
pub(crate) struct DeviceSockets(BTreeMap<(Vni, u32), Vec<Arc<PacketSocket>>>);

impl DeviceSockets {
    /// None at all.
    pub(crate) const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// The sockets of exactly these devices: those that are open already go on, with everything that waits in them.
    /// Each worker has one for each device, of which all share their buffers.
    pub(crate) fn following(&self, devices: &[TunnelDevice], workers: usize) -> Result<Self, IoError> {
        let sockets = devices.iter().map(|device| {
            let failed = |source: io::Error| device.failed("looking for it", source);
            let index = nix::net::if_::if_nametoindex(device.name.as_str()).map_err(|e| failed(e.into()))?;
            let key = (device.vni, index);
            let sockets = match self.0.get(&key) {
                Some(sockets) => sockets.clone(),
                None => PacketSocket::open_group(index, workers)
                    .map_err(|(step, source)| device.failed(step, source))?,
            };
            let mut shares = sockets.iter().map(|socket| socket.share_buffers(devices.len()));
            shares.try_for_each(|shared| shared.map_err(|(step, source)| device.failed(step, source)))?;
            Ok((key, sockets))
        });
        sockets.collect::<Result<_, _>>().map(Self)
    }

    /// The share of worker `number`.
    pub(crate) fn tunnel(&self, number: usize, peers: &Arc<Peers>) -> DeviceTunnel {
        let ports = self.0.iter().filter_map(|((vni, _), sockets)| {
            let transmitter = Transmitter::new(Arc::clone(sockets.get(number)?), SuperFrames::TcpAndUdp);
            Some(DevicePort { vni: *vni, transmitter, window: Window::new() })
        });
        DeviceTunnel {
            ports: ports.collect(),
            peers: Arc::clone(peers),
            batch: ReceiveBatch::new(MOST_BUFFERS),
            buffers: Vec::new(),
        }
    }
}

impl TunnelDevice {
    fn failed(&self, step: &'static str, source: io::Error) -> IoError {
        IoError::TunnelDevice { name: self.name.clone(), step, source }
    }
}

/// A worker's packet sockets, one for each device.
pub(crate) struct DeviceTunnel {
    /// By VNI, ascending.
    ports: Vec<DevicePort>,
    peers: Arc<Peers>,
    batch: ReceiveBatch,
    /// Empty between two reads.
    buffers: Vec<Frame>,
}

struct DevicePort {
    vni: Vni,
    transmitter: Transmitter<Arc<PacketSocket>>,
    window: Window,
}

impl DeviceTunnel {
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports.iter().map(|port| port.transmitter.sink().as_fd())
    }

    pub(super) fn receive(
        &mut self,
        number: usize,
        frames: &mut Vec<Frame>,
        spare: &mut Vec<Frame>,
        ledger: &mut impl Ledger,
    ) -> Waiting {
        let Some(port) = self.ports.get_mut(number) else { return Waiting::Nothing };
        let room = port.window.get();
        self.buffers.extend((0..room).map(|_| take(spare)));
        let received = self.batch.receive(port.transmitter.sink().as_fd(), &mut self.buffers, HEADER_LEN);
        // An error passes, such as that the device was down; what waits is read next time.
        let count = received.unwrap_or(0);
        spare.extend(self.buffers.drain(count..).rev());
        let mut bytes = 0;
        for (number, mut frame) in self.buffers.drain(..).enumerate() {
            let len = self.batch.len(number);
            bytes += len;
            match take_in(&mut frame, len, port.vni, &self.peers) {
                Ok(()) => frames.push(frame),
                Err(reason) => {
                    ledger.refused(reason);
                    frame.reset();
                    spare.push(frame);
                }
            }
        }
        port.window.adapt(count, bytes);
        if count < room { Waiting::Nothing } else { Waiting::Perhaps }
    }

    pub(super) fn send(&mut self, frames: &mut [Frame], ledger: &mut impl Ledger) {
        let mut rest = frames;
        while let Some(first) = rest.first() {
            let vni = vni_of(first);
            let count = rest.iter().take_while(|frame| vni_of(frame) == vni).count();
            let (together, later) = rest.split_at_mut(count);
            match vni.and_then(|vni| self.port_mut(vni)) {
                // That the device is gone is said of each frame; whoever made it looks whether it is still there.
                Some(port) => drop(port.transmitter.send(together, ledger)),
                None => together.iter().for_each(|frame| ledger.lost(frame, DropReason::InterfaceDown)),
            }
            rest = later;
        }
    }

    fn port_mut(&mut self, vni: Vni) -> Option<&mut DevicePort> {
        let place = self.ports.binary_search_by_key(&vni, |port| port.vni).ok()?;
        self.ports.get_mut(place)
    }
}

fn vni_of(frame: &Frame) -> Option<Vni> {
    match frame.egress {
        Some(Egress::Tunnel { vni, .. }) => Some(vni),
        _ => None,
    }
}

/// Makes a frame of what was read, if it is one that a peer can have sent.
fn take_in(frame: &mut Frame, len: usize, vni: Vni, peers: &Peers) -> Result<(), DropReason> {
    vnet::take_in(frame, len).map_err(|_| DropReason::InvalidOffload)?;
    let (_, source) = frame.bytes().split_first_chunk::<6>().ok_or(DropReason::PacketTruncated)?;
    let source = source.first_chunk().ok_or(DropReason::PacketTruncated)?;
    let source = peers.address_of(source).ok_or(DropReason::UnknownVtep)?;
    frame.ingress = Ingress::Tunnel { source, vni };
    Ok(())
}

#[cfg(test)]
mod tests;
