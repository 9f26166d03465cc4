//! Why the client library goes on alone, as its log says it: kept for the one line that a command
//! prints of its own. Not a logger: nothing is written here.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry,
};

use super::super::escape::escape;

/// What was said last, for the whole process.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<Mutex<Option<String>>>);

impl Heard {
    /// Listens from now on. Where somebody else has the log (a test) nothing is heard.
    pub fn listen() -> Self {
        let heard = Self::default();
        let listening = registry().with(heard.clone());
        drop(tracing::subscriber::set_global_default(listening));
        heard
    }

    /// What an attempt without the service is told with; `unheard` is what its maker knows.
    pub fn notice(&self, unheard: Option<&str>) -> String {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match heard.as_deref().or(unheard) {
            Some(why) => format!("going on without the service: {}", escape(why)),
            None => "the service does not answer; going on without it".to_owned(),
        }
    }
}

impl<S: Subscriber> Layer<S> for Heard {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() != Level::WARN || !metadata.target().starts_with("holdoff_client") {
            return;
        }
        let mut why = Why(None);
        event.record(&mut why);
        if let Some(why) = why.0 {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    }
}

/// The field that has the reason: of a service that is away, or the sentence of one that refuses.
struct Why(Option<String>);

impl Visit for Why {
    fn record_str(&mut self, field: &Field, value: &str) {
        if matches!(field.name(), "why" | "text") {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_warning_of_the_client_is_heard_and_nothing_else() {
        let heard = Heard::default();
        let silent = heard.notice(None);
        tracing::subscriber::with_default(registry().with(heard.clone()), || {
            tracing::warn!(target: "holdoff_client::link", message = "no reason");
            tracing::info!(target: "holdoff_client::link", why = "all is well");
            tracing::warn!(target: "another", why = "not ours");
            assert_eq!(heard.notice(None), silent);
            tracing::warn!(target: "holdoff_client::link", why = %"connection refused");
            assert!(heard.notice(None).ends_with(": connection refused"));
            tracing::warn!(target: "holdoff_client::link", text = "no such namespace");
            let told = heard.notice(Some("not connected"));
            assert!(told.ends_with(": no such namespace"));
        });
    }
}
