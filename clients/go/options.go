package holdoff

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"
)

// Option is a setting of a [Client].
type Option func(*settings)

type settings struct {
	endpoints    []string
	service      string
	instance     string
	namespace    string
	timeout      time.Duration
	noDecision   NoDecision
	follow       []string
	policy       LocalPolicy
	tls          *tls.Config
	token        func(context.Context) (string, error)
	dial         func(ctx context.Context, address string) (net.Conn, error)
	log          *slog.Logger
	isBypassed   bool
	hasOwnPolicy bool
	// endpointOf is what said the endpoints.
	endpointOf string
}

// NoDecision is what a client does when the service decides nothing.
type NoDecision uint8

// What it may do.
const (
	// DecideLocally by the same rules, over what this process alone knows.
	DecideLocally NoDecision = iota
	// AllowFirstAttempts: they pass; retries wait and end as ever.
	AllowFirstAttempts
	// DenyAll attempts, with [ReasonNoDecision].
	DenyAll
)

// WithEndpoints says where the service is, in order of preference: "http://host:port",
// "https://host:port" or "host:port". A later one is used while those before it cannot be reached.
// HOLDOFF_SERVER in the environment unless said, and "http://127.0.0.1:7460" without it.
func WithEndpoints(endpoints ...string) Option {
	return func(s *settings) { s.endpoints, s.endpointOf = endpoints, "endpoint" }
}

// WithService says what this process is, for example "checkout". The program's name unless said.
func WithService(name string) Option { return func(s *settings) { s.service = name } }

// WithInstance says which process of it; no two may share a name. Host name, process id and a random
// part unless said.
func WithInstance(name string) Option { return func(s *settings) { s.instance = name } }

// WithNamespace says the tenant; "default" unless said.
func WithNamespace(name string) Option { return func(s *settings) { s.namespace = name } }

// WithTimeout is the longest that a call waits for the service: 50 ms unless said, at most 10 s.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithNoDecision says what happens when the service decides nothing: [DecideLocally] unless said.
func WithNoDecision(noDecision NoDecision) Option {
	return func(s *settings) { s.noDecision = noDecision }
}

// WithFollow names dependencies whose state is wanted from the first connection on, so that even the
// first call needs no question. What is asked about is followed by itself.
func WithFollow(dependencies ...string) Option {
	return func(s *settings) { s.follow = dependencies }
}

// WithLocalPolicy is the policy of decisions without the service, until it has pushed its own.
func WithLocalPolicy(policy LocalPolicy) Option {
	return func(s *settings) { s.policy, s.hasOwnPolicy = policy, true }
}

// WithTLS is used for endpoints that begin with https; with certificates in it, TLS is mutual. The
// system's roots unless said.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithToken goes with each request as a bearer token. HOLDOFF_TOKEN in the environment unless said.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource is read anew for each request, for tokens that do not last.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(s *settings) { s.token = token }
}

// WithDialer makes connections in another way, for example over a Unix socket.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

// WithLogger gets a warning when the service stops to answer and when it refuses questions (once a
// minute at most), the return at info, each missing decision at debug. [slog.Default] unless said.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// CallOption is a setting of one call.
type CallOption func(*question)

// question is what a caller says about a call before it is made.
type question struct {
	dependency     string
	safety         safety
	priority       Priority
	cost           uint32
	callID         string
	maxAttempts    uint32 // 0: no limit
	attemptTimeout time.Duration
	waits          bool
	classifier     Classifier
}

type safety uint8

// As on the wire.
const (
	unsafeToRepeat safety = iota + 1
	idempotent
	keyed
)

// Priority is which callers go first when there is not room for all.
type Priority uint8

// The priorities, as on the wire.
const (
	PriorityLow    Priority = iota + 1 // can wait
	PriorityNormal                     // the usual
	PriorityHigh                       // a person waits for it
)

// attemptsUnlessSaid a call may have.
const attemptsUnlessSaid = 10

// Idempotent: executing it twice is the same as once. A call that is neither idempotent nor keyed is
// retried only when it certainly was not sent.
func Idempotent() CallOption { return setIdempotent }

// Keyed: it carries a key by which the dependency tells a repetition.
func Keyed() CallOption { return setKeyed }

// WaitWhenDenied: where a denial says when asking again makes sense, the call waits so long and asks
// again, while its context lasts. Unless said it fails at once.
func WaitWhenDenied() CallOption { return setWaits }

func setIdempotent(q *question) { q.safety = idempotent }
func setKeyed(q *question)      { q.safety = keyed }
func setWaits(q *question)      { q.waits = true }

// MaxAttempts is the caller's own limit, the first call included: 10 unless said. The service may
// allow fewer.
func MaxAttempts(attempts int) CallOption {
	return func(q *question) { q.maxAttempts = uint32(max(attempts, 1)) }
}

// AttemptTimeout gives one attempt up, as timed out, after so long.
func AttemptTimeout(timeout time.Duration) CallOption {
	return func(q *question) { q.attemptTimeout = timeout }
}

// WithPriority says who goes first: [PriorityNormal] unless said.
func WithPriority(priority Priority) CallOption {
	return func(q *question) { q.priority = priority }
}

// Cost is what it takes from a rate limit; 1 unless said.
func Cost(cost uint32) CallOption { return func(q *question) { q.cost = cost } }

// CallID names this call, in at most 128 bytes; drawn at random unless said.
func CallID(id string) CallOption { return func(q *question) { q.callID = id } }

// ClassifyBy reads results; unless said an error by [ClassifyError] and a *http.Response by
// [ClassifyHTTP].
func ClassifyBy(classifier Classifier) CallOption {
	return func(q *question) { q.classifier = classifier }
}

func (q *question) isSafe() bool { return q.safety != unsafeToRepeat }

// isName: 1 to 200 bytes of ASCII letters, digits and . _ / : @ -
func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		isLetter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		isOther := '0' <= c && c <= '9' || c == '.' || c == '_' || c == '/' || c == ':' || c == '@' || c == '-'
		if !isLetter && !isOther {
			return false
		}
	}
	return 1 <= len(name) && len(name) <= 200
}

// allowedName says what isName does.
const allowedName = "it must be 1 to 200 ASCII letters, digits and . _ / : @ -"

func newQuestion(dependency string) question {
	return question{dependency: dependency, safety: unsafeToRepeat, priority: PriorityNormal, maxAttempts: attemptsUnlessSaid}
}
