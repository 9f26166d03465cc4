//! The words that people read for the wire's enums. A value that this build does not
//! know is shown by its number, never guessed.

use holdoff_client::proto::{
    BreakerState, CheckVerdict, DenialReason, EventKind, OverrideKind, PolicySource, ReportReason,
};

/// The state of a breaker.
pub fn state(value: i32) -> String {
    match BreakerState::try_from(value) {
        Ok(BreakerState::Unspecified) => "-".to_owned(),
        Ok(state) => lower(state.as_str_name(), "BREAKER_STATE_"),
        Err(_) => unknown(value),
    }
}

/// Why it was denied, in the capitals of the contract.
pub fn reason(value: i32) -> String {
    match DenialReason::try_from(value) {
        Ok(reason) => upper(reason.as_str_name(), "DENIAL_REASON_"),
        Err(_) => unknown(value),
    }
}

/// What became of a report, in the capitals of the contract.
pub fn report(value: i32) -> String {
    match ReportReason::try_from(value) {
        Ok(reason) => upper(reason.as_str_name(), "REPORT_REASON_"),
        Err(_) => unknown(value),
    }
}

/// What happened.
pub fn event(value: i32) -> String {
    match EventKind::try_from(value) {
        Ok(kind) => lower(kind.as_str_name(), "EVENT_KIND_").replace('-', " "),
        Err(_) => unknown(value),
    }
}

/// What health checks have found.
pub fn verdict(value: i32) -> String {
    match CheckVerdict::try_from(value) {
        Ok(CheckVerdict::Unspecified) => "-".to_owned(),
        Ok(verdict) => lower(verdict.as_str_name(), "CHECK_VERDICT_"),
        Err(_) => unknown(value),
    }
}

/// What an override does.
pub fn override_kind(value: i32) -> String {
    match OverrideKind::try_from(value) {
        Ok(OverrideKind::ForceOpen) => "forced open".to_owned(),
        Ok(OverrideKind::ForceClosed) => "forced closed".to_owned(),
        Ok(OverrideKind::Unspecified) => "-".to_owned(),
        Err(_) => unknown(value),
    }
}

/// Where a policy stands.
pub fn source(value: i32) -> String {
    match PolicySource::try_from(value) {
        Ok(source) => lower(source.as_str_name(), "POLICY_SOURCE_"),
        Err(_) => unknown(value),
    }
}

fn lower(name: &str, prefix: &str) -> String {
    upper(name, prefix).to_lowercase().replace('_', "-")
}

fn upper(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}

fn unknown(value: i32) -> String {
    format!("unknown ({value})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_the_words_of_the_contract() {
        assert_eq!(state(BreakerState::HalfOpen.into()), "half-open");
        assert_eq!(
            reason(DenialReason::BudgetExhausted.into()),
            "BUDGET_EXHAUSTED"
        );
        assert_eq!(event(EventKind::OverrideSet.into()), "override set");
        assert_eq!(source(PolicySource::BuiltIn.into()), "built-in");
        assert_eq!(state(99), "unknown (99)");
    }
}
