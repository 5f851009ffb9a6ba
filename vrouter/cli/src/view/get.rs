//! The controller's objects, in the shape Contrail documents.

use serde::Serialize;
use serde_yaml_ng::Value;
use vrouter_proto::v1;

use crate::client::Client;
use crate::error::CliError;
use crate::output::{Format, Row, document, print, rows};

/// An object in brief.
#[derive(Serialize)]
struct Brief {
    name: String,
    address: String,
    mappings: String,
}

impl Row for Brief {
    const HEADINGS: &'static [&'static str] = &["NAME", "ADDRESS", "MAPPINGS"];

    fn cells(&self) -> Vec<String> {
        vec![self.name.clone(), self.address.clone(), self.mappings.clone()]
    }
}

/// Shows the objects of one kind, or one of them; as documents exactly as the controller has them.
pub async fn show(
    client: &mut Client,
    format: Format,
    kind: String,
    name: Option<String>,
) -> Result<(), CliError> {
    let request = v1::ObjectsRequest { kind, name: name.clone().unwrap_or_default() };
    let objects = client.objects(request).await?;
    if let (Some(name), true) = (name, objects.is_empty()) {
        return Err(CliError::Unknown { kind: "object", name });
    }
    match format {
        Format::Table => rows(format, &objects.iter().map(brief).collect::<Result<Vec<_>, _>>()?),
        Format::Json => match objects.as_slice() {
            [object] => document(format, &read(object)?),
            objects => document(format, &objects.iter().map(read).collect::<Result<Vec<_>, _>>()?),
        },
        Format::Yaml => print(&stream(&objects)?),
    }
}

/// The objects as a stream of YAML documents.
fn stream(objects: &[v1::MirroredObject]) -> Result<String, CliError> {
    let mut documents = Vec::new();
    for object in objects {
        documents.push(serde_yaml_ng::to_string(&read(object)?)?.trim_end().to_owned());
    }
    Ok(documents.join("\n---\n"))
}

/// The document, its fields in the order they came.
fn read(object: &v1::MirroredObject) -> Result<Value, CliError> {
    serde_json::from_str(&object.json).map_err(|error| CliError::Document {
        kind: object.kind.clone(),
        name: object.name.clone(),
        error,
    })
}

fn brief(object: &v1::MirroredObject) -> Result<Brief, CliError> {
    let document = read(object)?;
    let spec = &document["spec"];
    let addresses = ["address", "instanceIPAddress", "ipAddress"].map(|field| spec[field].as_str());
    let address = addresses.into_iter().flatten().next().unwrap_or_default().to_owned();
    let mappings = spec["floatingIpPortMappings"]["portMappings"].as_sequence();
    let mappings: Vec<_> = mappings.into_iter().flatten().map(mapping).collect();
    Ok(Brief { name: object.name.clone(), address, mappings: mappings.join(" ") })
}

/// As `kubectl get fip` prints it with Contrail: `TCP/8080->80`.
fn mapping(mapping: &Value) -> String {
    let port = |field: &str| mapping[field].as_u64().unwrap_or_default();
    let protocol = mapping["protocol"].as_str().unwrap_or_default();
    format!("{protocol}/{}->{}", port("srcPort"), port("dstPort"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> v1::MirroredObject {
        let json = r#"{"kind":"FloatingIP","apiVersion":"v1","spec":{"address":"10.96.0.10",
            "floatingIpPortMappings":{"portMappings":[{"srcPort":8080,"dstPort":80,"protocol":"TCP"}]}}}"#;
        v1::MirroredObject {
            kind: "FloatingIP".to_owned(),
            name: "default/web".to_owned(),
            json: json.to_owned(),
        }
    }

    #[test]
    fn documents_are_printed_as_they_are() {
        let yaml = stream(&[object(), object()]).unwrap();
        let expected = "kind: FloatingIP\napiVersion: v1\nspec:\n  address: 10.96.0.10\n  floatingIpPortMappings:\n    \
                        portMappings:\n    - srcPort: 8080\n      dstPort: 80\n      protocol: TCP";
        assert_eq!(yaml, format!("{expected}\n---\n{expected}"));
    }

    #[test]
    fn in_brief_a_mapping_is_short() {
        assert_eq!(brief(&object()).unwrap().cells(), ["default/web", "10.96.0.10", "TCP/8080->80"]);
        let broken = v1::MirroredObject { json: "{".to_owned(), ..object() };
        let error = brief(&broken).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("FloatingIP default/web is no JSON document"), "{error}");
    }
}
