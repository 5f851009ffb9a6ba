//! Settings of the kernel that the host path needs. What is set anywhere but on `vhost0` is written down before, and put
//! back in the end.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::ports::{PortList, PortRange};
use super::{DEVICE, HostPathError};
use crate::state::{ChangedSysctl, SysctlFile};

const IPV4_FORWARDING: &str = "net/ipv4/ip_forward";
const ACCEPT_REDIRECTS: &str = "net/ipv4/conf/all/accept_redirects";
const IPV6_FORWARDING: &str = "net/ipv6/conf/all/forwarding";
const REVERSE_PATH_OF_ALL: &str = "net/ipv4/conf/all/rp_filter";
const RESERVED_PORTS: &str = "net/ipv4/ip_local_reserved_ports";
const LOCAL_PORTS: &str = "net/ipv4/ip_local_port_range";

/// What `vhost0` itself has, which goes with it.
const OF_THE_DEVICE: [(&str, &str, &str); 14] = [
    // Packets come in with the node's own addresses as their sources, and from anywhere.
    ("ipv4", "accept_local", "1"),
    ("ipv4", "rp_filter", "0"),
    ("ipv4", "forwarding", "1"),
    // Nobody else is on this link: the router is a permanent neighbour.
    ("ipv4", "arp_ignore", "8"),
    // While no router serves it, it is as if these routes were not there.
    ("ipv4", "ignore_routes_with_linkdown", "1"),
    ("ipv6", "ignore_routes_with_linkdown", "1"),
    // No address comes by itself, nor is one asked for.
    ("ipv6", "addr_gen_mode", "1"),
    ("ipv6", "accept_ra", "0"),
    ("ipv6", "autoconf", "0"),
    ("ipv6", "router_solicitations", "0"),
    ("ipv6", "disable_ipv6", "0"),
    // What pods send gets here: they are not to choose the way of packets, their own or others'.
    ("ipv4", "accept_source_route", "0"),
    ("ipv4", "accept_redirects", "0"),
    ("ipv6", "accept_redirects", "0"),
];

/// The kernel's settings in the caller's network namespace.
#[derive(Debug)]
pub(super) struct Sysctls {
    file: SysctlFile,
    boot_id: String,
    /// In the order in which they were changed; `None` until that was looked up.
    changed: Option<Vec<ChangedSysctl>>,
}

impl Sysctls {
    pub(super) fn new(file: SysctlFile, boot_id: String) -> Self {
        Self { file, boot_id, changed: None }
    }

    /// Whether something of the host path may be there, of this process or one before it.
    pub(super) fn may_be_changed(&self) -> Result<bool, HostPathError> {
        Ok(self.changed.is_some() || self.file.load(&self.boot_id)?.is_some())
    }

    /// Brings all settings to what they should be. `vhost0` may not be there yet.
    pub(super) fn follow(
        &mut self,
        source_ports: PortRange,
        problems: &mut Vec<HostPathError>,
    ) -> Result<(), HostPathError> {
        self.begin()?;
        let steps = [Self::forward_ipv6, Self::forward_ipv4, Self::filter_by_link];
        for step in steps {
            problems.extend(step(self).err());
        }
        problems.extend(self.reserve(source_ports).err());
        for (version, name, value) in OF_THE_DEVICE {
            problems.extend(set(&format!("net/{version}/conf/{DEVICE}/{name}"), value).err());
        }
        Ok(())
    }

    /// Puts back what was changed, save for what somebody else has changed since.
    pub(super) fn put_back(&mut self, problems: &mut Vec<HostPathError>) -> Result<(), HostPathError> {
        self.begin()?;
        // Last first: what a setting does to others comes before those are put back.
        for change in self.changed.iter().flatten().rev() {
            match read(&change.key) {
                Ok(Some(now)) if now == change.after => {
                    problems.extend(set(&change.key, &change.before).err());
                }
                Ok(_) => {}
                Err(error) => problems.push(error),
            }
        }
        Ok(())
    }

    /// From now on there is nothing of the host path.
    pub(super) fn forget(&mut self) -> Result<(), HostPathError> {
        self.file.remove()?;
        self.changed = None;
        Ok(())
    }

    /// Takes up what a process before this one changed, or says that from now on there may be something.
    fn begin(&mut self) -> Result<(), HostPathError> {
        if self.changed.is_none() {
            let changed = self.file.load(&self.boot_id)?.unwrap_or_default();
            self.file.store(&self.boot_id, &changed)?;
            self.changed = Some(changed);
        }
        Ok(())
    }

    /// A link that takes its routes from router advertisements goes on to do so.
    fn forward_ipv6(&mut self) -> Result<(), HostPathError> {
        if read(IPV6_FORWARDING)?.is_some_and(|now| now == "0") {
            for link in links("net/ipv6/conf")? {
                let key = format!("net/ipv6/conf/{link}/accept_ra");
                if read(&key)?.is_some_and(|now| now == "1") {
                    self.change(&key, "2")?;
                }
            }
        }
        self.change(IPV6_FORWARDING, "1")
    }

    /// When forwarding ends, the kernel begins to accept redirects. A node that did not goes on not to.
    fn forward_ipv4(&mut self) -> Result<(), HostPathError> {
        if read(IPV4_FORWARDING)?.is_some_and(|now| now == "0") {
            self.note(ACCEPT_REDIRECTS, read(ACCEPT_REDIRECTS)?, "1")?;
        }
        self.change(IPV4_FORWARDING, "1")
    }

    /// What all links have, `vhost0` would have too. So the others get it each for itself.
    fn filter_by_link(&mut self) -> Result<(), HostPathError> {
        let of_all = read(REVERSE_PATH_OF_ALL)?.unwrap_or_default();
        if of_all.is_empty() || of_all == "0" {
            return Ok(());
        }
        for link in links("net/ipv4/conf")? {
            let key = format!("net/ipv4/conf/{link}/rp_filter");
            // The larger of the two counts.
            if read(&key)?.is_some_and(|now| now < of_all) {
                self.change(&key, &of_all)?;
            }
        }
        self.change(REVERSE_PATH_OF_ALL, "0")
    }

    /// Nobody is given the router's ports unasked.
    fn reserve(&mut self, source_ports: PortRange) -> Result<(), HostPathError> {
        let value = read(RESERVED_PORTS)?.unwrap_or_default();
        let reserved = value.parse::<PortList>();
        let reserved = reserved.map_err(|_| HostPathError::Ports { key: RESERVED_PORTS, value })?;
        self.change(RESERVED_PORTS, &reserved.with(source_ports).to_string())
    }

    /// Sets it, and writes down before what it was when it was first changed. What is not there is not set.
    fn change(&mut self, key: &str, value: &str) -> Result<(), HostPathError> {
        self.note(key, read(key)?, value)?;
        set(key, value)
    }

    /// Writes down what it was before, if it was otherwise.
    fn note(&mut self, key: &str, before: Option<String>, after: &str) -> Result<(), HostPathError> {
        let Some(before) = before.filter(|before| before != after) else { return Ok(()) };
        let changed = self.changed.get_or_insert_default();
        let change = ChangedSysctl { key: key.to_owned(), before, after: after.to_owned() };
        match changed.iter_mut().find(|change| change.key == key) {
            Some(earlier) => earlier.after = change.after,
            None => changed.push(change),
        }
        Ok(self.file.store(&self.boot_id, changed)?)
    }
}

/// Refuses ports that the kernel gives to the node's own processes.
pub fn check_source_ports(source_ports: PortRange) -> Result<(), HostPathError> {
    let value = read(LOCAL_PORTS)?.unwrap_or_default();
    let mut ends = value.split_whitespace();
    let range = ends.next().zip(ends.next()).and_then(|(first, last)| format!("{first}-{last}").parse().ok());
    let local = range.ok_or(HostPathError::Ports { key: LOCAL_PORTS, value })?;
    if source_ports.overlaps(local) {
        return Err(HostPathError::PortsInUse { source_ports, local });
    }
    Ok(())
}

/// The links that have settings here, and `default` for those to come. Those of `all` and of `vhost0` are another matter.
fn links(directory: &str) -> Result<Vec<String>, HostPathError> {
    let failed = |source| HostPathError::Sysctl { key: directory.to_owned(), source };
    let entries = fs::read_dir(path(directory)).map_err(failed)?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name != "all" && name != DEVICE).collect())
}

/// Sets what is there and is otherwise.
fn set(key: &str, value: &str) -> Result<(), HostPathError> {
    match read(key)? {
        // Without the line's end, an empty value would not be written at all.
        Some(now) if now != value => fs::write(path(key), format!("{value}\n"))
            .map_err(|source| HostPathError::Sysctl { key: key.to_owned(), source }),
        _ => Ok(()),
    }
}

/// `None` where there is no such setting: the kernel does not have it, or the link is not there.
fn read(key: &str) -> Result<Option<String>, HostPathError> {
    match fs::read_to_string(path(key)) {
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(HostPathError::Sysctl { key: key.to_owned(), source }),
    }
}

fn path(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key)
}
