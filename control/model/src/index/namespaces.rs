//! Namespaces in the index.

use super::Index;
use crate::NamespacedName;
use crate::kube::NamespaceRecord;

impl Index {
    pub(super) fn put_namespace(&mut self, name: &str, record: Option<NamespaceRecord>) {
        if self.namespaces.get(name) == record.as_ref() {
            return;
        }
        let old = self.namespaces.remove(name);
        self.note_namespace(name, old.as_ref(), record.as_ref());
        self.namespaces.extend(record.map(|record| (name.to_owned(), record)));
        let pods: Vec<_> = self.pods_in(name).cloned().collect();
        self.dirty.pods.extend(pods);
    }

    /// The pods of a namespace.
    pub fn pods_in<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a NamespacedName> + use<'a> {
        let first = NamespacedName::new(namespace, "");
        let from = self.pods.range(&first..).map(|(name, _)| name);
        from.take_while(move |name| name.namespace == first.namespace)
    }
}
