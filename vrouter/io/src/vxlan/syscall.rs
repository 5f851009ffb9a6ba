//! `recvmmsg` for both kinds of tunnel, and `sendmsg`, with the control messages of UDP offloads: UDP_GRO says how a
//! received buffer is made up of packets, UDP_SEGMENT how a sent one is to be cut. And `setsockopt` for what `nix` has
//! no name for.

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use vrouter_forward::frame::Frame;

/// Room for one control message of a number, as the kernel aligns it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// What is reused from one `recvmmsg` to the next.
pub(super) struct ReceiveBatch {
    messages: Box<[libc::mmsghdr]>,
    buffers: Box<[libc::iovec]>,
    sources: Box<[libc::sockaddr_storage]>,
    controls: Box<[Control]>,
}

// SAFETY: the pointers among the messages lead into the other fields' own allocations, which go along with them, and to
// buffers that `receive` borrows, where nobody looks once it has returned.
unsafe impl Send for ReceiveBatch {}

/// What one received buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received {
    /// Who sent it.
    pub(super) source: IpAddr,
    /// How many bytes.
    pub(super) len: usize,
    /// How many bytes each of its packets has, but perhaps the last; `None`: it is one packet.
    pub(super) segment: Option<usize>,
}

impl ReceiveBatch {
    /// For up to so many buffers at once.
    pub(super) fn new(count: usize) -> Self {
        // SAFETY: these are plain C structs of integers and pointers, for which all zero is a value.
        let (message, buffer, source) = unsafe { (zeroed(), zeroed(), zeroed()) };
        Self {
            messages: vec![message; count].into_boxed_slice(),
            buffers: vec![buffer; count].into_boxed_slice(),
            sources: vec![source; count].into_boxed_slice(),
            controls: vec![Control([0; 64]); count].into_boxed_slice(),
        }
    }

    /// Reads what is waiting into the rooms of these frames, as many buffers as there are frames, the first `prefix`
    /// bytes of each before where the frame is to begin; returns how many were filled. Does not wait.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: &mut [Frame],
        prefix: usize,
    ) -> io::Result<usize> {
        let count = frames.len().min(self.messages.len());
        for (number, frame) in frames[..count].iter_mut().enumerate() {
            let room = frame.room_mut(prefix);
            self.buffers[number] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            let header = &mut self.messages[number].msg_hdr;
            header.msg_name = (&raw mut self.sources[number]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.buffers[number];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.controls[number]).cast();
            header.msg_controllen = size_of::<Control>();
            header.msg_flags = 0;
        }
        // SAFETY: the first `count` messages point to a name, a buffer and a control room of the lengths they say, all
        // borrowed by this call: `self` and `frames` mutably.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received as usize) }
    }

    /// How many bytes buffer `number` of the last call holds.
    pub(super) fn len(&self, number: usize) -> usize {
        self.messages[number].msg_len as usize
    }

    /// What buffer `number` of the last call holds. `None` if it came from no IP address.
    pub(super) fn received(&self, number: usize) -> Option<Received> {
        let message = &self.messages[number];
        let source = address_of(&self.sources[number])?;
        Some(Received { source, len: self.len(number), segment: segment_of(&message.msg_hdr) })
    }
}

fn address_of(storage: &libc::sockaddr_storage) -> Option<IpAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: of this family it is a `sockaddr_in`, which a `sockaddr_storage` is large and aligned enough for.
            let address = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a `sockaddr_in6`.
            let address = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The size that UDP_GRO tells.
fn segment_of(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel filled the header's control room up to `msg_controllen`, and the room is as large as that.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    let mut message = first;
    while !message.is_null() {
        // SAFETY: the CMSG functions return null or a header within the control room.
        let control = unsafe { &*message };
        if control.cmsg_level == libc::SOL_UDP && control.cmsg_type == libc::UDP_GRO {
            // SAFETY: the data of this message is an `int`, not necessarily aligned.
            let size = unsafe { libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned() };
            return usize::try_from(size).ok().filter(|size| *size > 0);
        }
        // SAFETY: as for the first.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}

/// Sends these parts to this address: as one packet, or as packets of `segment` bytes, the last perhaps shorter.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    to: SocketAddr,
    segment: Option<u16>,
    parts: &[IoSlice<'_>],
) -> io::Result<()> {
    let address = SockaddrStorage::from(to);
    let mut control = Control([0; 64]);
    // SAFETY: a `msghdr` is integers and pointers, for which all zero is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_name = address.as_ptr().cast_mut().cast();
    header.msg_namelen = address.len();
    // An IoSlice is laid out as an iovec; `sendmsg` only reads them.
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = parts.len();
    if let Some(segment) = segment {
        put_segment(&mut header, &mut control, segment);
    }
    // SAFETY: the header points to an address, parts and a control room of the lengths it says, all borrowed here.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn put_segment(header: &mut libc::msghdr, control: &mut Control, segment: u16) {
    header.msg_control = (&raw mut *control).cast();
    // SAFETY: CMSG_SPACE and CMSG_LEN only compute; the space of two bytes is far less than the control room's.
    let (space, len) = unsafe { (libc::CMSG_SPACE(2), libc::CMSG_LEN(2)) };
    header.msg_controllen = space as usize;
    // SAFETY: the control room has space for one message, so the first header is within it.
    let message = unsafe { &mut *libc::CMSG_FIRSTHDR(header) };
    message.cmsg_level = libc::SOL_UDP;
    message.cmsg_type = libc::UDP_SEGMENT;
    message.cmsg_len = len as usize;
    // SAFETY: the message has room for two bytes of data, not necessarily aligned.
    unsafe { libc::CMSG_DATA(message).cast::<u16>().write_unaligned(segment) };
}

/// Sets a socket option of a plain C type.
pub(super) fn set_option<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is `len` bytes that live through the call, which only reads them and what they point to; a
    // descriptor that is no socket is an error.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
