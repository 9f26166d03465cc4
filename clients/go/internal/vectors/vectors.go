// Package vectors reads the repository's test vectors, for tests.
package vectors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// Named is a vector, or a part of every one.
type Named struct {
	Name string `json:"name"`
}

// Nanos is a decimal text of whole nanoseconds.
type Nanos uint64

// UnmarshalJSON reads the text.
func (n *Nanos) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	value, err := strconv.ParseUint(text, 10, 64)
	*n = Nanos(value)
	return err
}

// Double is a number, or the name of one that JSON has no sign for.
type Double float64

// UnmarshalJSON reads either.
func (d *Double) UnmarshalJSON(data []byte) error {
	names := map[string]float64{`"NaN"`: math.NaN(), `"Infinity"`: math.Inf(1), `"-Infinity"`: math.Inf(-1)}
	if value, ok := names[string(data)]; ok {
		*d = Double(value)
		return nil
	}
	return json.Unmarshal(data, (*float64)(d))
}

// Root is the repository's, found from this file. A test that needs it fails where the
// module is not in its repository: the vectors are there.
func Root(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "..", "..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "proto", "holdoff")); err != nil {
		t.Fatal("these tests need the repository around the module: the vectors are in its tests/vectors")
	}
	return root
}

// Each runs a test for each vector of a file, which must hold so many at least. A field that V does
// not have fails: misspelt, it would check nothing.
func Each[V any](t *testing.T, file string, least int, check func(t *testing.T, vector V)) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Root(t), "tests", "vectors", file+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		About   string            `json:"about"`
		Vectors []json.RawMessage `json:"vectors"`
	}
	if err := strict(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Vectors) < least {
		t.Fatalf("%s holds %d vectors, at least %d are expected", file, len(all.Vectors), least)
	}
	for _, raw := range all.Vectors {
		var named Named
		if err := json.Unmarshal(raw, &named); err != nil {
			t.Fatal(err)
		}
		t.Run(named.Name, func(t *testing.T) {
			var vector V
			if err := strict(raw, &vector); err != nil {
				t.Fatal(err)
			}
			check(t, vector)
		})
	}
}

func strict(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// Text writes a span as the vectors do.
func Text[N ~uint64](n N) string { return fmt.Sprintf("%d", uint64(n)) }
