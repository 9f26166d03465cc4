package holdoff_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

// certificate for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "holdoff"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestMutualTLSAndATokenReachTheServiceAndWithoutThemItIsAway(t *testing.T) {
	own, pool := certificate(t)
	var isTold atomic.Bool
	service := (&scripted.Service{}).Start(t,
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		})),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			told, _ := metadata.FromIncomingContext(stream.Context())
			if values := told.Get("authorization"); len(values) != 1 || values[0] != "Bearer secret" {
				return status.Error(codes.Unauthenticated, "no token")
			}
			isTold.Store(true)
			return handle(server, stream)
		}))
	endpoint := "https://" + service.Address
	trusted := holdoff.WithTLS(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}})
	for name, c := range map[string]struct {
		options []holdoff.Option
		reaches bool
	}{
		"with both":              {[]holdoff.Option{trusted, holdoff.WithToken("secret")}, true},
		"without a certificate":  {[]holdoff.Option{holdoff.WithTLS(&tls.Config{RootCAs: pool}), holdoff.WithToken("secret")}, false},
		"without trust":          {[]holdoff.Option{holdoff.WithToken("secret")}, false},
		"without a token":        {[]holdoff.Option{trusted}, false},
		"in plain text":          {[]holdoff.Option{holdoff.WithEndpoints(service.Address), holdoff.WithToken("secret")}, false},
		"with the wrong one too": {[]holdoff.Option{trusted, holdoff.WithToken("guess")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			options := append([]holdoff.Option{holdoff.WithEndpoints(endpoint)}, c.options...)
			client := newClient(t, options...)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			client.Connect(ctx)
			isLocal := false
			err := client.Call(ctx, "payments", func(_ context.Context, attempt holdoff.Attempt) error {
				isLocal = attempt.IsLocal
				return nil
			})
			if err != nil || isLocal == c.reaches {
				t.Errorf("local: %v, %v", isLocal, err)
			}
		})
	}
	if !isTold.Load() {
		t.Error("the token never came")
	}
}

func TestATokenGoesOverPlainTextWhereItsOwnerSaysSo(t *testing.T) {
	var told atomic.Value
	service := (&scripted.Service{}).Start(t, grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		values, _ := metadata.FromIncomingContext(stream.Context())
		told.Store(values.Get("authorization"))
		return handle(server, stream)
	}))
	client := newClient(t, holdoff.WithEndpoints(service.Address), holdoff.WithToken("secret"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if !client.Connect(ctx) {
		t.Fatal("not connected")
	}
	if values, _ := told.Load().([]string); len(values) != 1 || values[0] != "Bearer secret" {
		t.Errorf("%v", told.Load())
	}
}

func TestAClosedClientLeavesNothingBehindAndDecidesLocally(t *testing.T) {
	service := (&scripted.Service{}).Start(t)
	before := runtime.NumGoroutine()
	client, err := holdoff.New(holdoff.WithEndpoints(service.Address), holdoff.WithTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if kinds := service.Kinds(); len(kinds) != 3 {
		t.Errorf("%d outcomes came before the end", len(kinds))
	}
	isLocal := false
	err = client.Call(t.Context(), "payments", func(_ context.Context, attempt holdoff.Attempt) error {
		isLocal = attempt.IsLocal
		return nil
	})
	if err != nil || !isLocal {
		t.Errorf("local: %v, %v", isLocal, err)
	}
	// The server's side of the connection ends a moment later.
	for wait := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(wait) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}
