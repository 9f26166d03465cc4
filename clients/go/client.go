package holdoff

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

const (
	defaultEndpoint = "http://127.0.0.1:7460"
	defaultPort     = 7460
	defaultTimeout  = 50 * time.Millisecond
	timeoutMax      = 10 * time.Second
	nameBytesMax    = 200
)

// Client asks holdoff before a call. It is safe for concurrent use, and one is enough for a process.
type Client struct {
	// link is nil where there is no service to ask.
	link      *session.Link
	pushed    *session.Pushed
	isTesting bool

	timeout    time.Duration
	noDecision NoDecision
	own        *rules.Policy
	local      locals
	clock      *session.Clock
	counting   *session.Counting
	log        *slog.Logger
}

// New makes a client. Nothing is connected yet: a service that cannot be reached is the everyday
// case. It fails only for what can never work: a malformed endpoint or name, a timeout or a policy
// out of range.
//
// HOLDOFF_SERVER and HOLDOFF_TOKEN in the environment are the endpoint and the token where no option
// says them. HOLDOFF_BYPASS=1 takes holdoff out: every call passes, retries are local.
func New(options ...Option) (*Client, error) {
	s := settings{
		service:  cut(filepath.Base(os.Args[0])),
		instance: defaultInstance(),
		timeout:  defaultTimeout,
		policy:   DefaultLocalPolicy(),
		log:      slog.Default(),
	}
	s.isBypassed = os.Getenv("HOLDOFF_BYPASS") == "1"
	for _, option := range options {
		option(&s)
	}
	s.readEnvironment()
	if err := s.check(); err != nil {
		return nil, err
	}
	policy, err := s.policy.read()
	if err != nil {
		return nil, err
	}
	dialer := &session.Dialer{Token: s.token, Dial: s.dial}
	for _, text := range s.endpoints {
		endpoint, err := s.endpoint(text)
		if err != nil {
			return nil, err
		}
		dialer.Endpoints = append(dialer.Endpoints, endpoint)
	}
	client := &Client{
		timeout: s.timeout, noDecision: s.noDecision, own: &policy,
		clock: session.NewClock(), counting: &session.Counting{}, log: s.log,
	}
	if s.isBypassed {
		return client, nil
	}
	hello := &pb.Hello{Caller: &pb.Caller{Service: s.service, Instance: s.instance}, Namespace: s.namespace}
	client.pushed = session.NewPushed(client.clock, &policy, s.follow)
	client.link = session.NewLink(dialer, hello, client.pushed, client.counting, s.log)
	return client, nil
}

// NewTesting makes a client for tests of code that makes calls: no service, no waiting, no breaker, at
// most three attempts a call. What can never be retried is not retried here either.
func NewTesting() *Client {
	policy := rules.OwnPolicy()
	policy.InitialDelay = 0
	policy.BudgetFloorMicros = 1 << 63
	return &Client{
		isTesting: true, own: &policy, clock: session.NewClock(), counting: &session.Counting{},
		log: slog.New(slog.DiscardHandler),
	}
}

// readEnvironment takes what no option says.
func (s *settings) readEnvironment() {
	if s.endpointOf == "" {
		s.endpoints, s.endpointOf = []string{defaultEndpoint}, "HOLDOFF_SERVER"
		if said := os.Getenv("HOLDOFF_SERVER"); said != "" {
			s.endpoints[0] = said
		}
	}
	if said := os.Getenv("HOLDOFF_TOKEN"); said != "" && s.token == nil {
		WithToken(said)(s)
	}
}

func (s *settings) check() error {
	if s.timeout <= 0 || s.timeout > timeoutMax {
		return fmt.Errorf("holdoff: timeout %v: it must be above 0 and at most %v", s.timeout, timeoutMax)
	}
	if len(s.endpoints) == 0 {
		return fmt.Errorf("holdoff: endpoints: at least one is needed")
	}
	for field, value := range map[string]string{"service": s.service, "instance": s.instance, "namespace": s.namespace} {
		if len(value) > nameBytesMax {
			return fmt.Errorf("holdoff: %s %q…: at most %d bytes", field, session.Cut(value, 40), nameBytesMax)
		}
	}
	for _, name := range s.follow {
		if !isName(name) {
			return fmt.Errorf("holdoff: follow %q: %s", session.Cut(name, 80), allowedName)
		}
	}
	if s.namespace != "" && !isName(s.namespace) {
		return fmt.Errorf("holdoff: namespace %q: %s", session.Cut(s.namespace, 80), allowedName)
	}
	return nil
}

func (s *settings) endpoint(text string) (session.Endpoint, error) {
	host, port, isEncrypted, isAddress := readAddress(text)
	if !isAddress {
		if at := strings.LastIndexByte(text, '@'); at >= 0 {
			// A user or a password is nobody else's business.
			text = "…" + text[at:]
		}
		return session.Endpoint{}, fmt.Errorf("holdoff: %s `%s`: it must be http://host:port, https://host:port or host:port", s.endpointOf, session.Cut(text, 80))
	}
	endpoint := session.Endpoint{Address: net.JoinHostPort(host, strconv.Itoa(port))}
	if isEncrypted {
		endpoint.TLS = s.tls
		if endpoint.TLS == nil {
			endpoint.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return endpoint, nil
}

var address = regexp.MustCompile(`^(?:([Hh][Tt][Tt][Pp][Ss]?)://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/?$`)

// readAddress of the service. The port may be absent where there is a scheme: a lone word is a mistake
// more often than a host.
func readAddress(text string) (host string, port int, isEncrypted, isAddress bool) {
	found := address.FindStringSubmatch(text)
	if found == nil || found[1] == "" && found[3] == "" {
		return "", 0, false, false
	}
	host, port, isEncrypted = strings.ToLower(found[2]), defaultPort, strings.EqualFold(found[1], "https")
	if inner, isBracketed := strings.CutPrefix(host, "["); isBracketed {
		host = strings.TrimSuffix(inner, "]")
		if parsed, err := netip.ParseAddr(host); err != nil || !parsed.Is6() {
			return "", 0, false, false
		}
	}
	if found[3] != "" {
		// Five digits are a number.
		port, _ = strconv.Atoi(found[3])
	}
	return host, port, isEncrypted, 1 <= port && port <= 65535
}

// defaultInstance: the random part tells apart processes with the same id in different containers.
func defaultInstance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%s-%d-%08x", session.Cut(host, 150), os.Getpid(), rand.Uint32())
}

func cut(name string) string { return session.Cut(name, nameBytesMax) }

// Connect connects now rather than with the first question, which may then be answered in time, and
// waits for the state of what [WithFollow] names, no longer than for an answer. False: the service was
// not reached before the context ended.
func (c *Client) Connect(ctx context.Context) bool {
	if c.link == nil || !c.link.Connect(ctx) {
		return false
	}
	// What is not heard of is asked for.
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	for {
		appears := c.pushed.WishedAppear()
		if appears == nil {
			return true
		}
		select {
		case <-appears:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return true
		}
	}
}

// Flush waits until the service has taken all outcomes. False: some were still on their way when the
// context ended.
func (c *Client) Flush(ctx context.Context) bool {
	return c.link == nil || c.link.Flush(ctx)
}

// Close sends the outcomes that wait, for a second at most, and ends the connection. Calls that are
// made afterwards are decided locally.
func (c *Client) Close() error {
	if c.link != nil {
		c.link.Close()
	}
	return nil
}

// Counters are what a client has done since it was made.
type Counters struct {
	Asked          uint64 // questions put to the connection, whether it stood or not
	Answered       uint64 // questions that the service decided, yes or no
	NoDecision     uint64 // questions that it did not decide: late, lost, failed or unreadable
	PushedGrants   uint64 // first attempts made on pushed state, without a question
	PushedDenials  uint64 // first attempts refused on pushed state, without a question
	LocalGrants    uint64 // attempts granted without the service
	LocalDenials   uint64 // attempts denied without the service
	Reported       uint64 // outcomes that the service took; a tally of many counts as one
	ReportsDropped uint64 // outcomes lost since the queue was full or the service was away twice
	Connections    uint64 // connections made
}

// Counters are read one after the other: each is exact, together they are no snapshot.
func (c *Client) Counters() Counters {
	n := c.counting
	return Counters{
		Asked: n.Asked.Load(), Answered: n.Answered.Load(), NoDecision: n.NoDecision.Load(),
		PushedGrants: n.PushedGrants.Load(), PushedDenials: n.PushedDenials.Load(),
		LocalGrants: n.LocalGrants.Load(), LocalDenials: n.LocalDenials.Load(),
		Reported: n.Reported.Load(), ReportsDropped: n.ReportsDropped.Load(), Connections: n.Reconnection.Load(),
	}
}
