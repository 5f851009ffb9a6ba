//! Asking the node about every connection that is meant.

use std::net::IpAddr;

use vrouter_objects::{DropReason, FloatingIp, Listener, TrafficPolicy, Vantage, VirtualRouter, VrfId};
use vrouter_proto::v1;

use super::Aim;
use super::answer::{Astray, Connection, Course};
use super::places::{End, Places};
use crate::client::Client;
use crate::end::AskedPort;
use crate::error::CliError;

/// What is asked again and again, with other addresses.
pub(super) struct Question<'a> {
    pub(super) client: &'a mut Client,
    pub(super) places: &'a Places,
    pub(super) from: &'a End,
    pub(super) port: AskedPort,
}

impl Question<'_> {
    /// Every connection that it might be.
    pub(super) async fn connections(&mut self, aim: &Aim) -> Result<Vec<Connection>, CliError> {
        let mut connections = Vec::new();
        let from = self.from;
        for &source in &from.addresses {
            let is_of_family = |address: &IpAddr| address.is_ipv4() == source.is_ipv4();
            match aim {
                Aim::Pod(to) => {
                    for &destination in to.addresses.iter().filter(|address| is_of_family(address)) {
                        connections.extend(self.about_pod(source, destination, to).await?);
                    }
                }
                Aim::Service(services) => {
                    for service in services.iter().filter(|service| is_of_family(&service.address)) {
                        connections.extend(self.about_service(source, service).await?);
                    }
                }
                Aim::Address(destination) if is_of_family(destination) => {
                    connections.extend(self.about_address(source, *destination, None).await?);
                }
                Aim::Address(_) => {}
            }
        }
        Ok(connections)
    }

    /// To a pod, by one of its addresses.
    async fn about_pod(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        to: &End,
    ) -> Result<Vec<Connection>, CliError> {
        let reply = self.trace(source, (destination, self.port.number())).await?;
        let is_another = |lead: &&v1::Lead| {
            VrfId::new(lead.egress_vrf).is_ok_and(|vrf| !self.places.is_within(vrf, to.network.vrf))
        };
        match reply.leads.iter().find(is_another) {
            Some(lead) => {
                let network = self.places.names.network(lead.egress_vrf);
                Ok(vec![Connection::astray(source, destination, Astray::Network(network))])
            }
            None => Connection::all((self.from, destination), source, &reply, self.places),
        }
    }

    /// To a service by its cluster address, which may be another service's where the sender is.
    async fn about_service(
        &mut self,
        source: IpAddr,
        service: &FloatingIp,
    ) -> Result<Vec<Connection>, CliError> {
        let connections = self.about_address(source, service.address, Some(service)).await?;
        let reached = connections.iter().find_map(|connection| match &connection.course {
            Course::To { member, .. } => Some(member.as_ref().map(|member| member.service.clone())),
            Course::Astray { .. } => None,
        });
        match reached {
            Some(reached) if reached.as_deref() != Some(service.name.as_str()) => {
                Ok(vec![Connection::astray(source, service.address, Astray::Service(reached))])
            }
            _ => Ok(connections),
        }
    }

    /// To an address, be it a service's, of which it may be known already.
    async fn about_address(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        service: Option<&FloatingIp>,
    ) -> Result<Vec<Connection>, CliError> {
        let reply = self.trace(source, (destination, self.port.number())).await?;
        let listener_of = |service| Some((service, self.port.listener_of(service)?));
        let frontend = service.map_or_else(|| self.places.frontend(&reply), listener_of);
        match self.places.chooser(&reply, source).zip(frontend) {
            Some((chooser, frontend)) => self.about_members(source, destination, frontend, chooser).await,
            None => Connection::all((self.from, destination), source, &reply, self.places),
        }
    }

    /// To those whom another node may choose: not always those that this one would.
    async fn about_members(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        (service, listener): (&FloatingIp, &Listener),
        chooser: &VirtualRouter,
    ) -> Result<Vec<Connection>, CliError> {
        let is_cluster_address = destination == service.address;
        let policy = if is_cluster_address { service.internal_policy } else { TrafficPolicy::Cluster };
        let vantage = Vantage { router: Some(chooser.id), zone: &chooser.zone };
        let members = vantage.taking(policy, &listener.members);
        if members.is_empty() {
            let why = Astray::Dropped(DropReason::NoMembers.name().to_owned());
            return Ok(vec![Connection::astray(source, destination, why)]);
        }
        let mut connections = Vec::new();
        for member in members {
            let reply = self.trace(source, (member.address, member.port.get())).await?;
            let place = (self.from, destination);
            connections.extend(Connection::to_member(place, source, (service, member), &reply, self.places)?);
        }
        Ok(connections)
    }

    async fn trace(
        &mut self,
        source: IpAddr,
        (destination, port): (IpAddr, u16),
    ) -> Result<v1::TraceReply, CliError> {
        let vrf = self.from.network.vrf.ok_or_else(|| CliError::NetworkNotHeld {
            whose: self.from.name.clone(),
            network: self.from.network.name.clone(),
        })?;
        let protocol = self.port.protocol(destination).0.into();
        self.client
            .trace(v1::TraceRequest {
                vrf: vrf.get(),
                source: Some(source.into()),
                destination: Some(destination.into()),
                protocol,
                port: port.into(),
            })
            .await
    }
}
