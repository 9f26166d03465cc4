//! The model after an input: pure. What has to be done outside of it is returned.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use holdoff_client::proto::{Dependency, Event, PolicyValue};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    dialog::{Action, Dialog, Field, Order},
    model::{
        EVENTS_MAX, Filter, Link, Model, Notice, Now, Over, Page, Pane, Policy, Row, SAMPLES_MAX,
        Sample, Sort, Stands,
    },
};
use crate::{
    cli::{escape::escape, output::Tone},
    policy::is_name,
};

const NOTICE_FOR: Duration = Duration::from_secs(10);
/// Typed text that is longer is not taken.
const TYPED_MAX: usize = 1_000;

/// What comes in.
#[derive(Debug)]
pub enum Input {
    Key(KeyEvent),
    /// What was pasted into the terminal, whole.
    Paste(String),
    Resize(u16, u16),
    Tick,
    Told(Told),
}

/// What the service says, and what became of orders.
#[derive(Debug)]
pub enum Told {
    /// Connected: a whole listing follows.
    Begun,
    Dependency(Box<Dependency>),
    Removed(String),
    /// The listing is whole.
    Synced,
    Event(Box<Event>, u64),
    /// Numbers of what is on the screen; also a sign of life.
    Numbers(Vec<Dependency>),
    Lost(String),
    Policy(String, Result<Vec<PolicyValue>, String>),
    Done(Order, Box<Dependency>),
    Refused(String),
    /// It is not what was looked at any more: look again.
    Changed(Box<Dependency>),
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Quit,
    Suspend,
    Redraw,
    ReadPolicy(String),
    Carry(Order),
    /// Watch another namespace.
    Namespace(String),
}

pub fn update(model: &mut Model, input: Input, now: Now) -> Option<Effect> {
    model.now = now;
    match input {
        Input::Key(key) => {
            let effect = pressed(model, key);
            model.settle();
            effect
        }
        Input::Paste(text) => {
            text.chars().for_each(|c| typed(model, c));
            model.settle();
            None
        }
        Input::Resize(width, height) => {
            (model.width, model.height) = (width, height);
            model.settle();
            None
        }
        Input::Tick => {
            if model
                .notice
                .as_ref()
                .is_some_and(|notice| notice.until < now.elapsed)
            {
                model.notice = None;
            }
            model.settle();
            None
        }
        Input::Told(told) => {
            hear(model, told);
            None
        }
    }
}

fn hear(model: &mut Model, told: Told) {
    match told {
        Told::Begun => {
            model.listing += 1;
            // Those of the last hour are told again.
            model.events.clear();
            model.missed = 0;
            heard(model);
        }
        Told::Dependency(d) => {
            heard(model);
            learn(model, *d);
        }
        Told::Removed(name) => {
            heard(model);
            model.rows.remove(&*name);
            model.stands = Stands::Changed;
        }
        Told::Synced => {
            heard(model);
            let listing = model.listing;
            model.rows.retain(|_, row| row.listing == listing);
            model.stands = Stands::Changed;
        }
        Told::Event(event, missed) => {
            heard(model);
            model.missed += missed;
            model.events.push_back(*event);
            while model.events.len() > EVENTS_MAX {
                model.events.pop_front();
            }
        }
        Told::Numbers(all) => {
            heard(model);
            all.into_iter().for_each(|d| {
                sample(model, &d);
                learn(model, d);
            });
        }
        Told::Lost(cause) => model.link = Link::Lost(cause),
        Told::Policy(name, values) => {
            if let Some(page) = &mut model.page
                && *page.name == *name
            {
                page.policy = match values {
                    Ok(values) => Policy::Known(values),
                    Err(why) => Policy::Refused(why),
                };
            }
        }
        Told::Done(order, d) => done(model, &order, *d),
        Told::Refused(why) => refused(model, why),
        Told::Changed(d) => changed(model, *d),
    }
}

fn heard(model: &mut Model) {
    model.link = Link::Live;
    model.heard = model.now;
}

fn learn(model: &mut Model, d: Dependency) {
    let (seen, listing) = (model.now.elapsed, model.listing);
    let row = Row {
        told: d,
        seen,
        listing,
    };
    model.rows.insert(Arc::from(&*row.told.name), row);
    model.stands = Stands::Changed;
}

fn sample(model: &mut Model, d: &Dependency) {
    let Some(page) = model.page.as_mut().filter(|page| *page.name == *d.name) else {
        return;
    };
    page.followed = d.followed.clone().or(page.followed.take());
    page.samples.push_back(Sample {
        calls: d.calls_per_second,
        failing: d.failure_ratio,
        left: d.budget_left,
        out: d.permits_out,
    });
    while page.samples.len() > SAMPLES_MAX {
        page.samples.pop_front();
    }
}

fn done(model: &mut Model, order: &Order, d: Dependency) {
    let name = escape(&d.name).into_owned();
    let undo = match order.action {
        Action::Open | Action::Close => " (r releases it)",
        Action::Release | Action::Reset | Action::ClearHold => "",
    };
    let what = match order.action {
        Action::Open => "forced open",
        Action::Close => "forced closed",
        Action::Release => "released",
        Action::Reset => "reset",
        Action::ClearHold => "its hold is cleared",
    };
    say(model, Tone::Good, format!("{name}: {what}{undo}"));
    learn(model, d);
    if matches!(&model.over, Over::Dialog(dialog) if dialog.at == Field::Sent) {
        model.over = Over::Nothing;
    }
}

/// In the dialog where it is still open, else in the last line.
fn refused(model: &mut Model, why: String) {
    if let Over::Dialog(dialog) = &mut model.over
        && dialog.at == Field::Sent
    {
        dialog.at = Field::Sure;
        dialog.problem = Some(why);
    } else {
        say(model, Tone::Bad, why);
    }
}

fn changed(model: &mut Model, d: Dependency) {
    let state = crate::cli::status::state_word(&d);
    let why = format!(
        "nothing was done: it has changed since you looked, and is {state} now ({}); look again",
        escape(&d.detail)
    );
    let epoch = d.epoch;
    learn(model, d);
    if let Over::Dialog(dialog) = &mut model.over {
        dialog.epoch = epoch;
    }
    refused(model, why);
}

pub fn say(model: &mut Model, tone: Tone, text: String) {
    let until = model.now.elapsed + NOTICE_FOR;
    model.notice = Some(Notice { text, tone, until });
}

fn pressed(model: &mut Model, key: KeyEvent) -> Option<Effect> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Effect::Quit),
            KeyCode::Char('z') => Some(Effect::Suspend),
            KeyCode::Char('l') => Some(Effect::Redraw),
            KeyCode::Char('u') => {
                if let Some(text) = text(model) {
                    text.clear();
                }
                model.stands = Stands::Changed;
                None
            }
            _ => None,
        };
    }
    match &model.over {
        Over::Nothing => {
            model.notice = None;
            walked(model, key.code)
        }
        Over::Help => {
            model.over = Over::Nothing;
            None
        }
        Over::Search => {
            match key.code {
                KeyCode::Enter => model.over = Over::Nothing,
                KeyCode::Esc => {
                    model.search.clear();
                    model.stands = Stands::Changed;
                    model.over = Over::Nothing;
                }
                code => edited(model, code),
            }
            None
        }
        Over::Namespace(_) => in_namespace(model, key.code),
        Over::Dialog(_) => in_dialog(model, key.code),
    }
}

fn in_namespace(model: &mut Model, code: KeyCode) -> Option<Effect> {
    match code {
        KeyCode::Esc => model.over = Over::Nothing,
        KeyCode::Enter => {
            let Over::Namespace(name) = std::mem::replace(&mut model.over, Over::Nothing) else {
                return None;
            };
            if !is_name(&name) {
                let text = format!("{}: is no name of a namespace", escape(&name));
                say(model, Tone::Bad, text);
                return None;
            }
            model.namespace.clone_from(&name);
            model.rows.clear();
            model.events.clear();
            model.page = None;
            model.selected = None;
            model.link = Link::Asked;
            model.heard = model.now;
            model.stands = Stands::Changed;
            return Some(Effect::Namespace(name));
        }
        code => edited(model, code),
    }
    None
}

fn in_dialog(model: &mut Model, code: KeyCode) -> Option<Effect> {
    let Over::Dialog(dialog) = &mut model.over else {
        return None;
    };
    match (dialog.at, code) {
        (_, KeyCode::Esc) => model.over = Over::Nothing,
        (Field::Sent, _) => {}
        (Field::Sure, KeyCode::Char('y')) => return Some(Effect::Carry(dialog.order())),
        (Field::Sure, KeyCode::Char('n')) => model.over = Over::Nothing,
        (_, KeyCode::Up | KeyCode::BackTab) => dialog.back(),
        (
            Field::Reason | Field::Lasts | Field::Name,
            KeyCode::Enter | KeyCode::Tab | KeyCode::Down,
        ) => {
            dialog.enter();
        }
        (_, code) => edited(model, code),
    }
    None
}

/// The text that is being typed.
fn text(model: &mut Model) -> Option<&mut String> {
    match &mut model.over {
        Over::Nothing | Over::Help => None,
        Over::Search => Some(&mut model.search),
        Over::Namespace(name) => Some(name),
        Over::Dialog(dialog) => dialog.text(),
    }
}

fn edited(model: &mut Model, code: KeyCode) {
    match code {
        KeyCode::Char(c) => typed(model, c),
        KeyCode::Backspace => {
            if let Some(text) = text(model) {
                text.pop();
            }
        }
        _ => {}
    }
    model.stands = Stands::Changed;
}

/// A line end in what is pasted is a blank: it must not confirm anything.
fn typed(model: &mut Model, c: char) {
    let c = if c.is_control() { ' ' } else { c };
    if let Some(text) = text(model)
        && text.len() + c.len_utf8() <= TYPED_MAX
    {
        text.push(c);
        model.stands = Stands::Changed;
    }
}

fn walked(model: &mut Model, code: KeyCode) -> Option<Effect> {
    let screen = model.list_height().max(2) as isize - 1;
    match code {
        KeyCode::Char('q') => return Some(Effect::Quit),
        KeyCode::Char('?') => model.over = Over::Help,
        KeyCode::Down | KeyCode::Char('j') => step(model, 1),
        KeyCode::Up | KeyCode::Char('k') => step(model, -1),
        KeyCode::PageDown | KeyCode::Char(' ') => step(model, screen),
        KeyCode::PageUp => step(model, -screen),
        KeyCode::Home | KeyCode::Char('g') => step(model, isize::MIN),
        KeyCode::End | KeyCode::Char('G') => step(model, isize::MAX),
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => leave(model),
        KeyCode::Char(key) if Action::of(key).is_some() => {
            if let Some(action) = Action::of(key) {
                ask(model, action);
            }
        }
        _ if model.page.is_some() => {}
        KeyCode::Enter | KeyCode::Right => return open_page(model),
        KeyCode::Char('/') => model.over = Over::Search,
        KeyCode::Char('n') => model.over = Over::Namespace(String::new()),
        KeyCode::Char('f') => model.filter = next(&Filter::ROUND, model.filter, 1),
        KeyCode::Char('F') => {
            model.filter = next(&Filter::ROUND, model.filter, Filter::ROUND.len() - 1)
        }
        KeyCode::Char('s') => model.sort = next(&Sort::ROUND, model.sort, 1),
        KeyCode::Char('S') => model.sort = next(&Sort::ROUND, model.sort, Sort::ROUND.len() - 1),
        KeyCode::Char('e') => {
            model.pane = match model.pane {
                Pane::Shut => Pane::Events,
                Pane::Events => Pane::Shut,
            };
        }
        _ => {}
    }
    model.stands = Stands::Changed;
    None
}

fn next<T: Copy + PartialEq>(round: &[T], at: T, steps: usize) -> T {
    let now = round.iter().position(|other| *other == at).unwrap_or(0);
    round[(now + steps) % round.len()]
}

fn step(model: &mut Model, by: isize) {
    if let Some(page) = &mut model.page {
        // The view stops at the last line.
        page.scroll = page.scroll.saturating_add_signed(by).min(100_000);
        return;
    }
    let last = model.order.len().saturating_sub(1);
    let at = model.selected_at().saturating_add_signed(by).min(last);
    model.selected = model.order.get(at).cloned();
}

/// Out of the page; else the search and the filter end.
fn leave(model: &mut Model) {
    if let Some(page) = model.page.take() {
        model.selected = Some(page.name);
    } else {
        model.search.clear();
        model.filter = Filter::All;
    }
}

fn open_page(model: &mut Model) -> Option<Effect> {
    let name = Arc::<str>::from(&*model.chosen()?.told.name);
    model.page = Some(Page {
        name: Arc::clone(&name),
        scroll: 0,
        samples: VecDeque::new(),
        policy: Policy::Asked,
        followed: None,
    });
    Some(Effect::ReadPolicy(name.to_string()))
}

fn ask(model: &mut Model, action: Action) {
    let Some(d) = model.chosen().map(|row| row.aged(model.now.elapsed)) else {
        return;
    };
    match action.lacks(&d) {
        Some(lacks) => {
            let text = format!("{} has no {lacks}", escape(&d.name));
            say(model, Tone::Bad, text);
        }
        None => model.over = Over::Dialog(Dialog::new(action, &d)),
    }
}
