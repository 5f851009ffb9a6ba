//! The node's own addresses, as they come and go.

use std::time::Duration;

use tokio::sync::mpsc;
use vrouter_daemon::host_path::{own_addresses, watch};

use crate::ip;
use crate::stage::{Stage, shell};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn tpol_15_addresses_are_followed_as_they_come_and_go() {
    let Some(stage) = Stage::new("addresses") else { return };
    let _router = stage.router();
    let own = || stage.inside(|| own_addresses().unwrap());
    assert_eq!(own(), ["172.30.0.1", "fd00::1"].map(ip).into(), "link-local and loopback ones are none");
    for (link, address) in [("vhost0", "10.1.0.1/24"), ("lo", "10.2.0.1/32"), ("eth0", "169.254.9.9/16")] {
        stage.node(&format!("ip address add {address} dev {link}"));
    }
    stage.node("ip address add 10.3.0.1 peer 10.3.0.2 dev eth0");
    assert_eq!(own(), ["172.30.0.1", "10.3.0.1", "fd00::1"].map(ip).into(), "its own end of a pair");

    let netns = stage.name().to_owned();
    stage.inside(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let (sender, mut news) = mpsc::unbounded_channel();
            let tell = move || sender.send(()).unwrap();
            tokio::spawn(async move { watch(tell).await });
            let mut heard = async || tokio::time::timeout(PATIENCE, news.recv()).await.unwrap().unwrap();
            // What was before it listened may have changed too.
            heard().await;
            for change in ["add", "del"] {
                for address in ["10.4.0.1/24", "fd00:4::1/64"] {
                    shell(&format!("ip -n {netns} address {change} {address} dev eth0"));
                    heard().await;
                }
            }
        });
    });
    assert_eq!(own(), ["172.30.0.1", "10.3.0.1", "fd00::1"].map(ip).into());
}
