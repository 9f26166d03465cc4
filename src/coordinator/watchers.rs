//! Who is to be told that a dependency changed.
//!
//! A watcher is told *which* dependencies changed, not how: it looks at them when it gets to
//! write. A slow reader so gets the newest state of each, and what waits for it is bounded by
//! the number of dependencies.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

use crate::{permit::DependencyId, store::Name};

/// All watchers.
#[derive(Debug, Default)]
pub struct Watchers {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    watchers: Vec<Weak<Watcher>>,
    /// How many watchers follow a dependency by its name.
    followers: HashMap<DependencyId, u32>,
    /// All of those together.
    subscriptions: u64,
}

/// One of them. Dropping the last handle ends the watch.
#[derive(Debug)]
pub struct Watcher {
    wanted: Mutex<Wanted>,
    changed: Mutex<Changed>,
    notify: Notify,
    /// Hash of the caller instance that reads; 0: it has no name.
    instance: AtomicU64,
}

/// What a watcher wants to be told of.
#[derive(Debug)]
enum Wanted {
    Prefix {
        namespace: String,
        name_prefix: String,
    },
    Names(HashMap<DependencyId, Box<str>>),
}

#[derive(Debug, Default)]
struct Changed {
    dependencies: BTreeSet<(DependencyId, Box<str>)>,
    closed: bool,
}

impl Watchers {
    /// Watches all dependencies of a namespace whose names begin so.
    pub fn watch(&self, namespace: &str, name_prefix: &str) -> Arc<Watcher> {
        let (namespace, name_prefix) = (namespace.to_owned(), name_prefix.to_owned());
        self.add(Wanted::Prefix {
            namespace,
            name_prefix,
        })
    }

    /// Watches nothing yet; names are followed one by one.
    pub fn subscribe(&self) -> Arc<Watcher> {
        self.add(Wanted::Names(HashMap::new()))
    }

    fn add(&self, wanted: Wanted) -> Arc<Watcher> {
        let watcher = Arc::new(Watcher {
            wanted: Mutex::new(wanted),
            changed: Mutex::default(),
            notify: Notify::new(),
            instance: AtomicU64::new(0),
        });
        let mut all = locked(&self.all);
        all.watchers.retain(|watcher| watcher.strong_count() > 0);
        all.watchers.push(Arc::downgrade(&watcher));
        watcher
    }

    /// Follows one more name, at most `limit` of them, and tells of it at once. False: no room.
    pub fn follow(&self, watcher: &Watcher, id: DependencyId, name: &str, limit: usize) -> bool {
        if let Wanted::Names(names) = &mut *locked(&watcher.wanted) {
            if names.len() >= limit && !names.contains_key(&id) {
                return false;
            }
            if names.insert(id, name.into()).is_none() {
                let mut all = locked(&self.all);
                *all.followers.entry(id).or_default() += 1;
                all.subscriptions += 1;
            }
        }
        watcher.tell(id, name);
        true
    }

    pub fn unfollow(&self, watcher: &Watcher, id: DependencyId) {
        if let Wanted::Names(names) = &mut *locked(&watcher.wanted)
            && names.remove(&id).is_some()
        {
            self.release(id);
        }
    }

    /// Ends a watch: its `changed` answers `None` from now on.
    pub fn close(&self, watcher: &Watcher) {
        if let Wanted::Names(names) = &mut *locked(&watcher.wanted) {
            for (id, _) in names.drain() {
                self.release(id);
            }
        }
        locked(&watcher.changed).closed = true;
        watcher.notify.notify_one();
    }

    fn release(&self, id: DependencyId) {
        let mut all = locked(&self.all);
        if let Some(count) = all.followers.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                all.followers.remove(&id);
            }
            all.subscriptions -= 1;
        }
    }

    /// How many watchers follow a dependency by its name.
    pub fn followers(&self, id: DependencyId) -> u32 {
        locked(&self.all).followers.get(&id).copied().unwrap_or(0)
    }

    /// Dependencies that watchers follow by their names, each watcher counted.
    pub fn subscriptions(&self) -> u64 {
        locked(&self.all).subscriptions
    }

    /// Tells all who follow names of all they follow: the policies have changed.
    pub fn all_changed(&self) {
        let all = locked(&self.all);
        for watcher in all.watchers.iter().filter_map(Weak::upgrade) {
            watcher.tell_all();
        }
    }

    /// Tells those who watch it that a dependency changed, came or went.
    pub fn changed(&self, id: DependencyId, name: &Name) {
        let all = locked(&self.all);
        for watcher in all.watchers.iter().filter_map(Weak::upgrade) {
            let wanted = match &*locked(&watcher.wanted) {
                Wanted::Names(names) => names.contains_key(&id),
                Wanted::Prefix {
                    namespace,
                    name_prefix,
                } => **namespace == *name.namespace && name.dependency.starts_with(&**name_prefix),
            };
            if wanted {
                watcher.tell(id, &name.dependency);
            }
        }
    }
}

impl Watcher {
    /// Waits for changes and takes all of them. `None`: the watch has ended.
    pub async fn changed(&self) -> Option<BTreeSet<(DependencyId, Box<str>)>> {
        loop {
            {
                let mut changed = locked(&self.changed);
                if changed.closed {
                    return None;
                }
                if !changed.dependencies.is_empty() {
                    return Some(std::mem::take(&mut changed.dependencies));
                }
            }
            self.notify.notified().await;
        }
    }

    pub fn set_instance(&self, instance: u64) {
        self.instance.store(instance, Ordering::Relaxed);
    }

    pub fn instance(&self) -> u64 {
        self.instance.load(Ordering::Relaxed)
    }

    /// Tells of every followed name, as if it had changed.
    pub fn tell_all(&self) {
        if let Wanted::Names(names) = &*locked(&self.wanted) {
            let mut changed = locked(&self.changed);
            changed
                .dependencies
                .extend(names.iter().map(|(id, name)| (*id, name.clone())));
            self.notify.notify_one();
        }
    }

    fn tell(&self, id: DependencyId, name: &str) {
        locked(&self.changed).dependencies.insert((id, name.into()));
        self.notify.notify_one();
    }
}

/// A panic while one of these is held leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: DependencyId = DependencyId(1);

    fn name(dependency: &str) -> Name {
        Name {
            namespace: Arc::new("default".to_owned()),
            dependency: dependency.into(),
        }
    }

    #[tokio::test]
    async fn a_slow_watcher_is_told_once_of_each_dependency() {
        let watchers = Watchers::default();
        let watcher = watchers.watch("default", "pay");
        for _ in 0..1000 {
            watchers.changed(ID, &name("payments"));
            watchers.changed(DependencyId(2), &name("search"));
        }
        let changed = watcher.changed().await.unwrap();
        assert_eq!(
            changed.into_iter().collect::<Vec<_>>(),
            [(ID, "payments".into())]
        );
    }

    #[tokio::test]
    async fn a_follower_is_told_at_once_and_then_of_each_change() {
        let watchers = Watchers::default();
        let watcher = watchers.subscribe();
        assert!(watchers.follow(&watcher, ID, "payments", 1));
        assert_eq!(watcher.changed().await.unwrap().len(), 1);
        assert!(
            !watchers.follow(&watcher, DependencyId(2), "search", 1),
            "there is room for one"
        );
        watchers.changed(ID, &name("payments"));
        assert_eq!(watcher.changed().await.unwrap().len(), 1);
        assert_eq!(watchers.followers(ID), 1);
        assert_eq!(watchers.subscriptions(), 1);
        watchers.close(&watcher);
        assert_eq!(watchers.followers(ID), 0);
        assert_eq!(watchers.subscriptions(), 0);
        assert_eq!(watcher.changed().await, None);
    }

    #[test]
    fn a_watch_ends_when_its_watcher_is_dropped() {
        let watchers = Watchers::default();
        drop(watchers.watch("default", ""));
        let kept = watchers.watch("default", "");
        assert_eq!(watchers.all.lock().unwrap().watchers.len(), 1);
        drop(kept);
    }
}
