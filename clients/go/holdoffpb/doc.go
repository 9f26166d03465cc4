// Package holdoffpb holds the messages and stubs of holdoff's gRPC services, generated from the
// definitions in proto/. The client in the package above needs no one to use them; they are
// public for operators' tools ([OperatorServiceClient]) and for callers with a client of their
// own.
package holdoffpb

//go:generate go run -C ../tools ./generate -proto ../../../proto -out ../holdoffpb
