// What a guarded call costs, beside the libraries that are usual in Go.
module github.com/holdoff/holdoff/clients/go/bench

go 1.26.0

replace github.com/holdoff/holdoff/clients/go => ../

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/holdoff/holdoff/clients/go v0.0.0-00010101000000-000000000000
	github.com/sony/gobreaker/v2 v2.4.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
