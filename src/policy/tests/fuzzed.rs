//! Laws of any body: what loads can be resolved, explained and written back.

use super::*;

/// Any value a form takes, and now and then one that it does not.
fn any_value(form: Form) -> BoxedStrategy<String> {
    let span = |least: Nanos, most: Nanos| {
        let near_ends = prop_oneof![
            Just(least.0),
            Just(most.0),
            least.0..=most.0,
            least.0..=most.0.min(20_000_000_000)
        ];
        near_ends.prop_map(|n| Value::Span(Nanos(n)).to_string())
    };
    match form {
        Form::Words(words) => proptest::sample::select(words)
            .prop_map(str::to_owned)
            .boxed(),
        Form::Span(least, most) => span(least, most).boxed(),
        Form::Count(least, most) | Form::Calls(least, most) => {
            prop_oneof![least..=most, least..=most.min(30)]
                .prop_map(|n| n.to_string())
                .boxed()
        }
        Form::Number(least, most) => (least..=most).prop_map(|n| n.to_string()).boxed(),
        Form::Share(least, most) => (f64::from(least)..=f64::from(most))
            .prop_map(|n| (n / 1e6).to_string())
            .boxed(),
        Form::Flag => any::<bool>().prop_map(|flag| flag.to_string()).boxed(),
        Form::Proportional => (0.0..=1.0)
            .prop_map(|share| format!("proportional({share})"))
            .boxed(),
    }
}

/// A policy's body with some of its fields.
fn any_body() -> impl Strategy<Value = String> {
    let fields = proptest::sample::subsequence((0..FIELDS.len()).collect::<Vec<_>>(), 0..12);
    let values = fields.prop_flat_map(|fields| {
        let each: Vec<_> = fields
            .into_iter()
            .map(|index| {
                let forms = FIELDS[index].forms.to_vec();
                let value = proptest::sample::select(forms).prop_flat_map(any_value);
                (Just(index), value)
            })
            .collect();
        each
    });
    values.prop_map(|values| {
        let sections = super::super::fields::SECTIONS.iter().filter_map(|section| {
            let own = values
                .iter()
                .filter(|(index, _)| FIELDS[*index].section == *section);
            let own: Vec<_> = own
                .map(|(index, value)| (FIELDS[*index].name, value))
                .collect();
            let inner: Vec<String> = own
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            match own.as_slice() {
                [] => None,
                [("", _), ..] => Some(format!("{section}: off")),
                _ => Some(format!("{section}: {{{}}}", inner.join(", "))),
            }
        });
        format!("{{{}}}", sections.collect::<Vec<_>>().join(", "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_loads_can_be_resolved_explained_and_written_back_as_the_same_policy(below in any_body(), above in any_body()) {
        let text = format!("version: 1\nnamespaces:\n  default:\n    defaults: {below}\n    dependencies:\n      a: {above}\n      p*: {above}\n");
        let Ok(set) = PolicySet::load(&[source("p.yaml", &text)], &[]) else { return Ok(()) };
        for name in ["a", "pq", "other"] {
            let (policy, _) = set.resolve("default", name).unwrap();
            let written = to_yaml(&policy);
            let back = PolicySet::load(&[], &[overlay("", "", &written)]);
            let back = back.map_err(|findings| TestCaseError::fail(format!("{findings:?}\n{written}")))?;
            prop_assert_eq!(&*back.resolve("default", name).unwrap().0, &*policy, "{}", written);
            let explained = set.explain("default", name).unwrap();
            for row in &explained {
                prop_assert!(FIELDS.iter().any(|field| field.path() == row.field));
            }
        }
        check(&set, &Traffic::default());
        prop_assert_eq!(diff(&set, &set), vec![]);
        diff(&set, &PolicySet::default());
        diff(&PolicySet::default(), &set);
        for entry in set.entries("default").unwrap() {
            let again = PolicySet::load(&[], &[overlay("", &entry.name, &entry.document)]);
            // An entry alone may contradict the built-in policy; it never fails to be read.
            if let Err(findings) = again {
                prop_assert!(!findings.iter().any(|finding| finding.message.contains("not allowed")), "{:?}", findings);
            }
        }
    }

    #[test]
    fn any_text_is_refused_or_loaded_and_never_panics(text in "[ -~\n]{0,200}") {
        let _ = PolicySet::load(&[source("p.yaml", &text)], &[]);
        let _ = PolicySet::load(&[source("p.yaml", &defaults(&text))], &[]);
        let _ = PolicySet::load(&[], &[overlay("", "a", &text)]);
    }
}
