//! Which events a request wants, and which its caller may see.

use std::time::SystemTime;

use super::{
    super::{admission::Guard, read},
    OperatorHandler,
};
use crate::{
    coordinator::{Event, Refusal},
    store::Store,
};

impl<S: Store> OperatorHandler<S> {
    /// # Errors
    /// Names or times that make no sense; no such namespace.
    pub(super) fn event_filter(
        &self,
        guard: &Guard<'_>,
        namespace: &str,
        dependency: &str,
        since: Option<&prost_types::Duration>,
    ) -> Result<(EventFilter, Option<SystemTime>), Refusal> {
        let namespace = self.existing(namespace)?.to_owned();
        if !dependency.is_empty() {
            read::dependency(dependency)?;
        }
        let since = since.map(|span| read::span("since", span)).transpose()?;
        let now = self.coordinator.wall_now();
        let since = since.map(|span| {
            let earlier = now.checked_sub(span.into());
            earlier.unwrap_or(SystemTime::UNIX_EPOCH)
        });
        let dependency = dependency.to_owned();
        Ok((
            EventFilter {
                namespace,
                dependency,
                of_the_whole: guard.sees_all(),
            },
            since,
        ))
    }
}

/// Whose events are wanted. Those of the whole service (files that were read) can name any
/// namespace, so they are for those who may look at all of them.
#[derive(Clone, Debug)]
pub struct EventFilter {
    namespace: String,
    dependency: String,
    of_the_whole: bool,
}

impl EventFilter {
    pub fn wants(&self, event: &Event) -> bool {
        let whole_service = event.namespace.is_empty() && self.of_the_whole;
        let of_namespace = event.namespace == self.namespace || whole_service;
        of_namespace && (self.dependency.is_empty() || event.dependency == self.dependency)
    }
}
