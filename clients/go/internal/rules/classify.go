package rules

// HTTPKind reads a status.
//
//	below 200                    ignored
//	200 to 399                   success
//	408, 504                     timeout
//	421, 425                     failure
//	429                          throttled
//	other 4xx, 501, 505          rejected
//	other 5xx and above          failure
func HTTPKind(status int) Kind {
	switch {
	case status < 200:
		return Ignored
	case status < 400:
		return Success
	case status == 408 || status == 504:
		return Timeout
	case status == 421 || status == 425:
		return Failure
	case status == 429:
		return Throttled
	case status < 500 || status == 501 || status == 505:
		return Rejected
	default:
		return Failure
	}
}

// HTTPOutcome reads a status and the values of Retry-After and Date. Two values of Retry-After
// contradict each other, even equal ones, so that neither is an instruction. No header says: do not
// retry.
func HTTPOutcome(status int, retryAfter, date []string, wallUnix int64) Outcome {
	outcome := Outcome{Kind: HTTPKind(status), StatusCode: uint32(max(status, 0))}
	mayPushBack := status == 408 || status == 429 || status >= 500
	if !mayPushBack || len(retryAfter) != 1 {
		return outcome
	}
	first := ""
	if len(date) > 0 {
		first = date[0]
	}
	outcome.Pushback, outcome.HasPushback = RetryAfter(retryAfter[0], first, wallUnix)
	return outcome
}

// GRPCOutcome reads a code and the values of grpc-retry-pushback-ms in the trailers.
//
//	0               success
//	1               cancelled
//	4               timeout
//	8               throttled
//	2, 13, 14, 15   failure
//	all others      rejected
func GRPCOutcome(code uint32, pushback []string) Outcome {
	outcome := Outcome{Kind: grpcKind(code), StatusCode: code}
	if outcome.Kind == Success || len(pushback) == 0 {
		return outcome
	}
	wait, isWait := GRPCPushback(pushback[0])
	if len(pushback) > 1 || !isWait {
		outcome.DoNotRetry = true
		return outcome
	}
	outcome.Pushback, outcome.HasPushback, outcome.RestartsBackoff = wait, true, true
	return outcome
}

func grpcKind(code uint32) Kind {
	switch code {
	case 0:
		return Success
	case 1:
		return Cancelled
	case 4:
		return Timeout
	case 8:
		return Throttled
	case 2, 13, 14, 15:
		return Failure
	default:
		return Rejected
	}
}
