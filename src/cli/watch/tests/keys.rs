//! The keys as laws: what narrows the list, and actions that ask before they are done.

use super::*;

#[test]
fn a_search_and_a_filter_narrow_the_list_until_esc() {
    let mut model = heard(fleet(), 80, 20);
    press(&mut model, KeyCode::Char('/'));
    type_(&mut model, "ALICE");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.visible(), ["search"], "by the owner of an override");
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('f'));
    assert_eq!(model.filter, Filter::Trouble);
    assert_eq!(model.visible(), ["payments", "search", "openai:gpt"]);
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.visible().len(), 4);
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(model.sort, Sort::Name);
    assert_eq!(model.visible()[0], "mail");
}

#[test]
fn the_chosen_line_stays_the_same_dependency_when_the_order_changes() {
    let mut model = heard(fleet(), 80, 20);
    press(&mut model, KeyCode::Down);
    assert_eq!(&*model.chosen().unwrap().told.name, "search");
    let worse = Dependency {
        failure_ratio: 1.0,
        ..named("mail", BreakerState::Open)
    };
    told(&mut model, Told::Dependency(Box::new(worse)), after(1_500));
    update(&mut model, Input::Tick, after(1_600));
    assert_eq!(model.visible()[0], "mail");
    assert_eq!(&*model.chosen().unwrap().told.name, "search");
}

#[test]
fn an_action_asks_why_says_whom_it_hits_and_wants_a_yes() {
    let mut model = heard(fleet(), 80, 24);
    press(&mut model, KeyCode::Char('o'));
    assert_eq!(press(&mut model, KeyCode::Enter), None);
    assert!(
        text(&model).contains("say why: 1 to 1,000 bytes"),
        "{}",
        text(&model)
    );
    type_(&mut model, "INC-421 yy");
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Enter);
    let shown = text(&model);
    for part in [
        "Force open payments",
        "Every call will be refused, first attempts too.",
        "About 42.0 calls a",
        "of 3 instances.",
        "Why: INC-421 yy",
        "Do it?   y yes",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let order = Order {
        action: Action::Open,
        dependency: "payments".into(),
        reason: "INC-421 yy".into(),
        lasts: Some(Duration::from_secs(600)),
        epoch: 7,
    };
    assert_eq!(
        press(&mut model, KeyCode::Char('y')),
        Some(Effect::Carry(order.clone()))
    );
    assert_eq!(
        press(&mut model, KeyCode::Char('y')),
        None,
        "an order is sent once"
    );
    let forced = named("payments", BreakerState::ForcedOpen);
    told(
        &mut model,
        Told::Done(order, Box::new(forced)),
        after(1_200),
    );
    update(&mut model, Input::Tick, after(1_300));
    let shown = text(&model);
    assert!(
        shown.contains("payments: forced open (r releases it)"),
        "{shown}"
    );
    assert!(shown.contains("▣ forced-open"), "{shown}");
}

#[test]
fn an_override_without_an_end_wants_the_name_typed() {
    let mut model = heard(fleet(), 80, 24);
    press(&mut model, KeyCode::Char('c'));
    type_(&mut model, "why");
    press(&mut model, KeyCode::Enter);
    for _ in 0..3 {
        press(&mut model, KeyCode::Backspace);
    }
    press(&mut model, KeyCode::Enter);
    type_(&mut model, "paymnts");
    press(&mut model, KeyCode::Enter);
    assert!(
        text(&model).contains("type the name of the dependency"),
        "{}",
        text(&model)
    );
    for _ in 0.."paymnts".len() {
        press(&mut model, KeyCode::Backspace);
    }
    type_(&mut model, "payments");
    press(&mut model, KeyCode::Enter);
    let effect = press(&mut model, KeyCode::Char('y'));
    assert!(
        matches!(effect, Some(Effect::Carry(Order { lasts: None, .. }))),
        "{effect:?}"
    );
}

#[test]
fn a_time_out_of_range_is_refused_where_it_is_typed() {
    let mut model = heard(fleet(), 80, 24);
    press(&mut model, KeyCode::Char('o'));
    type_(&mut model, "why");
    press(&mut model, KeyCode::Enter);
    type_(&mut model, " 25h");
    press(&mut model, KeyCode::Enter);
    assert!(
        text(&model).contains("1s to 24h; or nothing"),
        "{}",
        text(&model)
    );
    assert!(matches!(&model.over, Over::Dialog(dialog) if dialog.at == Field::Lasts));
}

#[test]
fn what_is_pasted_confirms_nothing() {
    let mut model = heard(fleet(), 80, 24);
    press(&mut model, KeyCode::Char('R'));
    let now = model.now;
    let pasted = Input::Paste("why\n\r\ny\u{1b}".to_owned());
    assert_eq!(update(&mut model, pasted, now), None);
    let Over::Dialog(dialog) = &model.over else {
        panic!("{:?}", model.over)
    };
    assert_eq!((dialog.at, &*dialog.reason), (Field::Reason, "why   y "));
}

#[test]
fn what_has_changed_since_it_was_looked_at_is_looked_at_again() {
    let mut model = heard(fleet(), 80, 24);
    press(&mut model, KeyCode::Char('o'));
    type_(&mut model, "why");
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Char('y'));
    let now = Dependency {
        epoch: 8,
        ..named("payments", BreakerState::HalfOpen)
    };
    told(&mut model, Told::Changed(Box::new(now)), after(1_200));
    let shown = text(&model);
    assert!(shown.contains("It is half-open now"), "{shown}");
    assert!(
        shown.contains("nothing was done: it has changed"),
        "{shown}"
    );
    let again = press(&mut model, KeyCode::Char('y'));
    assert!(
        matches!(again, Some(Effect::Carry(Order { epoch: 8, .. }))),
        "{again:?}"
    );
}

#[test]
fn a_refusal_is_said_in_plain_words_and_the_dialog_stays() {
    let mut model = heard(fleet(), 80, 24);
    press(&mut model, KeyCode::Char('R'));
    type_(&mut model, "why");
    press(&mut model, KeyCode::Enter);
    assert!(press(&mut model, KeyCode::Char('y')).is_some());
    told(
        &mut model,
        Told::Refused("refused: dash may only look".into()),
        after(1_200),
    );
    assert!(
        text(&model).contains("refused: dash may only look"),
        "{}",
        text(&model)
    );
    press(&mut model, KeyCode::Esc);
    assert!(matches!(model.over, Over::Nothing));
}

#[test]
fn what_is_not_there_cannot_be_ended() {
    let mut model = heard(fleet(), 80, 24);
    press(&mut model, KeyCode::Char('r'));
    assert!(text(&model).contains("payments has no override to release"));
    press(&mut model, KeyCode::Char('h'));
    assert!(text(&model).contains("payments has no hold to clear"));
}
