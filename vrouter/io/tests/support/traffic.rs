//! Traffic whose every byte is checked.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Namespace;

const PATIENCE: Duration = Duration::from_secs(20);

/// Does it again where it was interrupted: a socket with a time-out is, by a process that was stopped and goes on
/// (signal(7)).
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The byte at this place of every stream and datagram.
fn byte_at(place: usize) -> u8 {
    (place * 31 + place / 257) as u8
}

fn pattern(start: usize, len: usize) -> Vec<u8> {
    (start..start + len).map(byte_at).collect()
}

fn any(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, 0)
}

/// Sends so many bytes by TCP from one namespace to an address in another, and checks what arrives.
pub fn stream(from: &Namespace, to: &Namespace, address: &str, len: usize) {
    let address: IpAddr = address.parse().unwrap();
    let listener = to.inside(|| TcpListener::bind(any(address)).unwrap());
    let target = listener.local_addr().unwrap();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        check(&mut stream, 0, len);
        stream.write_all(b"done").unwrap();
    });
    let mut stream = from.inside(|| TcpStream::connect_timeout(&target, PATIENCE).unwrap());
    send(&mut stream, 0, len);
    let mut answer = [0; 4];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    receiver.join().unwrap();
}

fn send(stream: &mut TcpStream, start: usize, len: usize) {
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    for place in (start..start + len).step_by(1 << 16) {
        stream.write_all(&pattern(place, (1 << 16).min(start + len - place))).unwrap();
    }
}

fn check(stream: &mut TcpStream, start: usize, len: usize) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut place = start;
    let mut buffer = vec![0; 1 << 16];
    while place < start + len {
        let room = buffer.len().min(start + len - place);
        let count = uninterrupted(|| stream.read(&mut buffer[..room])).unwrap();
        assert!(count > 0, "the stream ended at {place}");
        assert_eq!(buffer[..count], pattern(place, count), "at {place}");
        place += count;
    }
}

/// A TCP connection that stays open, with its receiving end in a thread.
pub struct Connection {
    stream: TcpStream,
    arrived: Receiver<usize>,
    receiver: JoinHandle<()>,
    sent: usize,
}

impl Connection {
    pub fn open(from: &Namespace, to: &Namespace, address: &str) -> Self {
        let address: IpAddr = address.parse().unwrap();
        let listener = to.inside(|| TcpListener::bind(any(address)).unwrap());
        let target = listener.local_addr().unwrap();
        let (sender, arrived) = channel();
        let receiver = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let mut place = 0;
            loop {
                let count = uninterrupted(|| stream.read(&mut buffer)).unwrap();
                assert_eq!(buffer[..count], pattern(place, count), "at {place}");
                place += count;
                if count == 0 || sender.send(place).is_err() {
                    return;
                }
            }
        });
        let stream = from.inside(|| TcpStream::connect_timeout(&target, PATIENCE).unwrap());
        Self { stream, arrived, receiver, sent: 0 }
    }

    /// Sends so many bytes and waits until they have arrived.
    pub fn send(&mut self, len: usize) {
        send(&mut self.stream, self.sent, len);
        self.sent += len;
        while self.arrived.recv_timeout(PATIENCE).expect("the bytes do not arrive") < self.sent {}
    }

    pub fn close(self) {
        drop(self.stream);
        self.receiver.join().unwrap();
    }
}

/// Sends datagrams of this length in batches to an echo server in another namespace, and checks that all come back, in
/// their order.
pub fn datagrams(from: &Namespace, to: &Namespace, address: &str, len: usize) {
    const BATCH: usize = 20;
    // Long ones go in fragments, and a router follows only so many datagrams in fragments at a time.
    let batches = if len > 1_400 { 10 } else { 50 };
    let address: IpAddr = address.parse().unwrap();
    let server = to.inside(|| UdpSocket::bind(any(address)).unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let target = server.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..1 + BATCH * batches {
            let (count, client) = uninterrupted(|| server.recv_from(&mut buffer)).unwrap();
            uninterrupted(|| server.send_to(&buffer[..count], client)).unwrap();
        }
    });
    let unspecified = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let client = from.inside(|| {
        let socket = UdpSocket::bind(unspecified).unwrap();
        socket.connect(target).unwrap();
        socket
    });
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let mut exchange = |numbers: Range<usize>| {
        for number in numbers.clone() {
            uninterrupted(|| client.send(&pattern(number, len))).unwrap();
        }
        for number in numbers {
            let which = format!("datagram {number} of {len} bytes, to {target}");
            let count = uninterrupted(|| client.recv(&mut buffer));
            let count = count.unwrap_or_else(|error| panic!("{which}: {error}"));
            assert_eq!(buffer[..count], pattern(number, len), "{which}");
        }
    };
    // With the first answer, the kernel moves a flow to the queue of the worker that it came by. What else was under
    // way in another queue then could be overtaken.
    exchange(0..1);
    for batch in 0..batches {
        exchange(batch * BATCH..(batch + 1) * BATCH);
    }
    echo.join().unwrap();
}
