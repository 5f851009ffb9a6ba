//! A packet socket on one device, that reads and writes frames behind a virtio-net header.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use libc::{c_int, sock_filter};

use super::super::syscall::set_option;
use crate::vnet::{HEADER_LEN, PacketSink};

/// Room for what arrives while a worker is busy or has lost its core; and for super-frames on their way out. All of a
/// worker's sockets share it, but none has more or less than is of use.
const BUFFER_BYTES: usize = 64 << 20;
const MOST_BUFFER_BYTES: usize = 16 << 20;
const LEAST_BUFFER_BYTES: usize = 1 << 20;

/// The longest frame that still fits one outer packet: its IPv4 length counts the IP, UDP and VXLAN headers too.
const MAX_INNER: usize = 65_535 - 20 - 8 - 8;

/// A packet socket on one device, read and written by one worker.
#[derive(Debug)]
pub(crate) struct PacketSocket(File);

/// Where setting up a socket failed, and why.
type Failure = (&'static str, io::Error);

impl PacketSocket {
    /// Opens a socket for each worker on the device of this index. The kernel spreads the inner flows over them; all
    /// fragments of a datagram go the same way.
    pub(super) fn open_group(index: u32, workers: usize) -> Result<Vec<Arc<Self>>, Failure> {
        let sockets = (0..workers).map(|_| Self::open(index)).collect::<Result<Vec<_>, _>>()?;
        join_group(&sockets).map_err(|error| ("sharing it among workers", error))?;
        // Until here each would have had every frame.
        for socket in &sockets {
            set_filter(&socket.0, &UNTAGGED).map_err(|error| ("setting its filter", error))?;
        }
        Ok(sockets.into_iter().map(Arc::new).collect())
    }

    fn open(index: u32) -> Result<Self, Failure> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: a system call on plain numbers. It is bound to a protocol below: until then nothing arrives.
        let descriptor = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if descriptor < 0 {
            return Err(("opening a packet socket", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was just opened, and nobody else has it.
        let socket = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        let step = |step| move |error| (step, error);
        set_filter(&socket, &NOTHING).map_err(step("setting its filter"))?;
        let set = |option, value: c_int| set_option(&socket, libc::SOL_PACKET, option, &value);
        set(libc::PACKET_VNET_HDR, 1).map_err(step("asking for offload headers"))?;
        set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(step("ignoring what others send"))?;
        bind(&socket, index).map_err(step("binding a packet socket"))?;
        Ok(Self(socket))
    }

    /// Gives it its share of the buffers, as one of so many sockets of a worker.
    pub(super) fn share_buffers(&self, sockets: usize) -> Result<(), Failure> {
        let bytes = buffer_bytes(sockets);
        // Beyond the system's limit where we may.
        for (forced, usual) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            set_option(&self.0, libc::SOL_SOCKET, forced, &bytes)
                .or_else(|_| set_option(&self.0, libc::SOL_SOCKET, usual, &bytes))
                .map_err(|error| ("setting its buffers", error))?;
        }
        Ok(())
    }
}

/// What each of so many sockets of a worker gets.
fn buffer_bytes(sockets: usize) -> c_int {
    let share = BUFFER_BYTES.checked_div(sockets).unwrap_or(BUFFER_BYTES);
    share.clamp(LEAST_BUFFER_BYTES, MOST_BUFFER_BYTES) as c_int
}

/// Has the kernel spread the flows over these sockets of one device.
fn join_group(sockets: &[PacketSocket]) -> io::Result<()> {
    let [first, others @ ..] = sockets else { return Ok(()) };
    if others.is_empty() {
        return Ok(());
    }
    let join = |socket: &PacketSocket, group: u32| {
        set_option(&socket.0, libc::SOL_PACKET, libc::PACKET_FANOUT, &group)
    };
    // The group's number stands in the lower half, how frames are spread in the upper one.
    let spread = libc::PACKET_FANOUT_HASH << 16;
    join(first, spread | libc::PACKET_FANOUT_FLAG_UNIQUEID << 16)?;
    let number = group_of(&first.0)? & 0xffff;
    others.iter().try_for_each(|socket| join(socket, spread | number))
}

fn group_of(socket: &File) -> io::Result<u32> {
    let mut group: u32 = 0;
    let mut len = size_of::<u32>() as libc::socklen_t;
    let value = (&raw mut group).cast();
    // SAFETY: the socket is open; the value has room for the `len` bytes that are written at most.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, value, &raw mut len)
    };
    if result == 0 { Ok(group) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &File, index: u32) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is a plain C struct of integers, for which all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as c_int;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the socket is open, and the address is `len` bytes that live through the call.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A filter that lets nothing in.
const NOTHING: [sock_filter; 1] = [instruction(libc::BPF_RET | libc::BPF_K, 0, 0)];

/// A filter that lets in what bears no VLAN id. The kernel has taken a tag off the frame by now, so that nobody could
/// tell afterwards; virtual networks have none.
const UNTAGGED: [sock_filter; 5] = [
    instruction(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG) as u32,
        0,
    ),
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0x0fff, 0),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0),
    instruction(libc::BPF_RET | libc::BPF_K, u32::MAX, 0),
];

/// A BPF instruction; `skip` is how many are left out if its comparison holds.
const fn instruction(code: u32, operand: u32, skip: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: skip, jf: 0, k: operand }
}

fn set_filter(socket: &File, filter: &[sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PacketSink for Arc<PacketSocket> {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > HEADER_LEN + MAX_INNER {
            // As the kernel says to a super-frame that it does not take: it leaves in pieces then.
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // A packet is taken whole or not at all, so the count says nothing.
        match parts {
            [packet] => (&self.0).write(packet),
            parts => (&self.0).write_vectored(parts),
        }
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_share_the_buffers_within_bounds() {
        let mebibytes = |sockets| buffer_bytes(sockets) >> 20;
        assert_eq!([1, 4, 8, 64, 10_000].map(mebibytes), [16, 16, 8, 1, 1]);
    }
}
