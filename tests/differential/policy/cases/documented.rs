//! The examples of the concept page "Network Policies" and of the API reference.

use super::Case;
use crate::text::Verdict::{Allowed, EgressDenied, IngressDenied};

/// A database, its clients, and somebody else.
const SHOP: &str = "
namespaces:
  mine: { project: myproject }
  alices: { user: alice }
pods:
  default/db: { node: 1, labels: { role: db } }
  default/frontend: { node: 2, labels: { role: frontend } }
  default/client: { node: 1, labels: { role: client } }
  mine/worker: { node: 2 }
  alices/client: { node: 3, labels: { role: client } }
  alices/other: { node: 1, labels: { role: other } }
";

/// The cases.
pub const CASES: &[Case] = &[
    Case {
        name: "the_example_policy",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: test-network-policy, namespace: default }
spec:
  podSelector: { matchLabels: { role: db } }
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - ipBlock: { cidr: 172.17.0.0/16, except: [172.17.1.0/24] }
        - namespaceSelector: { matchLabels: { project: myproject } }
        - podSelector: { matchLabels: { role: frontend } }
      ports: [{ protocol: TCP, port: 6379 }]
  egress:
    - to: [{ ipBlock: { cidr: 10.0.0.0/24 } }]
      ports: [{ protocol: TCP, port: 5978 }]
",
        packets: &[
            ("default/frontend -> default/db TCP 6379", Allowed),
            ("default/frontend -> default/db TCP 6380", IngressDenied),
            ("default/frontend -> default/db UDP 6379", IngressDenied),
            ("default/frontend -> default/db PING", IngressDenied),
            ("default/client -> default/db TCP 6379", IngressDenied),
            ("mine/worker -> default/db TCP 6379", Allowed),
            ("alices/client -> default/db TCP 6379", IngressDenied),
            ("172.17.0.255 -> default/db TCP 6379", Allowed),
            ("172.17.1.0 -> default/db TCP 6379", IngressDenied),
            ("172.17.2.0 -> default/db TCP 6379", Allowed),
            ("default/db -> 10.0.0.1 TCP 5978", Allowed),
            ("default/db -> 10.0.0.1 TCP 5979", EgressDenied),
            ("default/db -> 10.0.1.1 TCP 5978", EgressDenied),
            ("default/db -> default/frontend TCP 5978", EgressDenied),
            ("default/frontend -> alices/other TCP 80", Allowed),
            ("n1 -> default/db TCP 1", Allowed),
            ("default/db -> n1 TCP 1", Allowed),
            ("n2 -> default/db TCP 6379", IngressDenied),
            ("default/db -> n2 TCP 5978", EgressDenied),
        ],
    },
    Case {
        name: "two_selectors_in_one_element",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: both, namespace: default }
spec:
  podSelector: {}
  ingress:
    - from:
        - namespaceSelector: { matchLabels: { user: alice } }
          podSelector: { matchLabels: { role: client } }
",
        packets: &[
            ("alices/client -> default/db SCTP 9", Allowed),
            ("alices/other -> default/db SCTP 9", IngressDenied),
            ("default/client -> default/db SCTP 9", IngressDenied),
        ],
    },
    Case {
        name: "two_selectors_in_two_elements",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: either, namespace: default }
spec:
  podSelector: {}
  ingress:
    - from:
        - namespaceSelector: { matchLabels: { user: alice } }
        - podSelector: { matchLabels: { role: client } }
",
        packets: &[
            ("alices/client -> default/db SCTP 9", Allowed),
            ("alices/other -> default/db PING", Allowed),
            ("default/client -> default/db SCTP 9", Allowed),
            ("mine/worker -> default/db SCTP 9", IngressDenied),
        ],
    },
    Case {
        name: "default_deny_all_ingress",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: default-deny-ingress, namespace: default }
spec: { podSelector: {}, policyTypes: [Ingress] }
",
        packets: &[
            ("default/client -> default/db TCP 1", IngressDenied),
            ("default/db -> mine/worker TCP 1", Allowed),
            ("mine/worker -> default/db PING", IngressDenied),
        ],
    },
    Case {
        name: "allow_all_ingress_beside_deny_all",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: default-deny-ingress, namespace: default }
spec: { podSelector: {}, policyTypes: [Ingress] }
---
kind: NetworkPolicy
metadata: { name: allow-all-ingress, namespace: default }
spec: { podSelector: {}, policyTypes: [Ingress], ingress: [{}] }
",
        packets: &[
            ("default/client -> default/db TCP 1", Allowed),
            ("198.51.100.7 -> default/db UDP 1", Allowed),
            ("2001:db8::7 -> default/db PING", Allowed),
        ],
    },
    Case {
        name: "default_deny_all_egress",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: default-deny-egress, namespace: default }
spec: { podSelector: {}, policyTypes: [Egress] }
",
        packets: &[
            ("default/client -> default/db TCP 1", EgressDenied),
            ("mine/worker -> default/db TCP 1", Allowed),
            ("default/db -> 198.51.100.7 TCP 1", EgressDenied),
            ("default/db -> 2001:db8::7 PING", EgressDenied),
        ],
    },
    Case {
        name: "allow_all_egress",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: default-deny-egress, namespace: default }
spec: { podSelector: {}, policyTypes: [Egress] }
---
kind: NetworkPolicy
metadata: { name: allow-all-egress, namespace: default }
spec: { podSelector: {}, policyTypes: [Egress], egress: [{}] }
",
        packets: &[
            ("default/client -> default/db TCP 1", Allowed),
            ("default/db -> 198.51.100.7 TCP 1", Allowed),
        ],
    },
    Case {
        name: "default_deny_all",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: default-deny-all, namespace: default }
spec: { podSelector: {}, policyTypes: [Ingress, Egress] }
",
        packets: &[
            ("default/client -> default/db TCP 1", EgressDenied),
            ("mine/worker -> default/db TCP 1", IngressDenied),
            ("n1 -> default/client PING", Allowed),
            ("n3 -> default/client PING", IngressDenied),
        ],
    },
    Case {
        name: "policy_types_default_to_ingress",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: neither-section, namespace: default }
spec: { podSelector: { matchLabels: { role: db } } }
---
kind: NetworkPolicy
metadata: { name: empty-egress, namespace: mine }
spec: { podSelector: {}, egress: [] }
---
kind: NetworkPolicy
metadata: { name: some-egress, namespace: alices }
spec: { policyTypes: [], egress: [{ ports: [{ port: 80 }] }] }
",
        packets: &[
            ("default/client -> default/db TCP 1", IngressDenied),
            ("default/db -> default/client TCP 1", Allowed),
            ("mine/worker -> default/client TCP 1", Allowed),
            ("default/client -> mine/worker TCP 1", IngressDenied),
            ("alices/client -> default/client TCP 80", Allowed),
            ("alices/client -> default/client TCP 81", EgressDenied),
            ("default/client -> alices/client TCP 80", IngressDenied),
        ],
    },
    Case {
        name: "rules_of_a_type_that_is_not_named_say_nothing",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: egress-only, namespace: default }
spec:
  podSelector: { matchLabels: { role: db } }
  policyTypes: [Egress]
  ingress: [{ ports: [{ port: 80 }] }]
  egress: [{ ports: [{ port: 81 }] }]
",
        packets: &[
            ("default/client -> default/db TCP 9", Allowed),
            ("default/db -> default/client TCP 9", EgressDenied),
            ("default/db -> default/client TCP 81", Allowed),
        ],
    },
    Case {
        name: "namespaces_are_known_by_name",
        cast: SHOP,
        policies: "
kind: NetworkPolicy
metadata: { name: by-name, namespace: alices }
spec:
  ingress:
    - from:
        - namespaceSelector:
            matchExpressions: [{ key: kubernetes.io/metadata.name, operator: In, values: [mine, default] }]
",
        packets: &[
            // Nobody declares it.
            ("default/client -> alices/client TCP 80", Allowed),
            ("mine/worker -> alices/client TCP 80", Allowed),
            ("alices/other -> alices/client TCP 80", IngressDenied),
        ],
    },
    Case {
        name: "operators",
        cast: "
pods:
  a/all: { node: 1 }
  a/x: { node: 2, labels: { app: x } }
  a/y: { node: 3, labels: { app: y } }
",
        policies: "
kind: NetworkPolicy
metadata: { name: operators, namespace: a }
spec:
  podSelector: { matchExpressions: [{ key: app, operator: DoesNotExist }] }
  policyTypes: [Ingress]
  ingress:
    - from: [{ podSelector: { matchExpressions: [{ key: app, operator: In, values: [x, z] }] } }]
      ports: [{ port: 1 }]
    - from: [{ podSelector: { matchExpressions: [{ key: app, operator: NotIn, values: [x] }] } }]
      ports: [{ port: 2 }]
    - from: [{ podSelector: { matchExpressions: [{ key: app, operator: Exists }] } }]
      ports: [{ port: 3 }]
    - from: [{ podSelector: { matchExpressions: [{ key: none, operator: NotIn, values: [x] }] } }]
      ports: [{ port: 4 }]
",
        packets: &[
            ("a/x -> a/all TCP 1", Allowed),
            ("a/y -> a/all TCP 1", IngressDenied),
            ("a/x -> a/all TCP 2", IngressDenied),
            ("a/y -> a/all TCP 2", Allowed),
            ("a/x -> a/all TCP 3", Allowed),
            ("a/x -> a/all TCP 4", Allowed),
            ("198.51.100.7 -> a/all TCP 4", IngressDenied),
            ("a/x -> a/y TCP 9", Allowed),
        ],
    },
    Case {
        name: "cluster_policies_in_tiers",
        cast: SHOP,
        policies: "
kind: ClusterNetworkPolicy
metadata: { name: admin }
spec:
  tier: Admin
  priority: 10
  subject: { namespaces: { matchLabels: { kubernetes.io/metadata.name: default } } }
  ingress:
    - { action: Accept, from: [{ namespaces: { matchLabels: { user: alice } } }], protocols: [{ tcp: { destinationPort: { number: 1 } } }] }
    - { action: Deny, from: [{ namespaces: { matchLabels: { user: alice } } }] }
    - { action: Pass, from: [{ pods: { namespaceSelector: {}, podSelector: { matchLabels: { role: frontend } } } }] }
    - { action: Deny, from: [{ pods: { namespaceSelector: {}, podSelector: { matchLabels: { role: frontend } } } }] }
---
kind: NetworkPolicy
metadata: { name: frontend, namespace: default }
spec:
  podSelector: { matchLabels: { role: db } }
  ingress: [{ from: [{ podSelector: { matchLabels: { role: frontend } } }] }]
---
kind: ClusterNetworkPolicy
metadata: { name: baseline }
spec:
  tier: Baseline
  priority: 10
  subject: { namespaces: {} }
  ingress: [{ action: Deny, from: [{ namespaces: {} }] }]
",
        packets: &[
            ("alices/other -> default/db TCP 1", Allowed),
            ("alices/other -> default/db TCP 2", IngressDenied),
            ("default/frontend -> default/db TCP 9", Allowed),
            ("mine/worker -> default/db TCP 9", IngressDenied),
            ("default/frontend -> default/client TCP 9", IngressDenied),
            ("198.51.100.7 -> default/client TCP 9", Allowed),
            ("198.51.100.7 -> default/db TCP 9", IngressDenied),
            ("alices/other -> mine/worker TCP 1", IngressDenied),
        ],
    },
];
