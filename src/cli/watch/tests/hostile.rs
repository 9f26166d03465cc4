//! Hostile texts in every field that is shown.

use proptest::prelude::*;

use super::*;

/// Text that steers a terminal, now and then among other text.
fn hostile() -> impl Strategy<Value = String> {
    let steering = prop::sample::select(vec![
        "\u{1b}[2J",
        "\u{1b}]0;x\u{7}",
        "\u{9b}31m",
        "\r\n",
        "\t",
        "\u{202e}",
        "\u{2066}",
        "\u{200f}",
        "\u{200b}",
        "\u{feff}",
        "\u{7f}",
        "\u{e0041}",
        "\u{61c}",
        "\0",
        "e\u{301}",
        "漢字",
        "🏳\u{200d}🌈",
    ]);
    let part = prop_oneof![
        steering.prop_map(str::to_owned),
        any::<String>(),
        "[a-z ]{0,20}"
    ];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat())
}

/// One that has this text in every field that is shown.
fn hostile_fleet(text: &str) -> Dependency {
    Dependency {
        name: text.into(),
        namespace: text.into(),
        detail: text.into(),
        r#override: Some(Override {
            kind: OverrideKind::ForceOpen.into(),
            owner: text.into(),
            reason: text.into(),
            ..Default::default()
        }),
        check: Some(CheckSummary {
            verdict: CheckVerdict::Unhealthy.into(),
            ..Default::default()
        }),
        held_for: wire(9),
        followed: Some(Followed {
            reporters: vec![Reporter {
                service: text.into(),
                instance: text.into(),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..named("", BreakerState::Open)
    }
}

fn assert_harmless(model: &Model) {
    let terminal = drawn(model);
    for cell in &terminal.backend().buffer().content {
        assert!(
            !cell.symbol().contains(is_unprintable),
            "{:?}",
            cell.symbol()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_of_others_brings_a_control_or_a_direction_into_a_cell(
        text in hostile(), width in 20u16..130, height in 6u16..60,
    ) {
        let mut model = heard(vec![hostile_fleet(&text)], width, height);
        let owned = Event { owner: text.clone(), detail: text.clone(), ..tripped(&text) };
        model.server.clone_from(&text);
        model.namespace.clone_from(&text);
        told(&mut model, Told::Event(Box::new(owned), 0), after(1_000));
        press(&mut model, KeyCode::Char('e'));
        assert_harmless(&model);
        model.search.clone_from(&text);
        assert_harmless(&model);
        model.search.clear();
        press(&mut model, KeyCode::Char('o'));
        let now = model.now;
        update(&mut model, Input::Paste(text.clone()), now);
        assert_harmless(&model);
        told(&mut model, Told::Refused(text.clone()), after(1_000));
        press(&mut model, KeyCode::Esc);
        told(&mut model, Told::Refused(text.clone()), after(1_000));
        assert_harmless(&model);
        press(&mut model, KeyCode::Enter);
        let value = PolicyValue { field: text.clone(), value: text.clone(), origin: text.clone() };
        told(&mut model, Told::Policy(text.clone(), Ok(vec![value])), after(1_000));
        told(&mut model, Told::Numbers(vec![hostile_fleet(&text)]), after(1_000));
        for _ in 0..6 {
            assert_harmless(&model);
            press(&mut model, KeyCode::PageDown);
        }
        told(&mut model, Told::Policy(text.clone(), Err(text.clone())), after(1_000));
        told(&mut model, Told::Lost(text), after(1_000));
        assert_harmless(&model);
    }

    #[test]
    fn no_keys_and_no_size_bring_it_down(
        keys in prop::collection::vec("[a-zA-Z/? ]|\\PC", 0..40),
        ends in prop::collection::vec(0usize..6, 40),
        width in 0u16..120, height in 0u16..40,
    ) {
        let mut model = heard(fleet(), width, height);
        for (key, end) in keys.iter().zip(ends) {
            press(&mut model, KeyCode::Char(key.chars().next().unwrap_or('x')));
            let codes = [KeyCode::Enter, KeyCode::Esc, KeyCode::Up, KeyCode::PageDown, KeyCode::Backspace];
            if let Some(code) = codes.get(end) {
                press(&mut model, *code);
            }
            let now = model.now;
            update(&mut model, Input::Resize(height, width), now);
            if width > 0 && height > 0 {
                drawn(&model);
            }
        }
    }
}
