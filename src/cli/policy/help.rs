//! What the help of each command of `policy` ends with: examples and exit codes. Texts alone.

pub const POLICY: &str = "\
Examples:
  holdoff policy check --policies policies.yaml --calls-per-second 20 --clients 5 --deadline 2s
  holdoff policy show payments
  holdoff policy diff --policies policies.yaml
  holdoff policy apply --policies policies.yaml --reason CHG-77
  holdoff policy schema > policy.schema.json
  holdoff policy shadow put payments --file candidate.yaml

Each command has its own --help, with more.

Exit codes: 0 done, or no difference; 1 it would be refused, was refused, cannot work, or differs; \
2 wrong use, 3 service unreachable.";

pub const CHECK: &str = "\
Examples:
  holdoff policy check --policies policies.yaml
  holdoff policy check --policies policies.yaml --calls-per-second 20 --clients 5 --deadline 2s
  holdoff policy check --policies policies.yaml --traffic facts.yaml --output json
  holdoff policy check --live

Exit codes: 0 good, also with hints unless --strict is given; 1 it would be refused, or cannot \
work; 2 wrong use; 3 --live and the service is not there.";

pub const SHOW: &str = "\
Examples:
  holdoff policy show payments                            # what a service has
  holdoff policy show payments --policies policies.yaml   # what files would give it
  holdoff policy show                                     # the built-in defaults
  holdoff policy show payments --yaml > payments.yaml     # as `apply --name payments` reads it

Any name has a policy, also one that no entry names: the column FROM says where each value is from.

Exit codes: 0 shown, 1 no such namespace, or files that are refused; 2 wrong use, 3 service \
unreachable.";

pub const LIST: &str = "\
Examples:
  holdoff policy list
  holdoff policy list --namespace shop --output json | jq -r '.policies[].name'

Exit codes: 0 shown, 1 no such namespace, 2 wrong use, 3 service unreachable.";

pub const DIFF: &str = "\
Examples:
  holdoff policy diff --policies policies.yaml                      # against a service
  holdoff policy diff --policies new.yaml --against old.yaml        # without one

Exit codes: 0 no difference, 1 some, or files that are refused; 2 wrong use, 3 service unreachable.";

pub const APPLY: &str = "\
Examples:
  holdoff policy apply --policies policies.yaml --reason CHG-77
  holdoff policy apply --name 'openai:*' --file openai.yaml --reason CHG-78
  echo 'retry: {max_attempts: 2}' | holdoff policy apply --name payments --file -

--policies and --file read different things: whole files, which begin with a version, or one \
policy, which begins with its sections.

Exit codes: 0 stored, 1 refused, 2 wrong use, 3 service unreachable.";

pub const DELETE: &str = "\
Examples:
  holdoff policy delete 'openai:*'
  holdoff policy delete ''                                # the namespace's defaults

Exit codes: 0 removed, 1 nothing is stored under the name, 2 wrong use, 3 service unreachable.";

pub const SCHEMA: &str = "\
Examples:
  holdoff policy schema > policy.schema.json

Exit codes: 0 printed, 2 wrong use.";
