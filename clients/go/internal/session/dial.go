package session

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	connectTimeout = time.Second
	// dialMax is a whole dial, whatever the dialer does.
	dialMax   = 2 * time.Second
	keepAlive = 20 * time.Second
	// returnTriedEvery: a preferred endpoint is looked for in a jittered one or two of these.
	returnTriedEvery = time.Minute
)

// Endpoint is an address of the service.
type Endpoint struct {
	// Address is host:port.
	Address string
	// TLS is nil for plain text.
	TLS *tls.Config
}

// Dialer makes connections.
type Dialer struct {
	Endpoints []Endpoint
	// Token is read for each request, and goes with it; nil where there is none.
	Token func(context.Context) (string, error)
	// Dial replaces TCP where it is not nil.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// dial tries each endpoint once, in order from start. Nil: none could be reached; tookOne says
// whether one took the connection and then was no service, and failure why the last one was none.
func (d *Dialer) dial(ctx context.Context, start int) (index int, conn *grpc.ClientConn, tookOne bool, failure error) {
	for step := range d.Endpoints {
		index := (start + step) % len(d.Endpoints)
		conn, took, err := d.dialOne(ctx, index)
		if conn != nil {
			return index, conn, true, nil
		}
		tookOne, failure = tookOne || took, err
	}
	return 0, nil, tookOne, failure
}

func (d *Dialer) everywhere() string {
	addresses := make([]string, len(d.Endpoints))
	for i, endpoint := range d.Endpoints {
		addresses[i] = endpoint.Address
	}
	return strings.Join(addresses, ", ")
}

// dialOne also says whether the endpoint took the connection, and why there is none.
func (d *Dialer) dialOne(ctx context.Context, index int) (conn *grpc.ClientConn, took bool, failure error) {
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	var met dialled
	conn, err := grpc.NewClient("passthrough:///"+d.Endpoints[index].Address, d.options(index, &met)...)
	if err != nil {
		return nil, false, err
	}
	conn.Connect()
	for {
		state := conn.GetState()
		if state == connectivity.Ready {
			return conn, true, nil
		}
		isOver := state == connectivity.TransientFailure || state == connectivity.Shutdown
		if isOver || !conn.WaitForStateChange(ctx, state) {
			_ = conn.Close()
			return nil, met.taken.Load(), met.failure()
		}
	}
}

// dialled is what the last dial of a connection met.
type dialled struct {
	taken atomic.Bool
	err   atomic.Pointer[error]
}

func (d *dialled) failure() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// options: neither gRPC's own retries nor proxies stand between a client and its service.
func (d *Dialer) options(index int, met *dialled) []grpc.DialOption {
	endpoint := d.Endpoints[index]
	transport := insecure.NewCredentials()
	if endpoint.TLS != nil {
		transport = credentials.NewTLS(endpoint.TLS)
	}
	dial := d.Dial
	if dial == nil {
		dialer := net.Dialer{Timeout: connectTimeout}
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive, PermitWithoutStream: true}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			met.taken.Store(err == nil)
			if err != nil {
				met.err.Store(&err)
			}
			return conn, err
		}),
	}
	if d.Token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{token: d.Token, isSecret: endpoint.TLS != nil}))
	}
	return options
}

// bearer is a token of the caller's. Over plain text it goes too: whoever configures both wants that.
type bearer struct {
	token    func(context.Context) (string, error)
	isSecret bool
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.isSecret }

// String hides the token from logs.
func (b bearer) String() string { return "bearer token" }
