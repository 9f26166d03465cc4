package session

import (
	"time"
)

const (
	// spread: the return after a loss is drawn from 0 to so long. With its connecting and asking a client
	// is back within 5 s of the service.
	spread    = 4500 * time.Millisecond
	spreadMax = 30 * time.Second
	// searchAfter: a service that was silent is looked for no sooner, and within spread.
	searchAfter = time.Second
)

// end is how the time with one connection ended.
type end uint8

const (
	// endUnwanted: the client was closed.
	endUnwanted end = iota
	// endBroken after an answer, and before any.
	endBroken
	endUnproven
	// endSilent: the service has stopped to answer, and nothing was heard of it for a while.
	endSilent
	// endUnheard: it was looked for after that, and did not even take the stream.
	endUnheard
	// endUnimplemented: there is no such stream here.
	endUnimplemented
	// endAgain: it is time to try a stream, or a better endpoint, again.
	endAgain
)

// course is which endpoint is tried next, and when. A fleet that loses its service together must not
// come back together: each return is drawn from a range. It grows where the service is there but ill.
// Where nobody listens it does not: looking costs nobody anything, and the fleet is back within the
// first range of a restart.
type course struct {
	start     int
	notBefore time.Time
	failures  int
	// unary are endpoints that have no stream.
	unary map[int]bool
}

func (c *course) nothingReachable(now time.Time, unit float64) {
	c.start, c.failures = 0, 0
	c.wait(now, unit)
}

// ended: the unit is uniform in [0, 1).
func (c *course) ended(index int, how end, now time.Time, unit float64) {
	switch how {
	case endBroken:
		c.failures, c.start = 0, 0
		c.wait(now, unit)
	case endUnproven:
		c.start = index + 1
		c.wait(now, unit)
	case endSilent:
		// Another endpoint may answer.
		c.start, c.notBefore = index+1, now
	case endUnheard:
		c.start, c.notBefore = index+1, now.Add(silentFor(unit))
	case endAgain:
		delete(c.unary, index)
		c.start = 0
	case endUnwanted, endUnimplemented:
	}
}

func (c *course) wait(now time.Time, unit float64) {
	longest := min(spread<<min(c.failures, 3), spreadMax)
	c.failures++
	c.notBefore = now.Add(time.Duration(float64(longest) * unit))
}

// silentFor is how long a silent service is left alone before a stream is tried: 1 to 4.5 s.
func silentFor(unit float64) time.Duration {
	return searchAfter + time.Duration(float64(spread-searchAfter)*unit)
}
