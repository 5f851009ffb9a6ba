//! A server that gives back what it gets.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use anyhow::{Context, Result};

use crate::sctp;

/// Serves on one port, over TCP, UDP and SCTP, for both families.
pub fn serve(port: u16) -> Result<()> {
    let any = (Ipv6Addr::UNSPECIFIED, port);
    let datagrams = UdpSocket::bind(any).context("UDP")?;
    sctp::serve(port)?;
    // Whoever waits for the port to open waits for TCP, so the others are open by then.
    let listener = TcpListener::bind(any).context("TCP")?;
    thread::spawn(move || give_back_datagrams(&datagrams));
    for stream in listener.incoming() {
        let stream = stream.context("TCP")?;
        thread::spawn(move || give_back(stream));
    }
    Ok(())
}

fn give_back_datagrams(socket: &UdpSocket) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        // An error tells of an earlier answer that could not be delivered.
        if let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], client);
        }
    }
}

fn give_back(mut stream: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
}
