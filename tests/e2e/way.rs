//! The way an address is reached by.

use std::net::IpAddr;

use anyhow::Result;
use vrouter_tests::lab::{Family, Lab, Place};

/// For as long as this lives, somebody reaches an address by way of one node alone.
pub struct Way<'a> {
    lab: &'a Lab,
    from: Place<'a>,
    destination: String,
}

impl<'a> Way<'a> {
    /// Sets the second client's way.
    pub fn by(lab: &'a Lab, destination: IpAddr, node: &str) -> Result<Self> {
        Self::of(lab, Place::SecondClient, destination, node)
    }

    /// Sets the way of somebody who stands on the nodes' own network.
    pub fn of(lab: &'a Lab, from: Place<'a>, destination: IpAddr, node: &str) -> Result<Self> {
        let family = if destination.is_ipv6() { Family::V6 } else { Family::V4 };
        let gateway = lab.address(Place::Node(node), family)?.to_string();
        let destination = destination.to_string();
        let words = ["ip", "route", "replace", &destination, "via", &gateway, "dev", "eth0"];
        lab.exec(from, &words)?.success()?;
        Ok(Self { lab, from, destination })
    }
}

impl Drop for Way<'_> {
    fn drop(&mut self) {
        // What cannot be removed now goes with the lab.
        let _ = self.lab.exec(self.from, &["ip", "route", "delete", &self.destination]);
    }
}
