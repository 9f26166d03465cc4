package holdoff_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdoff/holdoff/clients/go/internal/vectors"
)

func TestTheStubsAreThoseOfTheDefinitions(t *testing.T) {
	out := t.TempDir()
	generate := exec.CommandContext(t.Context(), "go", "run", "-C", "tools", "./generate",
		"-proto", filepath.Join(vectors.Root(t), "proto"), "-out", out)
	if said, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	made, err := filepath.Glob(filepath.Join(out, "*.go"))
	if err != nil || len(made) != 4 {
		t.Fatalf("%v, %v", made, err)
	}
	for _, path := range made {
		fresh, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(filepath.Join("holdoffpb", filepath.Base(path)))
		if err != nil || !bytes.Equal(fresh, committed) {
			t.Errorf("holdoffpb/%s is not what `go generate ./holdoffpb` makes (%v)", filepath.Base(path), err)
		}
	}
}
