package holdoff

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// keptBytesMax of the body of a response that may not be the last one.
	keptBytesMax = 64 * 1024
	// keptWithin: it is not waited for any longer.
	keptWithin = 50 * time.Millisecond
)

// kept is the body of a response that may not be the last one. It is read as far as it comes at once,
// so that its connection is free for the next attempt. What was read is read again: where there is no
// better one, this response is the caller's.
type kept struct {
	body io.Reader
	// close may be called again, and while the body is being read.
	close func() error
	// filled: nobody else reads the body any longer.
	filled chan struct{}
	read   []byte
	err    error
	isLeft bool
}

// keep is called before the next attempt is asked for, so that no permit waits for it.
func keep(response *http.Response) {
	if _, isKept := response.Body.(*kept); isKept || response.Body == nil {
		return
	}
	k := &kept{body: response.Body, close: sync.OnceValue(response.Body.Close), filled: make(chan struct{})}
	response.Body = k
	enough := time.NewTimer(keptWithin)
	defer enough.Stop()
	go k.fill(time.Now().Add(keptWithin))
	select {
	case <-k.filled:
	case <-enough.C:
	}
}

func (k *kept) fill(until time.Time) {
	defer close(k.filled)
	part := make([]byte, 4096)
	for k.err == nil && len(k.read) <= keptBytesMax && time.Now().Before(until) {
		var n int
		n, k.err = k.body.Read(part)
		k.read = append(k.read, part[:n]...)
	}
	if k.err != nil {
		_ = k.close()
	}
}

// leave the body for the next attempt: what was not read by now will not be. Not even its end is waited
// for.
func leave(response *http.Response) {
	if k, is := response.Body.(*kept); is && !k.isLeft {
		k.isLeft = true
		go func() { _ = k.close() }()
	}
}

// Read ends with [io.ErrUnexpectedEOF] where the body was left.
func (k *kept) Read(into []byte) (int, error) {
	<-k.filled
	switch {
	case len(k.read) > 0:
		n := copy(into, k.read)
		k.read = k.read[n:]
		return n, nil
	case k.isLeft && k.err != io.EOF:
		return 0, io.ErrUnexpectedEOF
	case k.err != nil:
		return 0, k.err
	default:
		return k.body.Read(into)
	}
}

func (k *kept) Close() error { return k.close() }

// retried is the key of a response that is the last of several.
type retried struct{}

// tellRetried says so to a guarded call around this one, by the response's request: whoever stands
// between may have put another body into it.
func tellRetried(response *http.Response) {
	if request := response.Request; request != nil {
		response.Request = request.WithContext(context.WithValue(request.Context(), retried{}, response))
	}
}

func wasRetried(response *http.Response) bool {
	return response.Request != nil && response.Request.Context().Value(retried{}) == response
}

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
