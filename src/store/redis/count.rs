//! How many records there are, as this replica knows: for the limits on them. Replicas learn
//! of each other's new records by sweeps, so a limit may be passed by what is made in between.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    permit::DependencyId,
    store::{Limits, Name, StoreError},
};

/// See the module.
#[derive(Debug, Default)]
pub struct Count {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    of: HashMap<DependencyId, Arc<String>>,
    namespaces: HashMap<Arc<String>, u32>,
}

impl Count {
    /// Notes that a record is there, under this name, or that none is.
    pub fn note(&self, id: DependencyId, name: Option<&Name>) {
        let mut inner = self.locked();
        match (name, inner.of.contains_key(&id)) {
            (Some(name), false) => {
                let namespace = Arc::clone(&name.namespace);
                inner.of.insert(id, Arc::clone(&namespace));
                let count = inner.namespaces.entry(namespace).or_default();
                *count = count.saturating_add(1);
            }
            (None, true) => {
                if let Some(namespace) = inner.of.remove(&id)
                    && let Some(count) = inner.namespaces.get_mut(&namespace)
                {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        inner.namespaces.remove(&namespace);
                    }
                }
            }
            (Some(_), true) | (None, false) => {}
        }
    }

    /// # Errors
    /// There is no room for one more.
    pub fn has_room(&self, namespace: &str, limits: Limits) -> Result<(), StoreError> {
        let inner = self.locked();
        if inner.of.len() >= limits.in_all as usize {
            return Err(StoreError::Full {
                limit: limits.in_all,
            });
        }
        let name = namespace.to_owned();
        match inner.namespaces.get(&name) {
            None if inner.namespaces.len() >= limits.namespaces as usize => {
                Err(StoreError::NamespacesFull {
                    limit: limits.namespaces,
                })
            }
            Some(count) if *count >= limits.in_namespace => Err(StoreError::NamespaceFull {
                namespace: name,
                limit: limits.in_namespace,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// One text for all that have it.
    pub fn shared_name(&self, namespace: &str) -> Arc<String> {
        let inner = self.locked();
        let name = namespace.to_owned();
        let known = inner.namespaces.get_key_value(&name);
        let known = known.map(|(known, _)| Arc::clone(known));
        known.unwrap_or_else(|| Arc::new(name))
    }

    pub fn all(&self) -> usize {
        self.locked().of.len()
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
