//! One document: an object, a list of them, or something that cannot be used.

use k8s_openapi::api::core::v1::{Endpoints, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_yaml_ng::{Mapping, Value};
use vrouter_control_model::{Kind, KubeObject, ObjectRef};

use super::kinds::{self, Class};
use super::upgrade::upgrade;

/// What became of one object of a document.
#[derive(Debug)]
pub enum Item {
    /// It is mirrored.
    Object(KubeObject),
    /// It is known and nothing is done with it, or it was read in another way than it is written.
    Noted {
        /// Kind and name.
        name: String,
        /// What was done.
        note: String,
    },
    /// It is no business of the network.
    Ignored {
        /// Kind and name.
        name: String,
    },
    /// It cannot be used.
    Unusable {
        /// Which object it would be.
        identity: Identity,
        /// Kind and name, as far as there are.
        name: String,
        /// The field at fault.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Which object something unusable would be.
#[derive(Debug, PartialEq, Eq)]
pub enum Identity {
    /// This one.
    Known(ObjectRef),
    /// That cannot be told: it may be any.
    Hidden,
    /// None that would be mirrored.
    Foreign,
}

/// The objects of a document, lists taken apart.
pub fn items(document: Value) -> Vec<Item> {
    let mut items = Vec::new();
    take(document, "", &mut items);
    items
}

fn take(value: Value, place: &str, items: &mut Vec<Item>) {
    let Value::Mapping(mut object) = value else {
        items.push(unusable(
            Identity::Hidden,
            place.trim_end_matches('.').to_owned(),
            "",
            "is no object: it has no fields".to_owned(),
        ));
        return;
    };
    let text = |field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        let field = if text("kind").is_none() { "kind" } else { "apiVersion" };
        let name = title("object", &object, place);
        items.push(unusable(Identity::Hidden, name, field, "is missing".to_owned()));
        return;
    };
    if kind.ends_with("List")
        && let Some(list) = object.remove("items")
    {
        let list = match list {
            Value::Sequence(list) => list,
            Value::Null => Vec::new(),
            _ => {
                let name = title(&kind, &object, place);
                return items.push(unusable(Identity::Hidden, name, "items", "is no list".to_owned()));
            }
        };
        for (i, item) in list.into_iter().enumerate() {
            take(item, &format!("{place}items[{i}]."), items);
        }
        return;
    }
    let name = title(&kind, &object, place);
    for note in upgrade(&api_version, &kind, &mut object) {
        items.push(Item::Noted { name: name.clone(), note });
    }
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or(&api_version).to_owned();
    let group = kinds::group_of(&api_version);
    items.push(match kinds::classify(group, &kind) {
        Class::Mirrored(kind) if api_version == kind.api_version() => mirrored(kind, name, object),
        Class::Mirrored(kind) => {
            let message = format!("{api_version} is unknown; {kind} is read in {}", kind.api_version());
            unusable(identity(kind, &Value::Mapping(object)), name, "apiVersion", message)
        }
        Class::Workload => Item::Noted {
            name,
            note: "nothing is done with it: its pods count, once there are any".to_owned(),
        },
        Class::Quiet => Item::Ignored { name },
        Class::Unknown => {
            let message = format!("{kind} in {api_version} is unknown: nothing is done with it");
            // Among kinds that are mirrored, it is one of them with a slip in its name.
            let identity = if kinds::has_mirrored(group) { Identity::Hidden } else { Identity::Foreign };
            unusable(identity, name, "kind", message)
        }
    });
}

fn mirrored(kind: Kind, name: String, object: Mapping) -> Item {
    let object = Value::Mapping(object);
    let identity = identity(kind, &object);
    let read = match kind {
        Kind::Namespace => typed::<Namespace>(object).map(|object| KubeObject::Namespace(Box::new(object))),
        Kind::Node => typed::<Node>(object).map(|object| KubeObject::Node(Box::new(object))),
        Kind::Pod => typed::<Pod>(object).map(|object| KubeObject::Pod(Box::new(object))),
        Kind::Service => typed::<Service>(object).map(|object| KubeObject::Service(Box::new(object))),
        Kind::EndpointSlice => {
            typed::<EndpointSlice>(object).map(|object| KubeObject::EndpointSlice(Box::new(object)))
        }
        Kind::Endpoints => typed::<Endpoints>(object).map(|object| KubeObject::Endpoints(Box::new(object))),
        Kind::NetworkPolicy => {
            network_policy(object).map(|object| KubeObject::NetworkPolicy(Box::new(object)))
        }
        Kind::ClusterNetworkPolicy => {
            typed(object).map(|object| KubeObject::ClusterNetworkPolicy(Box::new(object)))
        }
        Kind::VirtualNetwork => typed(object).map(|object| KubeObject::VirtualNetwork(Box::new(object))),
        Kind::Subnet => typed(object).map(|object| KubeObject::Subnet(Box::new(object))),
        Kind::VirtualNetworkRouter => {
            typed(object).map(|object| KubeObject::VirtualNetworkRouter(Box::new(object)))
        }
    };
    let read = read.and_then(|object| match wrong_name(&object.reference()) {
        Some((field, message)) => Err((field.to_owned(), message)),
        None => Ok(object),
    });
    match read {
        Ok(object) => Item::Object(object),
        Err((field, message)) => unusable(identity, name, &field, message),
    }
}

/// What counts in place of an object that never could be read, where that must not be nothing. It is not known which pods a
/// NetworkPolicy is about, so it is about all of its namespace, and lets nothing pass.
pub fn stand_in(reference: &ObjectRef) -> Option<KubeObject> {
    if reference.kind != Kind::NetworkPolicy || wrong_name(reference).is_some() {
        return None;
    }
    let ObjectRef { namespace, name, .. } = reference.clone();
    let metadata = ObjectMeta { namespace: Some(namespace), name: Some(name), ..ObjectMeta::default() };
    let both = ["Ingress", "Egress"].map(str::to_owned).to_vec();
    let spec = NetworkPolicySpec { policy_types: Some(both), ..NetworkPolicySpec::default() };
    Some(KubeObject::NetworkPolicy(Box::new(NetworkPolicy { metadata, spec: Some(spec) })))
}

/// Reads a NetworkPolicy, and takes a field that there is not for a slip, as `kubectl` does: without its misspelt `from`, a
/// rule would let everybody in.
fn network_policy(value: Value) -> Result<NetworkPolicy, Fault> {
    let mut written = value.clone();
    if let Value::Mapping(written) = &mut written {
        // What these say opens nothing, and they have had other fields in other versions.
        for field in ["metadata", "status"] {
            written.remove(field);
        }
    }
    let policy: NetworkPolicy = typed(value)?;
    let read = serde_yaml_ng::to_value(&policy).map_err(|error| (String::new(), error.to_string()))?;
    match unknown_field(&written, &read) {
        Some(field) => {
            Err((field.trim_start_matches('.').to_owned(), "is no field of a NetworkPolicy".to_owned()))
        }
        None => Ok(policy),
    }
}

/// The first field that was written and not read, as it is named behind its parent.
fn unknown_field(written: &Value, read: &Value) -> Option<String> {
    match (written, read) {
        (Value::Mapping(written), Value::Mapping(read)) => {
            let said = written.iter().filter(|(_, value)| !value.is_null());
            let mut said = said.filter_map(|(key, value)| Some((key.as_str()?, value)));
            said.find_map(|(key, value)| match read.get(key) {
                Some(read) => unknown_field(value, read).map(|inner| format!(".{key}{inner}")),
                None => Some(format!(".{key}")),
            })
        }
        (Value::Sequence(written), Value::Sequence(read)) => {
            let mut entries = written.iter().zip(read).enumerate();
            entries.find_map(|(i, (written, read))| Some(format!("[{i}]{}", unknown_field(written, read)?)))
        }
        _ => None,
    }
}

/// A field, and what is wrong with it.
type Fault = (String, String);

/// Reads an object, or says which field is wrong.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        (field, error.into_inner().to_string())
    })
}

/// Which object it would be, even if it cannot be read as a whole.
fn identity(kind: Kind, object: &Value) -> Identity {
    reference(kind, object).map_or(Identity::Hidden, Identity::Known)
}

fn reference(kind: Kind, object: &Value) -> Option<ObjectRef> {
    let metadata = object.get("metadata")?;
    let namespace = match metadata.get("namespace") {
        _ if !kind.is_namespaced() => "",
        None | Some(Value::Null) => "default",
        Some(namespace) => namespace.as_str()?,
    };
    let name = metadata.get("name").and_then(Value::as_str)?.to_owned();
    Some(ObjectRef { kind, namespace: namespace.to_owned(), name })
}

/// Names are DNS names, as Kubernetes has them; anything else could not be told apart later.
fn wrong_name(reference: &ObjectRef) -> Option<(&'static str, String)> {
    let is_good = |name: &str| {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
        let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = name.as_bytes();
        bytes.len() <= 253
            && bytes.iter().all(|&byte| allowed(byte))
            && ends_well(bytes.first())
            && ends_well(bytes.last())
    };
    if reference.name.is_empty() {
        return Some(("metadata.name", "is missing".to_owned()));
    }
    if !is_good(&reference.name) {
        return Some((
            "metadata.name",
            format!("\"{}\" is not a name (lower case letters, digits, - and .)", reference.name),
        ));
    }
    let namespaced = reference.kind.is_namespaced();
    (namespaced && !is_good(&reference.namespace)).then(|| {
        (
            "metadata.namespace",
            format!("\"{}\" is not a name (lower case letters, digits and -)", reference.namespace),
        )
    })
}

/// What people call an object, as far as it says: `Service default/web`.
fn title(kind: &str, object: &Mapping, place: &str) -> String {
    let metadata = object.get("metadata");
    let text = |field: &str| metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
    let cluster_wide = kinds::mirrored(kind).is_some_and(|kind| !kind.is_namespaced());
    match (text("namespace"), text("name")) {
        (_, None) => format!("{kind} {place}").trim_end_matches([' ', '.']).to_owned(),
        (_, Some(name)) if cluster_wide => format!("{kind} {name}"),
        (namespace, Some(name)) => format!("{kind} {}/{name}", namespace.unwrap_or("default")),
    }
}

fn unusable(identity: Identity, name: String, field: &str, message: String) -> Item {
    Item::Unusable { identity, name, field: field.to_owned(), message }
}
