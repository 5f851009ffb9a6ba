//! Where others went wrong.

use super::Case;
use crate::text::Verdict::{Allowed, EgressDenied, IngressDenied};

const PODS: &str = "
pods:
  a/client: { node: 1, labels: { app: client } }
  a/near: { node: 1, labels: { app: near }, ports: { http: TCP 8000, http.u: UDP 53 } }
  a/far: { node: 2, labels: { app: far }, ports: { http: TCP 8080 } }
  b/other: { node: 3, labels: { app: other }, ports: { http: TCP 666 } }
  a/host: { node: 3, labels: { app: far }, ports: { http: TCP 8080 }, on_host: yes }
services:
  a/self: { port: TCP 80, endpoints: { a/client: 9000 } }
  a/far: { port: TCP 80, endpoints: { a/far: 8080 } }
  a/dns: { port: UDP 53, endpoints: { a/near: 53 } }
";

/// The cases.
pub const CASES: &[Case] = &[
    Case {
        name: "np_2_an_exception_is_bound_to_its_block",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: narrow, namespace: a }
spec:
  podSelector: { matchLabels: { app: near } }
  ingress:
    - from: [{ ipBlock: { cidr: 198.0.0.0/8, except: [198.51.100.0/24] } }]
      ports: [{ port: 1 }]
    - from:
        - ipBlock: { cidr: 198.51.0.0/16, except: [198.51.100.0/24] }
        - ipBlock: { cidr: 198.51.100.0/24, except: [198.51.100.7/32] }
      ports: [{ port: 2 }]
---
kind: NetworkPolicy
metadata: { name: wide, namespace: a }
spec:
  podSelector: { matchLabels: { app: near } }
  ingress:
    - from: [{ ipBlock: { cidr: 198.0.0.0/8 } }]
      ports: [{ port: 3 }]
",
        packets: &[
            ("198.51.100.7 -> a/near TCP 1", IngressDenied),
            ("198.51.99.7 -> a/near TCP 1", Allowed),
            ("198.51.100.7 -> a/near TCP 2", IngressDenied),
            ("198.51.100.8 -> a/near TCP 2", Allowed),
            ("198.51.99.8 -> a/near TCP 2", Allowed),
            ("198.51.100.7 -> a/near TCP 3", Allowed),
        ],
    },
    Case {
        name: "np_4_the_servers_name_counts_for_ingress",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: named, namespace: a }
spec: { podSelector: {}, ingress: [{ ports: [{ port: http }] }] }
",
        packets: &[
            ("b/other -> a/far TCP 8080", Allowed),
            ("b/other -> a/far TCP 666", IngressDenied),
            ("b/other -> a/near TCP 8000", Allowed),
            ("b/other -> a/near TCP 8080", IngressDenied),
            ("b/other -> a/near UDP 53", IngressDenied),
            ("b/other -> a/client TCP 8080", IngressDenied),
        ],
    },
    Case {
        name: "np_5_and_6_the_servers_name_counts_for_egress",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: named, namespace: a }
spec:
  podSelector: { matchLabels: { app: client } }
  policyTypes: [Egress]
  egress: [{ ports: [{ port: http }, { protocol: UDP, port: nobodys }] }]
",
        packets: &[
            ("a/client -> a/far TCP 8080", Allowed),
            ("a/client -> a/far TCP 8000", EgressDenied),
            ("a/client -> a/near TCP 8000", Allowed),
            ("a/client -> a/near TCP 8080", EgressDenied),
            ("a/client -> a/near UDP 53", EgressDenied),
            ("a/client -> b/other TCP 666", Allowed),
            ("a/client -> 198.51.100.7 TCP 8080", EgressDenied),
            // A pod in the node's network is the node.
            ("a/client -> n3 TCP 8080", EgressDenied),
        ],
    },
    Case {
        name: "np_7_and_8_services_are_judged_by_their_pods",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: to-pods, namespace: a }
spec:
  podSelector: { matchLabels: { app: client } }
  policyTypes: [Egress]
  egress:
    - to: [{ podSelector: { matchLabels: { app: far } } }]
      ports: [{ port: 80 }]
    - to: [{ podSelector: { matchLabels: { app: near } } }]
      ports: [{ port: 53, protocol: UDP }]
    - to: [{ ipBlock: { cidr: 10.96.0.0/12 } }, { ipBlock: { cidr: 'fd00:10:96::/108' } }]
",
        packets: &[
            ("a/client -> service:a/far TCP", EgressDenied),
            ("a/client -> a/far TCP 80", Allowed),
            ("a/client -> service:a/dns UDP", Allowed),
            ("a/client -> node-port:a/dns@n1 UDP", Allowed),
            ("a/client -> node-port:a/dns@n2 UDP", Allowed),
            ("a/client -> node-port:a/far@n1 TCP", EgressDenied),
            ("a/client -> node-port:a/far@n3 TCP", EgressDenied),
        ],
    },
    Case {
        name: "np_10_ranges_include_both_ends",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: range, namespace: a }
spec:
  podSelector: {}
  ingress: [{ ports: [{ port: 32000, endPort: 32768 }, { port: 7, endPort: 7 }] }]
",
        packets: &[
            ("b/other -> a/far TCP 31999", IngressDenied),
            ("b/other -> a/far TCP 32000", Allowed),
            ("b/other -> a/far TCP 32768", Allowed),
            ("b/other -> a/far TCP 32769", IngressDenied),
            ("b/other -> a/far TCP 7", Allowed),
            ("b/other -> a/far TCP 8", IngressDenied),
        ],
    },
    Case {
        name: "np_11_all_namespaces_are_all_pods_and_nobody_else",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: pods, namespace: a }
spec:
  podSelector: { matchLabels: { app: client } }
  policyTypes: [Egress]
  egress: [{ to: [{ namespaceSelector: {} }], ports: [{ port: 53 }] }]
---
kind: NetworkPolicy
metadata: { name: everybody, namespace: a }
spec:
  podSelector: { matchLabels: { app: near } }
  policyTypes: [Egress]
  egress: [{ to: [], ports: [{ port: 53 }] }]
",
        packets: &[
            ("a/client -> b/other TCP 53", Allowed),
            ("a/client -> 198.51.100.7 TCP 53", EgressDenied),
            ("a/client -> n2 TCP 53", EgressDenied),
            ("a/near -> b/other TCP 53", Allowed),
            ("a/near -> 198.51.100.7 TCP 53", Allowed),
            ("a/near -> n2 TCP 53", Allowed),
        ],
    },
    Case {
        name: "np_14_the_own_node_may_always",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: nobody, namespace: a }
spec: { podSelector: {}, policyTypes: [Ingress, Egress] }
---
kind: ClusterNetworkPolicy
metadata: { name: nobody }
spec:
  tier: Admin
  priority: 0
  subject: { namespaces: {} }
  egress: [{ action: Deny, to: [{ networks: ['0.0.0.0/0', '::/0'] }] }]
",
        packets: &[
            ("n1 -> a/near TCP 80", Allowed),
            ("n1 -> a/near PING", Allowed),
            ("n2 -> a/near TCP 80", IngressDenied),
            ("a/near -> n1 TCP 80", Allowed),
            ("a/near -> n2 TCP 80", EgressDenied),
            ("n2 -> service:a/far TCP", Allowed),
            ("n1 -> service:a/far TCP", IngressDenied),
        ],
    },
    Case {
        name: "snat_4_and_6_a_pod_reaches_itself",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: nobody, namespace: a }
spec: { podSelector: {}, policyTypes: [Ingress, Egress] }
",
        packets: &[
            ("a/client -> service:a/self TCP", Allowed),
            ("a/client -> node-port:a/self@n2 TCP", Allowed),
            ("a/near -> service:a/self TCP", EgressDenied),
            ("b/other -> service:a/self TCP", IngressDenied),
        ],
    },
    Case {
        name: "a_pod_in_the_nodes_network_is_the_node",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: far, namespace: a }
spec:
  podSelector: { matchLabels: { app: near } }
  policyTypes: [Ingress, Egress]
  ingress: [{ from: [{ podSelector: { matchLabels: { app: far } } }] }]
  egress: [{ to: [{ podSelector: { matchLabels: { app: far } } }] }]
",
        packets: &[
            ("n3 -> a/near TCP 80", IngressDenied),
            ("a/near -> n3 TCP 80", EgressDenied),
            ("a/far -> a/near TCP 80", Allowed),
            ("a/near -> a/far TCP 80", Allowed),
        ],
    },
    Case {
        name: "what_makes_no_sense_means_nobody",
        cast: PODS,
        policies: "
kind: NetworkPolicy
metadata: { name: senseless, namespace: a }
spec:
  podSelector: { matchLabels: { app: near } }
  ingress:
    - from: [{ ipBlock: { cidr: 0.0.0.0/0 }, podSelector: {} }]
    - from: [{}]
    - from: [{ ipBlock: { cidr: 0.0.0.0/0, except: ['fd00::/8'] } }]
    - from: [{ ipBlock: { cidr: 10.0.0.0/8, except: [192.168.0.0/16] } }]
    - from: [{ podSelector: { matchExpressions: [{ key: app, operator: Like, values: [other] }] } }]
    - ports: [{ endPort: 80 }]
    - ports: [{ port: http, endPort: 8000 }]
    - ports: [{ port: 80, endPort: 79 }]
    - ports: [{ protocol: ICMP }]
",
        packets: &[
            ("b/other -> a/near TCP 80", IngressDenied),
            ("b/other -> a/near TCP 8000", IngressDenied),
            ("b/other -> a/near PING", IngressDenied),
            ("198.51.100.7 -> a/near TCP 80", IngressDenied),
            ("b/other -> a/far TCP 80", Allowed),
        ],
    },
];
