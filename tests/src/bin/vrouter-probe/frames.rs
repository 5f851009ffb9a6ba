//! Frames as they are, on a packet socket.

use std::io::stdin;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use vrouter_tests::frame::{from_hex, to_hex};
use vrouter_tests::report::Capture;

use crate::until_told::UntilTold;

const BUFFER: usize = 8 << 20;
/// More are not kept, however busy the interface is.
const MOST: usize = 100_000;
/// What was there before the end is read within this time.
const LINGER: Duration = Duration::from_millis(200);

fn open(interface: &str) -> Result<OwnedFd> {
    let address = getifaddrs()?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address?.as_link_addr().copied())
        .ok_or_else(|| anyhow!("no interface {interface}"))?;
    let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    bind(fd.as_raw_fd(), &address).with_context(|| interface.to_owned())?;
    Ok(fd)
}

/// Sends what standard input says and returns how many frames that were.
pub fn send_given(interface: &str) -> Result<usize> {
    let fd = open(interface)?;
    let mut sent = 0;
    for line in stdin().lines() {
        send(fd.as_raw_fd(), &from_hex(&line?)?, MsgFlags::empty()).context("send")?;
        sent += 1;
    }
    Ok(sent)
}

/// Everything that is seen on an interface until told to stop.
pub fn capture(interface: &str) -> Result<Capture> {
    let fd = open(interface)?;
    setsockopt(&fd, sockopt::RcvBufForce, &BUFFER)?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::new(0, 20_000))?;
    let told = UntilTold::begin()?;
    let mut capture = Capture::default();
    let mut buffer = vec![0; 1 << 17];
    let mut end = None;
    while capture.frames.len() < MOST && end.is_none_or(|end| Instant::now() < end) {
        if told.is_over() {
            end.get_or_insert_with(|| Instant::now() + LINGER);
        }
        match recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(length) => capture.frames.push(to_hex(&buffer[..length])),
            Err(Errno::EAGAIN) if end.is_some() => break,
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => return Err(error).context(interface.to_owned()),
        }
    }
    Ok(capture)
}
