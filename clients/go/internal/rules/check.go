package rules

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
)

// CheckerName is the place of a checker: the same after a restart, another one on each replica.
// FNV-1a over each part behind its length, then mixed.
func CheckerName(dependency, service, instance string) uint64 {
	hash := fnv.New64a()
	for _, part := range []string{dependency, service, instance} {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = hash.Write(length[:])
		_, _ = hash.Write([]byte(part))
	}
	h := hash.Sum64()
	h ^= h >> 30
	h *= 0xBF58476D1CE4E5B9
	h ^= h >> 27
	h *= 0x94D049BB133111EB
	return h ^ h>>31
}

// PhaseOf is that part of 2^64 of a period.
func PhaseOf(name uint64, period Nanos) Nanos {
	high, _ := bits.Mul64(name, uint64(period))
	return Nanos(high)
}
