//! It is brought about from whatever is there, and leaves nothing.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vrouter_daemon::host_path::{HostPathError, Steered};
use vrouter_daemon::state::ChangedSysctl;

use crate::router::Router;
use crate::stage::{BOOT, Stage};
use crate::{ip, path};

#[test]
fn everything_is_there_once_and_nothing_is_left() {
    let Some(stage) = Stage::new("whole") else { return };
    stage.node(
        "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.all.accept_redirects=0 \
         net.ipv4.ip_local_reserved_ports=8080,61000-61010",
    );
    let before = stage.snapshot();
    let router = stage.router();
    let mut keeper = stage.keeper();
    stage.follow(&mut keeper, &path());

    let rules = stage.node("ip rule");
    let order: Vec<_> = rules.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(order, ["90", "91", "92", "32766", "32767"], "{rules}");
    let routes = stage.node("ip route");
    assert!(routes.contains("10.244.0.0/16 via 169.254.1.1 dev vhost0 proto 86 src 172.30.0.1"), "{routes}");
    let neighbour = stage.node("ip neighbour show dev vhost0");
    assert!(neighbour.contains("169.254.1.1 lladdr 00:00:5e:00:01:00 PERMANENT"), "{neighbour}");
    assert_eq!(stage.node("ip -6 address show dev vhost0"), "", "it has no address");
    assert_eq!(stage.sysctl("net/ipv4/ip_forward"), "1");
    assert_eq!(stage.sysctl("net/ipv6/conf/all/forwarding"), "1");
    assert_eq!(stage.sysctl("net/ipv6/conf/eth0/accept_ra"), "2", "it goes on to take routes");
    assert_eq!(stage.sysctl("net/ipv4/conf/all/rp_filter"), "0");
    assert_eq!(stage.sysctl("net/ipv4/conf/eth0/rp_filter"), "1", "it is as strict as before");
    assert_eq!(stage.sysctl("net/ipv4/ip_local_reserved_ports"), "8080,61000-65535");

    let once = stage.snapshot();
    stage.follow(&mut keeper, &path());
    stage.follow(&mut stage.keeper(), &path());
    assert_eq!(stage.snapshot(), once);

    stage.withdraw(&mut keeper);
    drop(router);
    stage.node("ip link del vhost0");
    assert_eq!(stage.snapshot(), before);
    stage.withdraw(&mut keeper);
}

#[test]
fn what_somebody_removes_is_put_back() {
    let Some(stage) = Stage::new("heal") else { return };
    let router = stage.router();
    let mut keeper = stage.keeper();
    stage.follow(&mut keeper, &path());
    let whole = stage.snapshot();
    for harm in [
        "ip rule del pref 90",
        "ip -6 rule del pref 91",
        "ip rule add pref 0 lookup local",
        "ip route flush table 1641",
        "ip -6 route del fd00:10:244::/48",
        "ip route add 10.250.0.0/16 via 169.254.1.1 dev vhost0 onlink proto 86",
        "ip link set vhost0 down",
        "ip link set vhost0 mtu 1400",
        "ip neighbour flush nud permanent dev vhost0",
        "sysctl -qw net.ipv4.ip_forward=0",
        "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.all.rp_filter=0",
        "sysctl -qw net.ipv4.ip_local_reserved_ports=",
        "nft flush ruleset",
        "nft flush table inet vrouter_host",
        "nft delete chain inet vrouter_host from_the_node",
    ] {
        stage.node(harm);
        stage.follow(&mut keeper, &path());
        assert_eq!(stage.snapshot(), whole, "{harm}");
        let neighbours = stage.node("ip neighbour show dev vhost0");
        assert!(neighbours.contains("169.254.1.1"), "{harm}: {neighbours}");
    }
    drop(router);
    stage.node("ip link del vhost0");
    let problems = stage.inside(|| keeper.follow(&path()));
    assert!(matches!(problems.as_slice(), [HostPathError::NoDevice]), "{problems:?}");
    let _router = stage.router();
    stage.follow(&mut keeper, &path());
}

#[test]
fn what_a_killed_router_left_is_taken_up_and_removed_by_another() {
    let Some(stage) = Stage::new("killed") else { return };
    let before = stage.snapshot();
    let router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let whole = stage.snapshot();
    drop(router);
    let router = stage.inside(Router::open);
    stage.follow(&mut stage.keeper(), &path());
    assert_eq!(stage.snapshot(), whole);
    drop(router);
    let mut last = stage.keeper();
    assert!(last.has_traces());
    stage.withdraw(&mut last);
    assert!(!stage.keeper().has_traces());
    stage.node("ip link del vhost0");
    assert_eq!(stage.snapshot(), before);
}

#[test]
fn what_somebody_else_has_set_since_is_left_alone() {
    let Some(stage) = Stage::new("since") else { return };
    let _router = stage.router();
    let mut keeper = stage.keeper();
    stage.follow(&mut keeper, &path());
    stage.node("sysctl -qw net.ipv4.ip_local_reserved_ports=7,61000-65535");
    stage.node("ip rule add pref 100 lookup local");
    stage.withdraw(&mut keeper);
    assert_eq!(stage.sysctl("net/ipv4/ip_local_reserved_ports"), "7,61000-65535");
    let rules = stage.node("ip rule");
    assert!(rules.starts_with("100:"), "{rules}");
}

#[test]
fn what_could_not_be_taken_away_is_tried_again() {
    let Some(stage) = Stage::new("again") else { return };
    let _router = stage.router();
    stage.follow(&mut stage.keeper(), &path());
    let file = stage.sysctl_file();
    let mut changed = file.load(BOOT).unwrap().unwrap();
    let before = |change: &mut ChangedSysctl| std::mem::replace(&mut change.before, "refused".to_owned());
    let was: Vec<_> = changed.iter_mut().map(before).collect();
    file.store(BOOT, &changed).unwrap();
    let mut keeper = stage.keeper();
    let problems = stage.inside(|| keeper.withdraw());
    assert_eq!(problems.len(), changed.len(), "{problems:?}");
    assert_eq!(stage.node("nft list tables"), "", "the rest is done");
    assert!(keeper.has_traces() && stage.keeper().has_traces());

    changed.iter_mut().zip(was).for_each(|(change, was)| change.before = was);
    file.store(BOOT, &changed).unwrap();
    stage.withdraw(&mut stage.keeper());
    assert_eq!(stage.sysctl("net/ipv4/ip_forward"), "0");
    assert!(!stage.keeper().has_traces());
}

#[test]
fn only_differences_are_written_and_the_rest_of_the_table_stays() {
    let Some(stage) = Stage::new("differences") else { return };
    let _router = stage.router();
    let mut keeper = stage.keeper();
    let mut path = path();
    stage.follow(&mut keeper, &path);
    // Whoever writes the whole table anew takes this with it.
    stage.node("nft add element inet vrouter_host node_ports4 '{ tcp . 31999 }'");
    let mut steered = Steered::clone(&path.steered);
    steered.external = ["203.0.113.8"].map(ip).into();
    path.steered = Arc::new(steered);
    stage.follow(&mut keeper, &path);
    let table = stage.node("nft list table inet vrouter_host");
    assert!(table.contains("203.0.113.8") && !table.contains("203.0.113.7"), "{table}");
    assert!(table.contains("tcp . 31999"), "{table}");

    // What is to go is gone already: then all is written anew.
    stage.node("nft delete element inet vrouter_host external4 '{ 203.0.113.8 }'");
    path.steered = Arc::new(Steered { external: Default::default(), ..Steered::clone(&path.steered) });
    stage.follow(&mut keeper, &path);
    let table = stage.node("nft list table inet vrouter_host");
    assert!(!table.contains("203.0.113.8") && !table.contains("tcp . 31999"), "{table}");
}

#[test]
fn the_nodes_own_traffic_is_never_cut() {
    let Some(stage) = Stage::new("uncut") else { return };
    let _router = stage.router();
    let mut keeper = stage.keeper();
    let server = stage.inside(|| UdpSocket::bind("172.30.0.1:7000").unwrap());
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let client = stage.inside(|| UdpSocket::bind("172.30.0.1:0").unwrap());
    let outside = stage.inside_outside(|| UdpSocket::bind("172.30.0.9:0").unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for sender in [&client, &outside] {
                    sender.send_to(b"own", "172.30.0.1:7000").unwrap();
                    server.recv(&mut [0; 16]).unwrap();
                }
            }
        });
        for _ in 0..20 {
            stage.follow(&mut keeper, &path());
            stage.withdraw(&mut keeper);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn ports_that_the_kernel_gives_to_others_are_refused() {
    let Some(stage) = Stage::new("ports") else { return };
    stage.check_source_ports().unwrap();
    stage.node("sysctl -qw 'net.ipv4.ip_local_port_range=1024 62000'");
    let error = stage.check_source_ports().unwrap_err().to_string();
    assert!(error.contains("61000-65535") && error.contains("1024-62000"), "{error}");
}

#[test]
fn routes_follow_the_nodes_address() {
    let Some(stage) = Stage::new("source") else { return };
    let _router = stage.router();
    let mut keeper = stage.keeper();
    stage.follow(&mut keeper, &path());
    for address in ["172.30.0.2/24", "fd00::2/64"] {
        stage.node(&format!("ip address add {address} dev eth0 nodad"));
    }
    let mut path = path();
    for source in path.routes.values_mut() {
        *source = if source.is_ipv4() { ip("172.30.0.2") } else { ip("fd00::2") };
    }
    stage.follow(&mut keeper, &path);
    let (v4, v6) = (stage.node("ip route"), stage.node("ip -6 route"));
    assert_eq!(v4.matches("dev vhost0 proto 86 src 172.30.0.2").count(), 2, "{v4}");
    assert_eq!(v6.matches("dev vhost0 proto 86 src fd00::2").count(), 1, "{v6}");
    // With its address, the kernel takes away the route.
    stage.node("ip address del 172.30.0.2/24 dev eth0");
    stage.follow(&mut keeper, &crate::path());
    assert_eq!(stage.node("ip route").matches("dev vhost0 proto 86 src 172.30.0.1").count(), 2);
    path.routes.clear();
    stage.follow(&mut keeper, &path);
    assert!(!stage.node("ip route").contains("vhost0"));
}
