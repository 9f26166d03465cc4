package holdoff

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// holdBack holds the question after a failure of an attempt made on pushed state back, where the
// service knows of so many clients that it could not answer all of them before they give up. Those
// whom a trip reaches meanwhile need not ask any more. A retry is later for it only where its delay is
// shorter: the one that is granted began with the failure.
//
// Only the first question is held back, and none is while the service is known to be away. The time
// that it took is returned.
func (p *Permit) holdBack(ctx context.Context) (rules.Nanos, *Denied) {
	before := p.previous
	if before == nil || before.made.onState == nil || before.wasHeldBack || p.client.link == nil {
		return 0, nil
	}
	dependency := p.client.pushed.Of(p.question.dependency)
	clients := dependency.Heard().KnownClients()
	if clients <= rules.ClientsAtOnce || !p.client.link.IsAsked() {
		return 0, nil
	}
	before.wasHeldBack = true
	begun := time.Now()
	timer := time.NewTimer(rules.HeldBack(clients, timeLeft(ctx), rand.Float64()).Duration())
	defer timer.Stop()
	for {
		heard := dependency.Heard()
		if denial := heard.RefusedSince(before.made.onState.Epoch, p.client.clock.Now()); denial != nil {
			p.client.counting.PushedDenials.Add(1)
			// It says nothing about what comes now. A call that ends so has it tallied with the rest;
			// one that asks again tells it with the question.
			before.isLate = true
			return 0, denied(ByFleet, denial)
		}
		select {
		case <-timer.C:
			return rules.NanosOf(time.Since(begun)), nil
		case <-heard.Superseded():
		case <-ctx.Done():
			p.tell()
			return 0, ended(ctx)
		}
	}
}
