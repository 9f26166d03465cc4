//! The parser as a whole: its own checks, the names of the environment, the settings file.

mod serving;

use std::path::Path;

use clap::error::ErrorKind;

use super::*;

fn command() -> clap::Command {
    sources::with_environment(Cli::command())
}

fn with_file(text: &str) -> Result<clap::Command, String> {
    let values = sources::parse(text).unwrap();
    sources::with_settings(command(), Path::new("s.yaml"), values).map_err(|f| f.to_string())
}

fn cli(command: clap::Command, line: &str) -> Result<Cli, clap::Error> {
    let matches = command.try_get_matches_from(line.split_whitespace())?;
    Cli::from_arg_matches(&matches)
}

fn listen(cli: Cli) -> String {
    match cli.command {
        Command::Serve(args) => serve::settings(args).unwrap().listen.to_string(),
        other => panic!("{other:?}"),
    }
}

fn each_command(command: &clap::Command, see: &mut impl FnMut(&clap::Command)) {
    see(command);
    for inner in command.get_subcommands() {
        each_command(inner, see);
    }
}

#[test]
fn the_parser_is_consistent() {
    command().debug_assert();
}

#[test]
fn every_flag_has_a_variable_and_none_that_kubernetes_sets() {
    each_command(&command(), &mut |command| {
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let env = arg.get_env().map(|env| env.to_str().unwrap().to_owned());
            let env = env.unwrap_or_else(|| panic!("{} --{long}", command.get_name()));
            assert!(!env.starts_with("HOLDOFF_PORT"), "{env}");
            assert!(!env.starts_with("HOLDOFF_SERVICE_"), "{env}");
        }
    });
}

#[test]
fn every_command_has_examples_and_exit_codes_in_its_help() {
    each_command(&command(), &mut |command| {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_else(|| panic!("{}: no help after it", command.get_name()));
        assert!(help.contains("Exit codes: "), "{}", command.get_name());
        assert!(help.contains("xample") || command.get_name() == "holdoff");
    });
}

/// The parser breaks lines for the terminal that there is; a line broken by hand is broken twice.
#[test]
fn help_is_wrapped_by_the_terminal_and_its_examples_fit() {
    each_command(&command(), &mut |command| {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2) {
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            assert!(!(is_prose(pair[0]) && is_prose(pair[1])), "{pair:?}");
        }
        for line in lines.iter().filter(|line| line.starts_with(' ')) {
            assert!(line.chars().count() <= 100, "{line}");
        }
    });
}

#[test]
fn help_shows_no_value_of_the_environment() {
    each_command(&command(), &mut |command| {
        for arg in command
            .get_arguments()
            .filter(|arg| arg.get_env().is_some())
        {
            assert!(arg.is_hide_env_values_set(), "{}", arg.get_id());
        }
    });
}

#[test]
fn what_apply_is_told_on_the_command_line_wins_over_what_is_known_from_elsewhere() {
    let shown = |file: &str, line: &str| {
        let command = match file {
            "" => command(),
            file => with_file(file).unwrap(),
        };
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        let mut cli = Cli::from_arg_matches(&matches).unwrap();
        let Command::Policy(policy) = &mut cli.command else {
            panic!("{line}")
        };
        policy.settle(matches.subcommand().unwrap().1)?;
        Ok::<_, Failure>(format!("{policy:?}"))
    };
    let (files, one) = ("policies: p.yaml", "name: d\n    file: f.yaml");
    let file = |known: &str| format!("policy:\n  apply:\n    {known}\n");
    let taken = shown(&file(files), "holdoff policy apply --name d --file f.yaml").unwrap();
    assert!(taken.contains("policies: None"), "{taken}");
    let taken = shown(&file(one), "holdoff policy apply --policies p.yaml").unwrap();
    assert!(taken.contains("file: None"), "{taken}");
    for (known, line) in [
        ("", "holdoff policy apply"),
        ("", "holdoff policy apply --name d"),
        ("", "holdoff policy apply --file f.yaml"),
        ("", "holdoff policy apply --policies p --name d --file f"),
        (
            &*file(&format!("{files}\n    {one}")),
            "holdoff policy apply",
        ),
    ] {
        assert_eq!(shown(known, line).unwrap_err().code(), 2, "{line}");
    }
}

#[test]
fn help_shows_the_variable_of_each_flag() {
    let mut command = command();
    command.build();
    let serve = command.find_subcommand_mut("serve").unwrap();
    let help = serve.render_long_help().to_string();
    for shown in [
        "HOLDOFF_DATA_DIR",
        "HOLDOFF_SERVER",
        "HOLDOFF_LISTEN",
        "127.0.0.1:7460",
        "holdoff serve --",
    ] {
        assert!(help.contains(shown), "{shown}: {help}");
    }
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = || with_file("serve:\n  listen: 127.0.0.1:9000\n").unwrap();
    assert_eq!(
        listen(cli(file(), "holdoff serve --listen [::1]:1").unwrap()),
        "[::1]:1"
    );
    assert_eq!(
        listen(cli(file(), "holdoff serve").unwrap()),
        "127.0.0.1:9000"
    );
    assert_eq!(
        listen(cli(command(), "holdoff serve").unwrap()),
        "127.0.0.1:7460"
    );
}

#[test]
fn the_environment_wins_over_the_file_and_a_flag_over_the_environment() {
    // The parser reads a variable when it is named, so the test names one that is set.
    let set = std::env::vars().find(|(name, value)| name.is_ascii() && !value.is_empty());
    let (name, value) = set.unwrap();
    let built = with_file("namespace: from-file\n").unwrap();
    let built = built.mut_arg("namespace", |arg| arg.env(name));
    let namespace = |line: &str| cli(built.clone(), line).unwrap().global.namespace;
    assert_eq!(namespace("holdoff status"), value);
    assert_eq!(
        namespace("holdoff status --namespace from-flag"),
        "from-flag"
    );
}

#[test]
fn a_file_speaks_to_all_commands_or_to_one() {
    let file = || {
        with_file(
            "server: http://everywhere:1\ntimeout: 3s\nexec:\n  timeout: 9s\n  idempotent: true\n  \
             dependency: d\n  success-codes: [0, 4]\n",
        )
        .unwrap()
    };
    let asked = cli(file(), "holdoff status").unwrap();
    assert_eq!(asked.global.server, "http://everywhere:1");
    let exec = cli(file(), "holdoff exec -- true").unwrap();
    let shown = format!("{:?}", exec.command);
    for part in [
        "timeout: Some(9s)",
        "idempotent: true",
        "dependency: \"d\"",
        "success_codes: [0, 4]",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn what_serve_is_told_of_its_policies_is_not_what_policy_show_reads() {
    let file = || with_file("policies: served.yaml\npolicy:\n  show:\n    yaml: true\n").unwrap();
    let shown = format!(
        "{:?}",
        cli(file(), "holdoff policy show d").unwrap().command
    );
    assert!(
        shown.contains("policies: None") && shown.contains("yaml: true"),
        "{shown}"
    );
    let serve = format!("{:?}", cli(file(), "holdoff serve").unwrap().command);
    assert!(serve.contains("served.yaml"), "{serve}");
    each_command(&command(), &mut |command| {
        let policies = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some("policies"));
        let env = policies
            .and_then(|arg| arg.get_env())
            .map(|env| env.to_owned());
        if let Some(env) = env {
            assert_eq!(env == "HOLDOFF_POLICIES", command.get_name() == "serve");
        }
    });
}

#[test]
fn a_switch_is_on_for_whatever_does_not_say_off() {
    let insecure = |value: &str| {
        let file = with_file(&format!("serve:\n  insecure: {value}\n")).unwrap();
        format!("{:?}", cli(file, "holdoff serve").unwrap().command).contains("insecure: true")
    };
    assert!(insecure("true") && insecure("1") && insecure("'yes'"));
    assert!(!insecure("false") && !insecure("0") && !insecure("'off'"));
}

#[test]
fn words_of_a_file_are_what_was_written() {
    let file = || {
        let text = "http: off\nnamespace: 007\nserver: '~'\ndrain: 0\n";
        with_file(text).unwrap()
    };
    let cli = cli(file(), "holdoff serve").unwrap();
    assert_eq!(
        (cli.global.namespace.as_str(), cli.global.server.as_str()),
        ("007", "~")
    );
    let shown = format!("{:?}", cli.command);
    assert!(
        shown.contains("http: Off") && shown.contains("drain: 0ns"),
        "{shown}"
    );
}

#[test]
fn a_name_that_is_no_flag_is_refused() {
    let refused = |text| with_file(text).unwrap_err();
    assert!(refused("lissten: x\n").starts_with("settings file s.yaml: lissten: no setting"));
    assert!(refused("serve:\n  server-name: x\n").contains("serve.server-name: no setting"));
    assert!(refused("server:\n  x: y\n").contains("server: no command has this name"));
    assert!(refused("settings: other.yaml\n").contains("no setting"));
}

#[test]
fn a_wrong_value_in_the_file_is_refused_by_the_parser() {
    let file = with_file("serve:\n  listen: nowhere\n").unwrap();
    let error = cli(file, "holdoff serve").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ValueValidation);
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn wrong_use_is_refused_before_anything_is_called() {
    let refused = |line| cli(command(), line).unwrap_err().exit_code();
    for line in [
        "holdoff",
        "holdoff nonsense",
        "holdoff ask",
        "holdoff ask d --attempt 0",
        "holdoff ask d --pushback 3s",
        "holdoff ask d --previous well",
        "holdoff open d",
        "holdoff open d --reason r --for 0s",
        "holdoff exec --dependency d",
        "holdoff exec -- true",
        "holdoff exec --dependency d --timeout soon -- true",
        "holdoff serve --store http://h",
        "holdoff serve --workers 0",
        "holdoff events --limit 1001",
    ] {
        assert_eq!(refused(line), 2, "{line}");
    }
}

#[test]
fn the_settings_file_is_found_before_the_line_is_parsed() {
    let path = |line: &str| {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        sources::settings_path(&args).map(|path| path.display().to_string())
    };
    assert_eq!(
        path("holdoff serve --settings a.yaml").as_deref(),
        Some("a.yaml")
    );
    assert_eq!(
        path("holdoff --settings=b.yaml serve").as_deref(),
        Some("b.yaml")
    );
    assert_eq!(path("holdoff exec -- tool --settings c.yaml"), None);
}

#[test]
fn a_plain_simulate_is_not_told_of_policies_by_the_variable_of_the_others() {
    each_command(&command(), &mut |command| {
        let policies = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some("policies"));
        let env = policies.and_then(|arg| arg.get_env());
        if let Some(env) = env {
            let is_own = env == "HOLDOFF_SIMULATE_POLICIES";
            assert_eq!(is_own, command.get_name() == "simulate", "{env:?}");
        }
    });
}
