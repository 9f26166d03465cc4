package session

import (
	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
)

// outstanding are questions and reports on a stream that have no answer yet, by the id of their
// message.
type outstanding struct {
	nextID    uint64
	batches   map[uint64][]*ask
	reports   map[uint64]uint64
	questions int
}

func newOutstanding() outstanding {
	return outstanding{batches: map[uint64][]*ask{}, reports: map[uint64]uint64{}}
}

// ask is the message that asks them all. False: too many wait.
func (o *outstanding) ask(asks []*ask) (*pb.SessionRequest, bool) {
	if o.questions+len(asks) > asksMax {
		o.forgetThoseGivenUp()
	}
	if o.questions+len(asks) > asksMax {
		return nil, false
	}
	o.questions += len(asks)
	requests := make([]*pb.AcquireRequest, len(asks))
	for i, asked := range asks {
		requests[i] = asked.request
		asked.isSent.Store(true)
	}
	id := o.id()
	o.batches[id] = asks
	return &pb.SessionRequest{Id: id, Message: &pb.SessionRequest_Acquire{Acquire: &pb.AcquireBatch{Requests: requests}}}, true
}

func (o *outstanding) report(report *pb.ReportRequest) *pb.SessionRequest {
	id := o.id()
	o.reports[id] = report.GetSequence()
	return &pb.SessionRequest{Id: id, Message: &pb.SessionRequest_Report{Report: report}}
}

// take is whom an answer to questions is for.
func (o *outstanding) take(id uint64) []*ask {
	asks := o.batches[id]
	delete(o.batches, id)
	o.questions -= len(asks)
	return asks
}

// takeReport is the sequence number of a report.
func (o *outstanding) takeReport(id uint64) (uint64, bool) {
	sequence, known := o.reports[id]
	delete(o.reports, id)
	return sequence, known
}

// takeAll are all questions.
func (o *outstanding) takeAll() (asks []*ask) {
	for id := range o.batches {
		asks = append(asks, o.take(id)...)
	}
	return asks
}

func (o *outstanding) isEmpty() bool { return len(o.batches)+len(o.reports) == 0 }

// id: 0 is what is pushed.
func (o *outstanding) id() uint64 {
	o.nextID++
	return o.nextID
}

// forgetThoseGivenUp: a message of which somebody still waits is kept whole, since answers have its
// order. A permit in a forgotten answer ends by itself.
func (o *outstanding) forgetThoseGivenUp() {
	for id, asks := range o.batches {
		isWanted := false
		for _, asked := range asks {
			isWanted = isWanted || asked.state.Load() == askWaits
		}
		if !isWanted {
			o.take(id)
		}
	}
}
