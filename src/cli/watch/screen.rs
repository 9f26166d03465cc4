//! The terminal: taken, given back however the program ends, and drawn at most ten times a
//! second, whatever happens in the fleet.

use std::{
    io::{self, stdout},
    time::{Duration, Instant},
};

use ratatui::{
    DefaultTerminal,
    crossterm::{
        cursor::Show,
        event::{DisableBracketedPaste, EnableBracketedPaste, Event, EventStream, KeyEventKind},
        execute,
        terminal::{EnterAlternateScreen, enable_raw_mode},
    },
    layout::{Position, Rect},
};
use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use tokio_stream::StreamExt;

use super::{
    feed::{Ask, Feed},
    model::{Model, Now},
    update::{Effect, Input, update},
    view::view,
};
use crate::cli::{
    Context,
    exec::child::Signals,
    exit::{Exit, Failure},
};

const FRAME: Duration = Duration::from_millis(100);
/// Spans on the screen go on.
const CLOCK: Duration = Duration::from_secs(1);
/// Read before it is drawn again.
const AT_ONCE: usize = 4_096;

/// The terminal, ours until this is dropped.
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> io::Result<Self> {
        // A panic gives the terminal back before its message is printed.
        let screen = Self(ratatui::try_init()?);
        execute!(stdout(), EnableBracketedPaste)?;
        Ok(screen)
    }

    fn give_back() {
        let _ = execute!(stdout(), DisableBracketedPaste, Show);
        let _ = ratatui::try_restore();
    }

    fn take_again(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        // `clear` would ask the terminal where its cursor is, in a race with the keys.
        let size = self.0.size()?;
        self.0.resize(Rect::from((Position::ORIGIN, size)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        Self::give_back();
    }
}

/// # Errors
/// Where the terminal cannot be used.
pub async fn run(context: &Context, owner: Option<String>) -> Result<Exit, Failure> {
    let broken = |error: io::Error| Failure::No(format!("cannot use the terminal: {error}"));
    let mut signals = Signals::listen().map_err(broken)?;
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw())).map_err(broken)?;
    let mut screen = Screen::take().map_err(broken)?;
    let size = screen.0.size().map_err(broken)?;
    let begun = Instant::now();
    let now = || Now {
        elapsed: begun.elapsed(),
        wall: jiff::Timestamp::now(),
    };
    let start = |namespace| Feed::start(context.server.clone(), namespace, owner.clone());
    let mut feed = start(context.namespace.clone());
    let (server, namespace) = (context.server.to_string(), context.namespace.clone());
    let size = (size.width, size.height);
    let mut model = Model::new(server, namespace, context.ink, now(), size);
    let mut keys = EventStream::new();
    let mut tick = interval(FRAME);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut drawn, mut changed) = (None::<Instant>, true);
    loop {
        let mut effect = None;
        tokio::select! {
            key = keys.next() => match key {
                Some(Ok(event)) => if let Some(input) = input(event) {
                    effect = update(&mut model, input, now());
                    changed = true;
                },
                // The terminal is gone.
                Some(Err(_)) | None => return Ok(Exit::Done),
            },
            Some(told) = feed.told.recv() => {
                update(&mut model, Input::Told(told), now());
                for _ in 0..AT_ONCE {
                    let Ok(told) = feed.told.try_recv() else { break };
                    update(&mut model, Input::Told(told), now());
                }
                changed = true;
            },
            _ = tick.tick() => {
                update(&mut model, Input::Tick, now());
                changed |= drawn.is_none_or(|drawn| drawn.elapsed() >= CLOCK);
            },
            _ = continued.recv() => {
                effect = Some(Effect::Redraw);
                changed = true;
            },
            _ = signals.next() => return Ok(Exit::Done),
        }
        match effect {
            None => {}
            Some(Effect::Quit) => return Ok(Exit::Done),
            Some(Effect::Suspend) => {
                Screen::give_back();
                // Returns when the shell brings us back; at once where there is no job control.
                let _ = kill_process(getpid(), Signal::TSTP);
                screen.take_again().map_err(broken)?;
            }
            Some(Effect::Redraw) => screen.take_again().map_err(broken)?,
            Some(Effect::ReadPolicy(name)) => ask(&feed, Ask::Policy(name)),
            Some(Effect::Carry(order)) => ask(&feed, Ask::Carry(order)),
            Some(Effect::Namespace(name)) => feed = start(name),
        }
        if changed && drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
            model.settle();
            screen.0.draw(|frame| view(&model, frame)).map_err(broken)?;
            feed.seen.send_replace(model.seen());
            (drawn, changed) = (Some(Instant::now()), false);
        }
    }
}

fn ask(feed: &Feed, ask: Ask) {
    // The task ends with the feed.
    let _ = feed.asks.send(ask);
}

fn input(event: Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(Input::Key(key)),
        Event::Paste(text) => Some(Input::Paste(text)),
        Event::Resize(width, height) => Some(Input::Resize(width, height)),
        Event::Key(_) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}
