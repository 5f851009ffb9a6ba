//! The way an address is reached by.

use std::net::IpAddr;

use anyhow::Result;
use vrouter_tests::lab::{Family, Lab, Place};

/// For as long as this lives, the second client reaches an address by way of one node alone.
pub struct Way<'a> {
    lab: &'a Lab,
    destination: String,
}

impl<'a> Way<'a> {
    /// Sets the way.
    pub fn by(lab: &'a Lab, destination: IpAddr, node: &str) -> Result<Self> {
        let family = if destination.is_ipv6() { Family::V6 } else { Family::V4 };
        let gateway = lab.address(Place::Node(node), family)?.to_string();
        let destination = destination.to_string();
        let words = ["ip", "route", "replace", &destination, "via", &gateway, "dev", "eth0"];
        lab.exec(Place::SecondClient, &words)?.success()?;
        Ok(Self { lab, destination })
    }
}

impl Drop for Way<'_> {
    fn drop(&mut self) {
        // What cannot be removed now goes with the lab.
        let _ = self.lab.exec(Place::SecondClient, &["ip", "route", "delete", &self.destination]);
    }
}
