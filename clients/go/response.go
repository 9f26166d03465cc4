package holdoff

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// keptBytesMax of the body of a response that is not the last one.
const keptBytesMax = 64 * 1024

// keep reads a response's body, so that its connection is free for the next attempt, and leaves what
// was read in its place: where there is no better one, this response is the caller's. A longer body
// ends with [io.ErrUnexpectedEOF].
func keep(response *http.Response) {
	if response.Body == nil {
		return
	}
	read, err := io.ReadAll(io.LimitReader(response.Body, keptBytesMax+1))
	_ = response.Body.Close()
	if err == nil && len(read) <= keptBytesMax {
		err = io.EOF
	} else if err == nil {
		err = io.ErrUnexpectedEOF
	}
	response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(read), failing{err}))
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// freeAfter ends the context of an attempt: for a response, when its body is closed.
func freeAfter(value any, free context.CancelFunc) {
	response, is := value.(*http.Response)
	if !is || response == nil || response.Body == nil {
		free()
		return
	}
	response.Body = &lasting{response.Body, free}
}

type lasting struct {
	io.ReadCloser
	free context.CancelFunc
}

func (l *lasting) Close() error {
	defer l.free()
	return l.ReadCloser.Close()
}
