package holdoff_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdoff/holdoff/clients/go/internal/vectors"
)

// What each example must say, with a service and without one.
var examples = map[string]struct{ always, with, without []string }{
	"quickstart": {
		always:  []string{"charged"},
		with:    []string{"attempt 1, granted by the service", "attempt 2, granted by the service"},
		without: []string{"attempt 1, granted by this process", "attempt 2, granted by this process"},
	},
	"guarded_call": {
		always:  []string{"attempt 2 GET /items", "status 200", "the last real error is in it: true", "why there was no retry: RETRY_UNSAFE", "a price from the cache: 42"},
		with:    []string{"1000 calls: 1000 without a hop, 0 asked, 0 decided here"},
		without: []string{"1000 calls: 0 without a hop, 0 asked, 1000 decided here"},
	},
	"two_step": {
		always:  []string{"attempt 3 in", "found a needle"},
		with:    []string{"the service is there: true"},
		without: []string{"the service is there: false"},
	},
	"testing_mode": {
		always: []string{"it recovers: 7 <nil>", "after 3 calls", "it gives up: 503 (gave up after attempt 3: ATTEMPTS_EXHAUSTED", "without waiting: true"},
	},
}

func TestEachExampleRunsToItsEndWithTheServiceAndWithout(t *testing.T) {
	address := serve(t)
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", folder, "./examples/...")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for name, says := range examples {
		for situation, endpoint := range map[string]string{"with": address, "without": "127.0.0.1:1"} {
			t.Run(name+" "+situation, func(t *testing.T) {
				expected := append([]string(nil), says.always...)
				expected = append(expected, map[string][]string{"with": says.with, "without": says.without}[situation]...)
				run := exec.CommandContext(t.Context(), filepath.Join(folder, name))
				if name != "testing_mode" {
					run.Args = append(run.Args, "-endpoint", "http://"+endpoint)
				}
				said, err := run.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, said)
				}
				for _, text := range expected {
					if !strings.Contains(string(said), text) {
						t.Errorf("no %q in\n%s", text, said)
					}
				}
			})
		}
	}
}

// serve runs the service, which the repository has built, until the end of the test.
func serve(t *testing.T) (address string) {
	binary := filepath.Join(vectors.Root(t), "target", "debug", "holdoff")
	service := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--http", "off")
	service.Stderr = os.Stderr
	output, err := service.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatalf("%v: build it by `cargo build --bin holdoff`", err)
	}
	t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if at, found := strings.CutPrefix(lines.Text(), "holdoff: gRPC on "); found {
			go func() {
				for lines.Scan() {
				}
			}()
			return at
		}
	}
	t.Fatal("the service did not say where it listens")
	return ""
}
