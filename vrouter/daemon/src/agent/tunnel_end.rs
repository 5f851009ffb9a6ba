//! This node's tunnel end. Tunnels are opened only after the tables with every pod in them are in force: a packet out
//! of a tunnel whose pod is not in the tables yet would be answered as for nobody, and its connection forgotten.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_objects::{NetworkKind, RouterId, VirtualRouter};

use super::host::summary;
use super::{Agent, AttachError, State};
use crate::plane::{Tunnels, Vtep};
use crate::underlay::pod_mtu;

/// How far this node's tunnel end has got: what is in force, apart from what became of the last attempt to change it.
#[derive(Debug, Default)]
pub(super) struct OwnEnd {
    /// The tunnels that were opened last. A change that fails leaves them as they are.
    open: Option<Tunnels>,
    /// Why it is not, or not in everything, as it should be. It is tried again.
    problem: Option<String>,
    /// The pods' MTU that the tables hold.
    mtu: Option<u16>,
    /// The MTU of the link that the tunnels go over.
    underlay_mtu: Option<u32>,
    /// The address that tunnels are to end at.
    address: Option<IpAddr>,
    /// Nodes whose address no tunnel from here leads to.
    unreachable: BTreeSet<RouterId>,
}

impl Agent {
    /// Opens the tunnel end where it is not open yet, or otherwise than it should be.
    pub(super) fn follow_tunnel_end(&self, state: &mut State) {
        let mtu_before = state.own_end.mtu;
        if let Some(vtep) = self.coming_tunnel_end(state) {
            if state.own_end.mtu != mtu_before {
                self.publish(state);
            }
            self.open_tunnel_end(state, vtep);
        }
    }

    /// The same, also where somebody else undid what was as it should be.
    pub(super) fn tend_tunnel_end(&self, state: &mut State) {
        if let Some(vtep) = state.vtep()
            && state.own_end.problem.is_none()
            && !self.plane.are_tunnels_whole()
        {
            state.own_end.fail(format!("the tunnels of {} were taken away by somebody", vtep.address));
        }
        self.follow_tunnel_end(state);
    }

    /// The tunnel end that is to be opened, its MTU already in the tables; `None` where it is open as it should be, or
    /// cannot be.
    pub(super) fn coming_tunnel_end(&self, state: &mut State) -> Option<Vtep> {
        let said = state.own_router.as_ref().map(|router| router.address);
        let address = self.identity.vtep.or(said)?;
        state.own_end.address = Some(address);
        if let Some(vtep) = state.vtep().filter(|vtep| vtep.address == address) {
            let is_open = state.own_end.open.as_ref() == Some(&state.tunnels(vtep));
            return (!is_open || state.own_end.problem.is_some()).then_some(vtep);
        }
        match self.plane.underlay_mtu(address) {
            Ok(underlay) => {
                let vtep = Vtep { address, pod_mtu: pod_mtu(underlay, address) };
                state.tables.set_tunnel_mtu(vtep.pod_mtu);
                state.own_end.mtu = Some(vtep.pod_mtu);
                state.own_end.underlay_mtu = Some(underlay);
                Some(vtep)
            }
            Err(error) => {
                state.own_end.fail(format!("tunnels cannot end at {address}: {error}"));
                None
            }
        }
    }

    pub(super) fn open_tunnel_end(&self, state: &mut State, vtep: Vtep) {
        let tunnels = state.tunnels(vtep);
        state.tell_unreachable(vtep);
        match self.plane.set_tunnels(&tunnels) {
            Ok(problems) => {
                if state.vtep() != Some(vtep) {
                    tracing::info!("tunnels end at {}", vtep.address);
                }
                state.own_end.open = Some(tunnels);
                match summary(&problems) {
                    Some(summary) => state.own_end.fail(format!("tunnels of {}: {summary}", vtep.address)),
                    None => state.own_end.problem = None,
                }
            }
            Err(error) => state.own_end.fail(format!("tunnels cannot end at {}: {error}", vtep.address)),
        }
    }
}

impl OwnEnd {
    /// The MTU of the link that the tunnels go over, once it is known.
    pub(super) fn underlay_mtu(&self) -> Option<u32> {
        self.underlay_mtu
    }

    /// Why it is not as it should be.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// It is tried again and again; what is no news is not told again.
    fn fail(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            tracing::error!("{problem}");
        }
        self.problem = Some(problem);
    }
}

impl State {
    /// This node's tunnel end, while it is open.
    pub fn vtep(&self) -> Option<Vtep> {
        self.own_end.open.as_ref().map(|tunnels| tunnels.vtep)
    }

    /// The same, or why there is none.
    pub(super) fn open_vtep(&self) -> Result<Vtep, AttachError> {
        self.vtep().ok_or_else(|| match &self.own_end.problem {
            Some(problem) => AttachError::VtepFailed(problem.clone()),
            None => AttachError::NoVtep,
        })
    }

    /// The address that tunnels are to end at, whether they do or not.
    pub(super) fn tunnel_address(&self) -> Option<IpAddr> {
        self.own_end.address
    }

    /// What the tunnels are to be that end there.
    fn tunnels(&self, vtep: Vtep) -> Tunnels {
        let reached = self.others().filter(|router| is_reached_from(vtep, router));
        let travelling = self.networks.values().filter(|network| network.kind != NetworkKind::LinkLocal);
        Tunnels {
            vtep,
            networks: travelling.map(|network| network.vni).collect(),
            peers: reached.map(|router| (router.mac, router.address)).collect(),
        }
    }

    fn others(&self) -> impl Iterator<Item = &VirtualRouter> {
        self.routers.values().filter(|router| Some(*router) != self.own_router.as_ref())
    }

    /// Says which nodes cannot be reached from there, of each once.
    fn tell_unreachable(&mut self, vtep: Vtep) {
        let unreachable: Vec<_> = self.others().filter(|router| !is_reached_from(vtep, router)).collect();
        for router in unreachable.iter().filter(|router| !self.own_end.unreachable.contains(&router.id)) {
            tracing::error!(
                "no tunnel leads from {} to node {} at {}: one is IPv4, the other IPv6",
                vtep.address,
                router.name,
                router.address
            );
        }
        self.own_end.unreachable = unreachable.into_iter().map(|router| router.id).collect();
    }
}

/// A tunnel has both its ends in one address family.
fn is_reached_from(vtep: Vtep, router: &VirtualRouter) -> bool {
    vtep.address.is_ipv4() == router.address.is_ipv4()
}
