//! What is asked before anything is done: why, for how long, and whether it is meant. It says
//! whom it would hit; nothing has been done until `y`.

use std::time::Duration;

use holdoff_client::proto::Dependency;

use super::list;
use crate::cli::{span, status};

const REASON_MAX: usize = 1_000;
const LASTS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 3_600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Open,
    Close,
    Release,
    Reset,
    ClearHold,
}

impl Action {
    pub fn of(key: char) -> Option<Self> {
        match key {
            'o' => Some(Self::Open),
            'c' => Some(Self::Close),
            'r' => Some(Self::Release),
            'R' => Some(Self::Reset),
            'h' => Some(Self::ClearHold),
            _ => None,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Open => "Force open",
            Self::Close => "Force closed",
            Self::Release => "Release",
            Self::Reset => "Reset",
            Self::ClearHold => "Clear the hold of",
        }
    }

    fn lasts(self) -> bool {
        matches!(self, Self::Open | Self::Close)
    }

    /// Why it cannot be done to this one.
    pub fn lacks(self, d: &Dependency) -> Option<&'static str> {
        match self {
            Self::Release if d.r#override.is_none() => Some("override to release"),
            Self::ClearHold if d.held_for.is_none() => Some("hold to clear"),
            Self::Open | Self::Close | Self::Release | Self::Reset | Self::ClearHold => None,
        }
    }

    /// What it would do to whom.
    pub fn effect(self, d: &Dependency) -> String {
        let calls = match list::per_second(d.calls_per_second) {
            none if none == "0" => "No calls now".to_owned(),
            rate => format!("About {rate} calls a second"),
        };
        let whose = match d.active_instances {
            0 => "No caller has been heard of lately.".to_owned(),
            n => format!("{calls}, of {}.", status::counted(u64::from(n), "instance")),
        };
        let what = match self {
            Self::Open => "Every call will be refused, first attempts too.",
            Self::Close => {
                "Calls will pass whatever fails; retry budget, holds and rate limit still bind."
            }
            Self::Release => {
                "The override ends; the breaker is closed, with no evidence, and decides by itself again."
            }
            Self::Reset => {
                "The evidence and the open period are forgotten, which cannot be undone; budget, calendar, hold and override stay."
            }
            Self::ClearHold => {
                "Callers need not wait any longer for what the dependency asked; that cannot be undone."
            }
        };
        format!("{what} {whose}")
    }
}

/// What is to be done, once it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub action: Action,
    pub dependency: String,
    pub reason: String,
    /// Of an override; `None`: until it is released.
    pub lasts: Option<Duration>,
    /// What was looked at; what has changed since is looked at again first.
    pub epoch: u64,
}

/// Where one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Reason,
    Lasts,
    Name,
    Sure,
    Sent,
}

#[derive(Clone, Debug)]
pub struct Dialog {
    pub action: Action,
    pub dependency: String,
    pub epoch: u64,
    pub reason: String,
    pub lasts: String,
    pub name: String,
    pub at: Field,
    pub problem: Option<String>,
}

impl Dialog {
    pub fn new(action: Action, d: &Dependency) -> Self {
        Self {
            action,
            dependency: d.name.clone(),
            epoch: d.epoch,
            reason: String::new(),
            lasts: "10m".to_owned(),
            name: String::new(),
            at: Field::Reason,
            problem: None,
        }
    }

    /// The fields that are asked for, in order.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![Field::Reason];
        if self.action.lasts() {
            fields.push(Field::Lasts);
            if self.lasts.trim().is_empty() {
                fields.push(Field::Name);
            }
        }
        fields
    }

    pub fn text(&mut self) -> Option<&mut String> {
        match self.at {
            Field::Reason => Some(&mut self.reason),
            Field::Lasts => Some(&mut self.lasts),
            Field::Name => Some(&mut self.name),
            Field::Sure | Field::Sent => None,
        }
    }

    /// To the next field, where this one is well.
    pub fn enter(&mut self) {
        self.problem = self.wrong();
        if self.problem.is_some() {
            return;
        }
        let fields = self.fields();
        let at = fields.iter().position(|field| *field == self.at);
        if let Some(at) = at {
            self.at = fields.get(at + 1).copied().unwrap_or(Field::Sure);
        }
    }

    /// To the field before.
    pub fn back(&mut self) {
        let fields = self.fields();
        let at = fields.iter().position(|field| *field == self.at);
        let before = at.unwrap_or(fields.len()).saturating_sub(1);
        self.at = fields.get(before).copied().unwrap_or(Field::Reason);
        self.problem = None;
    }

    fn wrong(&self) -> Option<String> {
        match self.at {
            Field::Reason => match self.reason.trim().len() {
                1..=REASON_MAX => None,
                0 => Some("say why: 1 to 1,000 bytes".to_owned()),
                many => Some(format!(
                    "the reason has {many} bytes; 1 to 1,000 are allowed"
                )),
            },
            Field::Lasts if self.lasts.trim().is_empty() => None,
            Field::Lasts => match span::parse(self.lasts.trim()) {
                Ok(span) if LASTS.contains(&span) => None,
                Ok(_) => Some("1s to 24h; or nothing: until it is released".to_owned()),
                Err(why) => Some(why),
            },
            Field::Name if self.name == self.dependency => None,
            Field::Name => {
                Some("type the name of the dependency, as it is written above".to_owned())
            }
            Field::Sure | Field::Sent => None,
        }
    }

    /// It is meant.
    pub fn order(&mut self) -> Order {
        self.at = Field::Sent;
        self.problem = None;
        let lasts = match self.action.lasts() {
            true => span::parse(self.lasts.trim()).ok(),
            false => None,
        };
        Order {
            action: self.action,
            dependency: self.dependency.clone(),
            reason: self.reason.trim().to_owned(),
            lasts: lasts.filter(|span| *span > Duration::ZERO),
            epoch: self.epoch,
        }
    }
}
