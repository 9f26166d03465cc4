package rules

// Limits that a client keeps to whatever the service says.
const (
	// DelayMax: no delay or wait is longer.
	DelayMax = 600 * Second
	// DelayMin: nobody asks again sooner.
	DelayMin = 10 * Millisecond
	// ValidMax: nothing is relied on for longer without being said again.
	ValidMax = 300 * Second
	// PermitBytesMax: what is longer is no permit.
	PermitBytesMax = 1024

	marginMin = 250 * Millisecond

	// ClientsAtOnce may ask at once, and each client more adds heldEach to the time in which they do.
	ClientsAtOnce = 5_000
	heldEach      = Millisecond / 100
	heldMax       = Second
)

// Left is the caller's time. The zero value: it has no end.
type Left struct {
	Time    Nanos
	Bounded bool
}

// Reaches: so long a span does not end within the time left.
func (l Left) Reaches(span Nanos) bool { return l.Bounded && span >= l.Time }

// ClampDelay is how long a granted delay is waited for. False: it does not fit the time left, and is
// not shortened to fit.
func ClampDelay(delay Nanos, left Left) (Nanos, bool) {
	if left.Reaches(delay) {
		return 0, false
	}
	return min(delay, DelayMax), true
}

// LeaseUse is how long a probe with such a lease may take, from the moment of asking: it is given up
// a margin before its lease ends. A lease shorter than its margin must still be usable, or nothing
// would recover.
func LeaseUse(lease Nanos) Nanos {
	return lease - min(max(marginMin, lease/10), lease/2)
}

// AskAgain is the wait before the same question is asked again. False: the denial stands.
func AskAgain(denial *Denial, left Left) (Nanos, bool) {
	// The same outcome gets the same answer however late it is told.
	if denial.Final || denial.Reason == PushbackTooLong || left.Reaches(denial.RetryAfter) {
		return 0, false
	}
	return min(max(denial.RetryAfter, DelayMin), DelayMax), true
}

// HeldBack is how long the first question after a failure on pushed state is held back in a fleet of
// so many clients, so that not all of them ask at one instant: uniform up to 10 us for each client
// above 5,000, a second and the time left at most.
//
//	clients   5,000  10,000  100,000  105,000 and more
//	longest   0      50 ms   950 ms   1 s
func HeldBack(knownClients uint32, left Left, unit float64) Nanos {
	most := min(heldEach*Nanos(max(knownClients, ClientsAtOnce)-ClientsAtOnce), heldMax)
	if left.Bounded {
		most = min(most, left.Time)
	}
	return most.Part(unit)
}

// ShutFor is how long the service is not asked after three questions in a row without an answer, and
// so many trials that failed since: 1 to 5 s, doubling to 6 to 30 s.
func ShutFor(failedTrials uint32, unit float64) Nanos {
	factor := Nanos(1) << min(failedTrials, 5)
	low, high := min(factor*Second, 6*Second), min(factor*5*Second, 30*Second)
	return low + (high - low).Part(unit)
}
