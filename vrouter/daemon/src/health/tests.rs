use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vrouter_objects::Port;

use super::*;
use crate::agent::HealthCheck;
use crate::host_path::Family;

/// A port that nobody listens at.
fn free_port() -> Port {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    Port::new(listener.local_addr().unwrap().port().into()).unwrap()
}

fn health(checks: &[(Family, Port, usize)]) -> Health {
    let check = |(family, port, local_endpoints): &(Family, Port, usize)| {
        let service = format!("default/{}", family.to_string().to_lowercase());
        let address = match family {
            Family::V4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.get())),
            Family::V6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port.get())),
        };
        (address, HealthCheck { service, local_endpoints: *local_endpoints })
    };
    Health { is_healthy: true, version: Version(1), checks: checks.iter().map(check).collect() }
}

async fn ask(address: impl Into<std::net::IpAddr>, port: Port, path: &str) -> String {
    let mut stream = TcpStream::connect((address.into(), port.get())).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

#[tokio::test]
async fn answers_follow_the_tables_and_each_family_has_its_own() {
    let port = free_port();
    let mut desk = Desk::default();
    assert_eq!(desk.follow(&health(&[(Family::V4, port, 1), (Family::V6, port, 0)])), None);
    let v4 = ask(Ipv4Addr::LOCALHOST, port, "/").await;
    assert!(v4.starts_with("HTTP/1.1 200 OK\r\n"), "{v4}");
    assert!(v4.contains("x-load-balancing-endpoint-weight: 1\r\n"), "{v4}");
    assert!(v4.contains("\"name\": \"ipv4\""), "{v4}");
    let v6 = ask(Ipv6Addr::LOCALHOST, port, "/").await;
    assert!(v6.starts_with("HTTP/1.1 503 ") && v6.contains("\"name\": \"ipv6\""), "{v6}");

    desk.follow(&health(&[(Family::V4, port, 0)]));
    assert!(ask(Ipv4Addr::LOCALHOST, port, "/").await.starts_with("HTTP/1.1 503 "));
    assert!(!desk.listeners.keys().any(SocketAddr::is_ipv6));
}

#[tokio::test]
async fn tpol_10_a_port_in_use_is_told_tried_again_and_in_nobodys_way() {
    let other = TcpListener::bind("0.0.0.0:0").unwrap();
    let taken = Port::new(other.local_addr().unwrap().port().into()).unwrap();
    let free = free_port();
    let wanted = health(&[(Family::V4, taken, 1), (Family::V4, free, 1)]);
    let mut desk = Desk::default();
    let problems = desk.follow(&wanted).unwrap();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains(&taken.to_string()), "{problems:?}");
    assert_eq!(desk.follow(&wanted), None, "it is told once");
    assert!(ask(Ipv4Addr::LOCALHOST, free, "/").await.starts_with("HTTP/1.1 200 "));

    drop(other);
    assert_eq!(desk.follow(&wanted), Some(vec![]));
    assert!(ask(Ipv4Addr::LOCALHOST, taken, "/").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn the_node_answers_for_itself() {
    let port = free_port();
    let node = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.get())));
    let mut desk = Desk { node, ..Desk::default() };
    desk.follow(&health(&[]));
    let reply = ask(Ipv4Addr::LOCALHOST, port, "/healthz").await;
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.contains("\"healthy\":true"), "{reply}");
    desk.follow(&Health { is_healthy: false, ..health(&[]) });
    assert!(ask(Ipv4Addr::LOCALHOST, port, "/healthz").await.starts_with("HTTP/1.1 503 "));
    assert!(ask(Ipv4Addr::LOCALHOST, port, "/metrics").await.starts_with("HTTP/1.1 404 "));
}
