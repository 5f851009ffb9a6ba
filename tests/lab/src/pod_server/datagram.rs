//! Answers over UDP.

use std::net::Ipv6Addr;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::net::UdpSocket;

use super::Options;
use super::activity::Activity;

/// A socket for both families.
pub async fn bind(port: u16) -> Result<(UdpSocket, u16)> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).await;
    Ok((socket.with_context(|| format!("UDP port {port}"))?, port))
}

/// Answers every datagram, whatever it says.
pub async fn serve((socket, port): (UdpSocket, u16), options: Arc<Options>, activity: Arc<Activity>) {
    let mut datagram = vec![0; 1 << 16];
    loop {
        // An error tells of an earlier answer that could not be delivered; the socket goes on.
        let Ok((_, client)) = socket.recv_from(&mut datagram).await else { continue };
        activity.spoken();
        let _ = socket.send_to(&options.answer(client, port, None), client).await;
    }
}
