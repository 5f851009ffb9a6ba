//! Networks' numbers: the VRFs that nodes know them by, and the VNIs that mark their packets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use vrouter_objects::{Vni, VrfId};

use super::given;
use super::ids::Counter;
use crate::NamespacedName;

/// VNIs below are the cluster's own, and those that manifests name: none of them is picked.
const FIRST_PICKED_VNI: u32 = 1 << 12;
/// VNIs have 24 bits.
const VNIS: u32 = 1 << 24;
/// The VRFs of the cluster's own networks, which are not given: 1 to this one.
const FIXED_VRFS: u32 = 3;
/// How many networks that are gone are remembered, so that one that comes back is the same to its interfaces.
const REMEMBERED_NETWORKS: usize = 1024;

/// What was given to networks beyond the cluster's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkIds {
    vrfs: Counter,
    /// The last VNI that was picked; 0: none was.
    last_vni: u32,
    present: BTreeMap<NamespacedName, NetworkAllocation>,
    /// Networks that are gone, the longest gone first. Interfaces may still be in them.
    gone: Vec<(NamespacedName, NetworkAllocation)>,
}

/// What was given to one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkAllocation {
    /// Its VRF.
    #[serde(with = "given")]
    pub vrf: VrfId,
    /// Its VNI.
    #[serde(with = "given")]
    pub vni: Vni,
    /// Whose addresses it has.
    #[serde(with = "given")]
    pub space: VrfId,
}

/// What a network is to be given.
#[derive(Debug, Clone)]
pub struct IdRequest {
    /// Whose addresses it has; `None`: its own.
    pub space: Option<VrfId>,
    /// The VNI that it names.
    pub vni: Option<Vni>,
    /// When it was made, where the source says so: of those that name one VNI the oldest gets it.
    pub created: Option<Time>,
}

/// Whom a VNI that a network names is given to.
pub type VniHolders = BTreeMap<Vni, NamespacedName>;

impl NetworkIds {
    /// What a network that exists was given.
    pub fn get(&self, name: &NamespacedName) -> Option<NetworkAllocation> {
        self.present.get(name).copied()
    }

    /// All that was given and is remembered, to networks that exist and to others.
    pub fn iter(&self) -> impl Iterator<Item = (&NamespacedName, &NetworkAllocation)> {
        self.present.iter().chain(self.gone.iter().map(|(name, allocation)| (name, allocation)))
    }

    /// These networks exist from now on, and no others. Those that are missing in what was given afterwards could not be
    /// given anything, as ids are used up. Returns who has the VNIs that were asked for; `taken` are the cluster's own.
    pub fn settle(
        &mut self,
        wanted: &BTreeMap<NamespacedName, IdRequest>,
        taken: &[(Vni, NamespacedName)],
    ) -> VniHolders {
        self.retire_others(wanted);
        let mut holders = self.holders(wanted, taken);
        for (name, request) in wanted {
            if !self.present.contains_key(name) {
                self.admit(name, request, &holders);
            }
        }
        self.move_to_asked(wanted, &mut holders);
        holders
    }

    /// Whether the state agrees with itself.
    pub(super) fn check(&self) -> Result<(), String> {
        let (mut vrfs, mut vnis) = (BTreeMap::new(), BTreeMap::new());
        for (name, given) in self.iter() {
            let number = given.vrf.get().checked_sub(FIXED_VRFS);
            if !number.is_some_and(|number| self.vrfs.has_given(number)) {
                return Err(format!("network {name}: VRF {} was never given", given.vrf));
            }
            if let Some(other) = vrfs.insert(given.vrf, name) {
                return Err(format!("networks {other} and {name} both have VRF {}", given.vrf));
            }
            if let Some(other) = vnis.insert(given.vni, name) {
                return Err(format!("networks {other} and {name} both have VNI {}", given.vni));
            }
        }
        Ok(())
    }

    fn retire_others(&mut self, wanted: &BTreeMap<NamespacedName, IdRequest>) {
        self.gone.extend(self.present.extract_if(.., |name, _| !wanted.contains_key(name)));
        let excess = self.gone.len().saturating_sub(REMEMBERED_NETWORKS);
        self.gone.drain(..excess);
    }

    /// Who has a VNI, or will have: what was picked stays, then the oldest of those that name one gets it.
    fn holders(
        &self,
        wanted: &BTreeMap<NamespacedName, IdRequest>,
        taken: &[(Vni, NamespacedName)],
    ) -> VniHolders {
        let mut holders: VniHolders = taken.iter().cloned().collect();
        let is_asked = |name: &NamespacedName, vni| wanted.get(name).is_some_and(|one| one.vni == Some(vni));
        let picked = self.present.iter().filter(|(_, given)| is_picked(given.vni));
        let picked = picked.filter(|(name, given)| !is_asked(name, given.vni));
        let picked: Vec<_> = picked.map(|(name, given)| (given.vni, name)).collect();
        let mut asked: Vec<_> = wanted
            .iter()
            .filter_map(|(name, request)| Some((&request.created, name, request.vni?)))
            .collect();
        asked.sort();
        let asked = asked.into_iter().map(|(_, name, vni)| (vni, name));
        for (vni, name) in picked.into_iter().chain(asked) {
            holders.entry(vni).or_insert_with(|| name.clone());
        }
        holders
    }

    /// A network that comes back gets what it had.
    fn admit(&mut self, name: &NamespacedName, request: &IdRequest, holders: &VniHolders) {
        let remembered = self.gone.iter().position(|(gone, _)| gone == name);
        let remembered = remembered.map(|position| self.gone.remove(position).1);
        let is_free = |vni: Vni| holders.get(&vni).is_none_or(|holder| holder == name);
        let allocation = match remembered.filter(|given| is_free(given.vni)) {
            Some(given) => Some(given),
            None => self.fresh(request, holders),
        };
        if let Some(allocation) = allocation {
            self.present.insert(name.clone(), allocation);
        }
    }

    fn fresh(&mut self, request: &IdRequest, holders: &VniHolders) -> Option<NetworkAllocation> {
        let vni = self.pick_vni(holders)?;
        let number = self.vrfs.range(1)?.checked_add(FIXED_VRFS)?;
        let vrf = VrfId::new(number).ok()?;
        Some(NetworkAllocation { vrf, vni, space: request.space.unwrap_or(vrf) })
    }

    /// Networks move to the VNIs that they name and may have, and away from those that others may have.
    fn move_to_asked(&mut self, wanted: &BTreeMap<NamespacedName, IdRequest>, holders: &mut VniHolders) {
        let due: Vec<(NamespacedName, Option<Vni>)> = self
            .present
            .iter()
            .filter_map(|(name, given)| {
                let asked = wanted.get(name).and_then(|request| request.vni);
                let due = asked.filter(|vni| holders.get(vni) == Some(name));
                let is_anothers = holders.get(&given.vni).is_some_and(|holder| holder != name);
                let keeps = match due {
                    Some(due) => due == given.vni,
                    None => is_picked(given.vni) && !is_anothers,
                };
                (!keeps).then(|| (name.clone(), due))
            })
            .collect();
        for (name, due) in due {
            let Some(vni) = due.or_else(|| self.pick_vni(holders)) else {
                self.present.remove(&name);
                continue;
            };
            self.gone.retain(|(_, gone)| gone.vni != vni);
            if let Some(given) = self.present.get_mut(&name) {
                given.vni = vni;
            }
            holders.insert(vni, name);
        }
    }

    /// A VNI that nobody has, the longest unused first.
    fn pick_vni(&mut self, holders: &VniHolders) -> Option<Vni> {
        let known: BTreeSet<u32> = self
            .iter()
            .map(|(_, given)| given.vni.get())
            .chain(holders.keys().map(|vni| vni.get()))
            .collect();
        let from = self.last_vni.saturating_add(1).clamp(FIRST_PICKED_VNI, VNIS);
        let mut numbers = (from..VNIS).chain(FIRST_PICKED_VNI..from);
        let number = numbers.find(|number| !known.contains(number))?;
        self.last_vni = number;
        Vni::new(number).ok()
    }
}

fn is_picked(vni: Vni) -> bool {
    vni.get() >= FIRST_PICKED_VNI
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> NamespacedName {
        NamespacedName::new("shop", name)
    }

    fn wanted(list: &[(&str, Option<u32>)]) -> BTreeMap<NamespacedName, IdRequest> {
        let request = |vni: Option<u32>| {
            let vni = vni.map(|number| Vni::new(number).unwrap());
            IdRequest { space: None, vni, created: None }
        };
        list.iter().map(|(own, vni)| (name(own), request(*vni))).collect()
    }

    fn given(ids: &NetworkIds, own: &str) -> (u32, u32) {
        let given = ids.get(&name(own)).unwrap();
        (given.vrf.get(), given.vni.get())
    }

    #[test]
    fn numbers_are_given_once_and_found_again() {
        let mut ids = NetworkIds::default();
        ids.settle(&wanted(&[("a", None), ("b", None)]), &[]);
        assert_eq!((given(&ids, "a"), given(&ids, "b")), ((4, 4096), (5, 4097)));
        ids.settle(&wanted(&[("b", None)]), &[]);
        assert_eq!(ids.get(&name("a")), None);
        ids.settle(&wanted(&[("b", None), ("c", None)]), &[]);
        assert_eq!(given(&ids, "c"), (6, 4098));
        ids.settle(&wanted(&[("a", None), ("b", None), ("c", None)]), &[]);
        assert_eq!(given(&ids, "a"), (4, 4096));
        ids.check().unwrap();
    }

    #[test]
    fn of_two_that_name_one_vni_the_first_has_it_and_the_other_one_that_was_picked() {
        let mut ids = NetworkIds::default();
        let holders = ids.settle(&wanted(&[("b", Some(7))]), &[]);
        assert_eq!((given(&ids, "b").1, &holders[&Vni::new(7).unwrap()]), (7, &name("b")));
        let holders = ids.settle(&wanted(&[("a", Some(7)), ("b", Some(7))]), &[]);
        assert_eq!(holders[&Vni::new(7).unwrap()], name("a"));
        let picked = given(&ids, "b").1;
        assert!(given(&ids, "a").1 == 7 && picked >= 4096);
        ids.check().unwrap();
        ids.settle(&wanted(&[("b", Some(7))]), &[]);
        assert_eq!(given(&ids, "b").1, 7, "it is free again");
        ids.settle(&wanted(&[("b", None)]), &[]);
        assert!(given(&ids, "b").1 >= 4096, "it does not name it any more");
        ids.check().unwrap();
        // What was picked, and what is the cluster's, is not taken away.
        let fixed = [(Vni::new(1).unwrap(), name("pods"))];
        ids.settle(&wanted(&[("c", None)]), &fixed);
        let picked = given(&ids, "c").1;
        let holders = ids.settle(&wanted(&[("c", None), ("d", Some(picked)), ("e", Some(1))]), &fixed);
        assert_eq!(holders[&Vni::new(picked).unwrap()], name("c"));
        assert_eq!(holders[&Vni::new(1).unwrap()], name("pods"));
        assert!(given(&ids, "d").1 > picked && given(&ids, "e").1 > picked);
        ids.check().unwrap();
    }
}
