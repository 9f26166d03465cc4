package rules

// Ceiling is what the delay before retry n (1-based; 0 is taken as 1) lies under, never above MaxDelay.
//
//	strategy     ceiling(n)                      100 ms, multiplier 2, at most 1 s
//	fixed        initial                         100 100 100 100  100 ms
//	linear       initial * n                     100 200 300 400  500 ms
//	exponential  initial * multiplier^(n-1)      100 200 400 800 1000 ms
func Ceiling(p *Policy, n uint32) Nanos {
	n = max(n, 1)
	var raw Nanos
	switch p.Strategy {
	case Fixed:
		raw = p.InitialDelay
	case Linear:
		raw = p.InitialDelay.Mul(uint64(n))
	case Exponential:
		raw = truncated(float64(p.InitialDelay) * power(p.Multiplier, n-1))
	}
	return min(raw, p.MaxDelay)
}

// Delay is that before retry n, drawn by unit in [0, 1). Only decorrelated jitter reads the previous
// delay. The range is clamped before the draw: clamped after it, most of a fleet would wait for
// exactly MaxDelay or MinDelay, and be a herd again. low is at least MinDelay, and high at least low.
//
//	jitter        low                    high
//	none          ceiling                ceiling
//	full          0                      ceiling
//	equal         ceiling / 2            ceiling
//	proportional  ceiling * (1 - r)      min(MaxDelay, ceiling * (1 + r))
//	decorrelated  initial                min(MaxDelay, 3 * max(previous, initial))
func Delay(p *Policy, n uint32, previous Nanos, unit float64) Nanos {
	ceiling := Ceiling(p, n)
	low, high := ceiling, ceiling
	switch p.Jitter {
	case NoJitter:
	case FullJitter:
		low = 0
	case EqualJitter:
		low = ceiling / 2
	case ProportionalJitter:
		share := min(max(p.JitterProportion, 0), 1)
		low = ceiling.Part(1 - share)
		high = min(truncated(float64(ceiling)*float64(1+share)), p.MaxDelay)
	case DecorrelatedJitter:
		low = min(p.InitialDelay, p.MaxDelay)
		high = min(max(previous, low).Mul(3), p.MaxDelay)
	}
	low = max(low, min(p.MinDelay, p.MaxDelay))
	high = max(high, low)
	return min(low.Add(high.Sub(low).Part(unit)), p.MaxDelay)
}

// power multiplies by squaring, in this order: the last digit depends on it. The conversions keep a
// compiler from fusing the products.
func power(base float64, exponent uint32) float64 {
	product, square := 1.0, base
	for ; exponent > 0; exponent /= 2 {
		if exponent%2 == 1 {
			product = float64(product * square)
		}
		square = float64(square * square)
	}
	return product
}
