//! Pods of other nodes, by the controller's mirrored objects.

use std::net::IpAddr;

use serde_yaml_ng::Value;
use vrouter_objects::PodName;
use vrouter_proto::v1;

use super::places::{End, Places};
use crate::client::Client;
use crate::error::CliError;

/// What runtimes call a pod's first interface.
const INTERFACE: &str = "eth0";
/// How the names of its addresses end.
const FAMILIES: [&str; 2] = ["v4", "v6"];

/// A pod that is not on this node.
pub(super) async fn pod(client: &mut Client, places: &Places, name: &PodName) -> Result<End, CliError> {
    let unknown = |problem: String| CliError::PodElsewhere { pod: name.to_string(), problem };
    let own = format!("{name}-{INTERFACE}");
    let interface = one(client, "virtual-machine-interface", &own).await.map_err(&unknown)?;
    let Some(interface) = interface else {
        return Err(unknown(
            "the controller knows no interface of it; one of the node's own network has none".into(),
        ));
    };
    let mut addresses = Vec::new();
    for family in FAMILIES {
        let address = one(client, "instance-ip", &format!("{own}-{family}")).await.map_err(&unknown)?;
        addresses.extend(
            address.and_then(|address| text(&address["spec"]["instanceIPAddress"])?.parse::<IpAddr>().ok()),
        );
    }
    let spec = &interface["spec"];
    let network = &spec["virtualNetworkReference"];
    let network = text(&network["namespace"]).zip(text(&network["name"]));
    let network = network.ok_or_else(|| unknown("the controller says nothing of its network".into()))?;
    Ok(End {
        name: name.to_string(),
        network: places.network(&format!("{}/{}", network.0, network.1)),
        addresses,
        node: text(&spec["virtualRouter"]).map(str::to_owned),
    })
}

/// One object of the controller's.
async fn one(client: &mut Client, kind: &str, name: &str) -> Result<Option<Value>, String> {
    let request = v1::ObjectsRequest { kind: kind.to_owned(), name: name.to_owned() };
    let objects = client.objects(request).await.map_err(|error| error.to_string())?;
    let read =
        |object: &v1::MirroredObject| serde_json::from_str(&object.json).map_err(|error| error.to_string());
    objects.first().map(read).transpose()
}

fn text(value: &Value) -> Option<&str> {
    value.as_str()
}
