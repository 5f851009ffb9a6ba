//! What is said over HTTP, to the letter as kube-proxy says it.

use std::time::SystemTime;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use prost_types::Timestamp;

const ENDPOINT_WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const AS_IT_IS_CALLED: HeaderValue = HeaderValue::from_static("nosniff");

/// An HTTP response that is all there.
pub(super) type Reply = Response<Full<Bytes>>;

/// What is said at one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Of a service, at its health check's port, whatever is asked for.
    Service {
        /// `namespace/name`.
        name: String,
        /// How many ready endpoints it has on this node.
        local_endpoints: usize,
        /// Whether the node forwards.
        is_node_healthy: bool,
    },
    /// Of the node.
    Node {
        /// Whether it forwards.
        is_healthy: bool,
        /// Since when by the tables it has.
        updated: SystemTime,
    },
}

impl Answer {
    /// What is said to a request for this path.
    pub(super) fn to(&self, path: &str) -> Reply {
        match self {
            Self::Service { name, local_endpoints, is_node_healthy } => {
                let mut reply = json(
                    *local_endpoints > 0 && *is_node_healthy,
                    service(name, *local_endpoints, *is_node_healthy),
                );
                reply.headers_mut().insert(ENDPOINT_WEIGHT, HeaderValue::from(*local_endpoints));
                reply
            }
            Self::Node { is_healthy, updated } if matches!(path, "/healthz" | "/livez") => {
                json(*is_healthy, node(*is_healthy, *updated, SystemTime::now()))
            }
            Self::Node { .. } => {
                let mut reply = Reply::new(Full::from("404 page not found\n"));
                *reply.status_mut() = StatusCode::NOT_FOUND;
                reply
            }
        }
    }
}

fn json(is_well: bool, body: String) -> Reply {
    let mut reply = Reply::new(Full::from(body));
    *reply.status_mut() = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, AS_IT_IS_CALLED);
    reply
}

fn service(name: &str, local_endpoints: usize, is_node_healthy: bool) -> String {
    // Names of Kubernetes need no escapes.
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    format!(
        "{{
	\"service\": {{
		\"namespace\": \"{namespace}\",
		\"name\": \"{name}\"
	}},
	\"localEndpoints\": {local_endpoints},
	\"serviceProxyHealthy\": {is_node_healthy}
}}"
    )
}

fn node(is_healthy: bool, updated: SystemTime, now: SystemTime) -> String {
    let [updated, now] = [updated, now].map(Timestamp::from);
    format!("{{\"lastUpdated\":\"{updated}\",\"currentTime\":\"{now}\",\"healthy\":{is_healthy}}}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn service_reply(local_endpoints: usize, is_node_healthy: bool) -> Reply {
        Answer::Service { name: "default/web".to_owned(), local_endpoints, is_node_healthy }.to("/any")
    }

    #[test]
    fn a_service_is_well_with_an_endpoint_here_on_a_node_that_forwards() {
        for (local_endpoints, is_node_healthy, status) in [(2, true, 200), (0, true, 503), (2, false, 503)] {
            let reply = service_reply(local_endpoints, is_node_healthy);
            assert_eq!(reply.status(), status, "{local_endpoints} {is_node_healthy}");
            assert_eq!(reply.headers()[ENDPOINT_WEIGHT], local_endpoints.to_string());
            assert_eq!(reply.headers()[CONTENT_TYPE], JSON);
        }
        let body = service("default/web", 2, true);
        let read: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(read["service"]["namespace"], "default");
        assert_eq!(read["service"]["name"], "web");
        assert_eq!((&read["localEndpoints"], &read["serviceProxyHealthy"]), (&2.into(), &true.into()));
    }

    #[test]
    fn a_node_answers_at_two_paths() {
        let updated = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let answer = Answer::Node { is_healthy: true, updated };
        assert_eq!(answer.to("/healthz").status(), 200);
        assert_eq!(answer.to("/livez").status(), 200);
        assert_eq!(answer.to("/").status(), 404);
        assert_eq!(Answer::Node { is_healthy: false, updated }.to("/healthz").status(), 503);
        assert_eq!(
            node(true, updated, updated),
            "{\"lastUpdated\":\"2023-11-14T22:13:20Z\",\"currentTime\":\"2023-11-14T22:13:20Z\",\"healthy\":true}"
        );
    }
}
