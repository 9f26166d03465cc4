//! What is counted of one dependency, in words: for the card and for the page of `holdoff watch`.
//! Nothing here prints.

use holdoff_client::proto::Dependency;

use super::counted;
use crate::cli::{escape::escape, span, words};

/// `4/24`, where a column has room for it.
pub fn budget_short(d: &Dependency) -> String {
    let whole = format!("{}/{}", d.budget_left, d.budget_allowed);
    match d.budget_allowed > 0 && whole.len() <= 6 {
        true => whole,
        false => d.budget_left.to_string(),
    }
}

/// How many retries are left of how many. A service of an earlier version does not say of how
/// many.
pub fn budget(d: &Dependency) -> String {
    let of = match d.budget_allowed {
        0 => String::new(),
        allowed => format!(" of {allowed}"),
    };
    let retries = match d.retries {
        1 => "1 retry".to_owned(),
        n => format!("{n} retries"),
    };
    let first = counted(d.first_attempts, "first attempt");
    format!(
        "{} left{of}; {first} and {retries} in its window",
        d.budget_left
    )
}

/// Nothing where no retry holds a place in the calendar.
pub fn planned(d: &Dependency) -> String {
    let first = d.next_planned_in.as_ref().map(span::from_wire);
    let first = first.map_or_else(String::new, |first| {
        format!(", the first in {}", span::human(first))
    });
    match d.planned_retries {
        0 => String::new(),
        1 => format!("1 retry{first}"),
        n => format!("{n} retries{first}"),
    }
}

/// Which part of the calendar has how many: those that have any, the first eight of them.
pub fn calendar(d: &Dependency) -> String {
    const SHOWN: usize = 8;
    let Some(followed) = &d.followed else {
        return String::new();
    };
    let Some(part) = followed.calendar_part.as_ref().map(span::from_wire) else {
        return String::new();
    };
    let planned = followed.calendar.iter().zip(0_u32..);
    let mut planned = planned.filter(|(count, _)| **count > 0);
    let shown = planned.by_ref().take(SHOWN).map(|(count, at)| match at {
        0 => format!("{count} within {}", span::human(part)),
        at => format!("{count} from {}", span::human(part.saturating_mul(at))),
    });
    let mut parts: Vec<String> = shown.collect();
    let later: u64 = planned.map(|(count, _)| count).sum();
    if later > 0 {
        parts.push(format!("{later} later"));
    }
    parts.join(", ")
}

/// Denials by reason, the most frequent first; nothing where there were none.
pub fn denials(d: &Dependency) -> String {
    let each = d.denials.iter();
    let each = each.map(|denied| format!("{} {}", denied.count, words::reason(denied.reason)));
    each.collect::<Vec<_>>().join(", ")
}

pub fn refused_alone(d: &Dependency) -> String {
    match d.refused_instances {
        0 => String::new(),
        n => counted(n.into(), "instance"),
    }
}

/// A line each, the ten heard of last; nothing where it is not followed.
pub fn reporters(d: &Dependency) -> Vec<String> {
    const SHOWN: usize = 10;
    let Some(followed) = &d.followed else {
        return Vec::new();
    };
    let all = &followed.reporters;
    let since = span::human_or_dash(followed.followed_for.as_ref());
    let mut lines = vec![match all.len() {
        0 => format!("nobody heard of in the {since} that it is followed"),
        n => format!(
            "{} in the {since} that it is followed",
            counted(n as u64, "instance")
        ),
    }];
    lines.extend(all.iter().take(SHOWN).map(|it| {
        format!(
            "{}: {} ago; {} granted, {} refused; {} succeeded, {} failed",
            named(&it.service, &it.instance),
            span::human_or_dash(it.heard_ago.as_ref()),
            it.granted,
            it.denied,
            it.succeeded,
            it.failed,
        )
    }));
    if all.len() > SHOWN {
        lines.push(format!("and {} more", all.len() - SHOWN));
    }
    lines
}

fn named(service: &str, instance: &str) -> String {
    match (service, instance) {
        ("", "") => "(no name)".to_owned(),
        (one, "") | ("", one) => escape(one).into_owned(),
        (service, instance) => format!("{}/{}", escape(service), escape(instance)),
    }
}
