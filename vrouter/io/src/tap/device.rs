//! The TAP driver's side: opening `/dev/net/tun` and telling it what we want.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use libc::{c_int, c_short};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use vrouter_objects::MacAddress;

use crate::IoError;
use crate::vnet::{HEADER_LEN, SuperFrames};

/// Unsafe bindings of the requests used here; each is documented in Linux's `tuntap.rst` and `netdevice(7)`.
mod request {
    nix::ioctl_write_ptr_bad!(set_interface, libc::TUNSETIFF, libc::ifreq);
    nix::ioctl_write_ptr_bad!(set_vnet_header_len, libc::TUNSETVNETHDRSZ, libc::c_int);
    nix::ioctl_write_int_bad!(set_offload, libc::TUNSETOFFLOAD);
    nix::ioctl_write_int_bad!(set_persist, libc::TUNSETPERSIST);
    nix::ioctl_write_ptr_bad!(set_mtu, libc::SIOCSIFMTU, libc::ifreq);
    nix::ioctl_write_ptr_bad!(set_mac, libc::SIOCSIFHWADDR, libc::ifreq);
}

/// Every packet with a virtio-net header and nothing else before it; a queue for each worker.
const FLAGS: c_int = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_MULTI_QUEUE;

const OFFLOAD_TCP: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
const OFFLOAD_TCP_AND_UDP: u32 = OFFLOAD_TCP | libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// An interface name that the kernel would accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InterfaceName(String);

impl InterfaceName {
    pub(super) fn new(name: &str) -> Result<Self, IoError> {
        let is_forbidden = |byte: u8| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace();
        let is_valid = (1..libc::IFNAMSIZ).contains(&name.len())
            && name != "."
            && name != ".."
            && !name.contains('%')
            && !name.bytes().any(is_forbidden);
        if is_valid { Ok(Self(name.to_owned())) } else { Err(IoError::InterfaceName(name.to_owned())) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// A request about this interface.
    fn request(&self) -> libc::ifreq {
        // SAFETY: `ifreq` is a plain C struct of integers, for which all zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.0.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    /// Names the step that failed.
    pub(super) fn failed(&self, step: &'static str) -> impl FnOnce(io::Error) -> IoError {
        move |source| IoError::Tap { name: self.0.clone(), step, source }
    }
}

/// Opens one more queue of the TAP of this name in the thread's network namespace, which is made if it is not there.
pub(super) fn open_queue(name: &InterfaceName) -> io::Result<File> {
    let queue = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = name.request();
    request.ifr_ifru.ifru_flags = FLAGS as c_short;
    // SAFETY: the descriptor is open and the request lives through the call, which only reads it.
    unsafe { request::set_interface(queue.as_raw_fd(), &request)? };
    let header_len = HEADER_LEN as c_int;
    // SAFETY: as above, for an integer.
    unsafe { request::set_vnet_header_len(queue.as_raw_fd(), &header_len)? };
    Ok(queue)
}

/// Says that we take checksums and super-frames as the sender left them; UDP ones where the kernel knows them. This
/// holds for the whole interface.
pub(super) fn accept_offloads(queue: &File) -> io::Result<SuperFrames> {
    // SAFETY: the descriptor is open; the argument is a plain number.
    let set = |offloads: u32| unsafe { request::set_offload(queue.as_raw_fd(), offloads as c_int) };
    match set(OFFLOAD_TCP_AND_UDP) {
        Ok(_) => Ok(SuperFrames::TcpAndUdp),
        Err(_) => Ok(set(OFFLOAD_TCP).map(|_| SuperFrames::Tcp)?),
    }
}

/// Whether an interface stays when its last descriptor is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    Stays,
    Goes,
}

/// Says whether the interface stays when its last descriptor is closed.
pub(super) fn set_persistence(queue: &File, persistence: Persistence) -> io::Result<()> {
    let value = c_int::from(persistence == Persistence::Stays);
    // SAFETY: the descriptor is open; the argument is a plain number.
    unsafe { request::set_persist(queue.as_raw_fd(), value)? };
    Ok(())
}

/// Sets the MTU of the interface of this name in the thread's network namespace.
pub(super) fn set_mtu(name: &InterfaceName, mtu: u16) -> io::Result<()> {
    // Any socket will do to speak of interfaces.
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = name.request();
    request.ifr_ifru.ifru_mtu = c_int::from(mtu);
    // SAFETY: the socket is open and the request lives through the call, which only reads it.
    unsafe { request::set_mtu(socket.as_raw_fd(), &request)? };
    Ok(())
}

/// Sets the MAC address of the queue's interface.
pub(super) fn set_mac(name: &InterfaceName, queue: &File, mac: MacAddress) -> io::Result<()> {
    let mut request = name.request();
    // SAFETY: a hardware address is integers all through, so the union's zeroes are one.
    let address = unsafe { &mut request.ifr_ifru.ifru_hwaddr };
    address.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in address.sa_data.iter_mut().zip(mac.0) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is open and the request lives through the call, which only reads it.
    unsafe { request::set_mac(queue.as_raw_fd(), &request)? };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_kernel_takes() {
        for good in ["a", "tap0", "vhost0", "fifteen-bytes-x"] {
            assert_eq!(InterfaceName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "a:b", "tap%d", "sixteen-bytes-xx", "a\0b"] {
            let error = InterfaceName::new(bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }
}
