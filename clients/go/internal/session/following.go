package session

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
)

const (
	leaveEvery = time.Minute
	// namesMax are those in one message; of 202 bytes at most, so that these are 40 KiB.
	namesMax = 200
	leftMax  = 10_000
)

// following is what a stream follows. It begins with what was called lately, the service adds what is
// asked about, and what is called no longer is left, so that nothing is pushed for nobody and the
// fleet's allowance is shared by those who use it.
type following struct {
	pushed *Pushed
	// left is followed again when it is asked about.
	left map[string]bool
}

// greeting are the first messages of a stream.
func (f *following) greeting(hello *pb.Hello) []*pb.SessionRequest {
	hello = proto.CloneOf(hello)
	var messages []*pb.SessionRequest
	for names := range slices.Chunk(f.pushed.followed(), namesMax) {
		if hello.Subscribe == nil {
			hello.Subscribe = names
			continue
		}
		messages = append(messages, subscribe(names, nil))
	}
	first := &pb.SessionRequest{Message: &pb.SessionRequest_Hello{Hello: hello}}
	return append([]*pb.SessionRequest{first}, messages...)
}

// leaveIdle leaves what is called no longer.
func (f *following) leaveIdle() (messages []*pb.SessionRequest) {
	for names := range slices.Chunk(f.pushed.leaveIdle(), namesMax) {
		for _, name := range names {
			if len(f.left) < leftMax {
				f.left[name] = true
			}
		}
		messages = append(messages, subscribe(nil, names))
	}
	return messages
}

// resume follows again what was left and is asked about. Nil: nothing.
func (f *following) resume(asks []*ask) *pb.SessionRequest {
	var again []string
	for _, asked := range asks {
		if name := asked.request.GetDependency(); f.left[name] {
			delete(f.left, name)
			again = append(again, name)
		}
	}
	if again == nil {
		return nil
	}
	return subscribe(again, nil)
}

// subscribe: its answer, if any, is an error that nobody waits for.
func subscribe(add, remove []string) *pb.SessionRequest {
	return &pb.SessionRequest{Message: &pb.SessionRequest_Subscribe{Subscribe: &pb.Subscribe{Add: add, Remove: remove}}}
}
