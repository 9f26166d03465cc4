//! Who is to be told that a dependency changed.
//!
//! A watcher is told *which* dependencies changed, not how: it looks at them when it gets to
//! write. A slow reader so gets the newest state of each, and what waits for it is bounded by
//! the number of dependencies.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Notify;

use crate::{permit::DependencyId, store::Name};

/// All watchers.
#[derive(Debug, Default)]
pub struct Watchers {
    watchers: Mutex<Vec<Weak<Watcher>>>,
}

/// One of them. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watcher {
    namespace: String,
    name_prefix: String,
    changed: Mutex<BTreeSet<(DependencyId, Box<str>)>>,
    notify: Notify,
}

impl Watchers {
    pub fn watch(&self, namespace: &str, name_prefix: &str) -> Arc<Watcher> {
        let watcher = Arc::new(Watcher {
            namespace: namespace.to_owned(),
            name_prefix: name_prefix.to_owned(),
            changed: Mutex::default(),
            notify: Notify::new(),
        });
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Arc::downgrade(&watcher));
        watcher
    }

    /// Tells those who watch it that a dependency changed, came or went.
    pub fn changed(&self, id: DependencyId, name: &Name) {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        for watcher in watchers.iter().filter_map(Weak::upgrade) {
            let wanted = *watcher.namespace == *name.namespace
                && name.dependency.starts_with(&watcher.name_prefix);
            if wanted {
                let mut changed = watcher
                    .changed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                changed.insert((id, name.dependency.clone()));
                watcher.notify.notify_one();
            }
        }
    }
}

impl Watcher {
    /// Waits for changes and takes all of them.
    pub async fn changed(&self) -> BTreeSet<(DependencyId, Box<str>)> {
        loop {
            let changed = {
                let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *changed)
            };
            if !changed.is_empty() {
                return changed;
            }
            self.notify.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(dependency: &str) -> Name {
        Name {
            namespace: Arc::from("default"),
            dependency: dependency.into(),
        }
    }

    #[tokio::test]
    async fn a_slow_watcher_is_told_once_of_each_dependency() {
        let watchers = Watchers::default();
        let watcher = watchers.watch("default", "pay");
        for _ in 0..1000 {
            watchers.changed(DependencyId(1), &name("payments"));
            watchers.changed(DependencyId(2), &name("search"));
        }
        let changed = watcher.changed().await;
        assert_eq!(
            changed.into_iter().collect::<Vec<_>>(),
            [(DependencyId(1), "payments".into())]
        );
    }

    #[test]
    fn a_watch_ends_when_its_watcher_is_dropped() {
        let watchers = Watchers::default();
        drop(watchers.watch("default", ""));
        let kept = watchers.watch("default", "");
        assert_eq!(watchers.watchers.lock().unwrap().len(), 1);
        drop(kept);
    }
}
