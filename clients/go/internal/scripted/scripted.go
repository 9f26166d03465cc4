// Package scripted is a service for tests, that answers as it is told.
package scripted

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
)

// Service answers questions by Answer, and pushes Updates to whom follows them.
type Service struct {
	pb.UnimplementedCoordinatorServiceServer
	// Address it listens on; any free port of this machine unless said.
	Address string
	// Answer to a question; nil grants at once. A nil response is never sent.
	Answer func(*pb.AcquireRequest) *pb.AcquireResponse
	// Plan of health checks; nil has none.
	Plan func(*pb.PlanCheckRequest) *pb.PlanCheckResponse
	// Updates by dependency.
	Updates map[string]*pb.Update

	// Stop it before the end of the test; its connections break.
	Stop func()

	mu      sync.Mutex
	token   string
	asked   []*pb.AcquireRequest
	entries []*pb.ReportEntry
}

// Start serves until the end of the test.
func (s *Service) Start(t testing.TB, options ...grpc.ServerOption) *Service {
	t.Helper()
	if s.Address == "" {
		s.Address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	pb.RegisterCoordinatorServiceServer(server, s)
	s.Address = listener.Addr().String()
	go func() { _ = server.Serve(listener) }()
	s.Stop = server.Stop
	t.Cleanup(server.Stop)
	return s
}

// Token that the last session came with.
func (s *Service) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// Asked are the questions so far.
func (s *Service) Asked() []*pb.AcquireRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*pb.AcquireRequest(nil), s.asked...)
}

// Reported are the entries of all reports so far.
func (s *Service) Reported() []*pb.ReportEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*pb.ReportEntry(nil), s.entries...)
}

// Kinds of the outcomes that were reported with permits.
func (s *Service) Kinds() (kinds []pb.OutcomeKind) {
	for _, entry := range s.Reported() {
		if result := entry.GetResult(); result != nil {
			kinds = append(kinds, result.GetOutcome().GetKind())
		}
	}
	return kinds
}

// Session of one client.
func (s *Service) Session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	said, _ := metadata.FromIncomingContext(stream.Context())
	s.mu.Lock()
	s.token = strings.Join(said.Get("authorization"), ", ")
	s.mu.Unlock()
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return nil
		}
		for _, answer := range s.answers(message) {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

func (s *Service) answers(message *pb.SessionRequest) (answers []*pb.SessionResponse) {
	follow := message.GetHello().GetSubscribe()
	follow = append(follow, message.GetSubscribe().GetAdd()...)
	if batch := message.GetAcquire(); batch != nil {
		answered := &pb.AcquireBatchResponse{}
		for _, request := range batch.GetRequests() {
			follow = append(follow, request.GetDependency())
			if response := s.answer(request); response != nil {
				answered.Items = append(answered.Items, &pb.AcquireItem{Result: &pb.AcquireItem_Response{Response: response}})
			}
		}
		if len(answered.Items) == len(batch.GetRequests()) {
			answers = append(answers, &pb.SessionResponse{Id: message.GetId(), Message: &pb.SessionResponse_Acquired{Acquired: answered}})
		}
	}
	if report := message.GetReport(); report != nil {
		reported, _ := s.Report(context.Background(), report)
		answers = append(answers, &pb.SessionResponse{Id: message.GetId(), Message: &pb.SessionResponse_Reported{Reported: reported}})
	}
	for _, name := range follow {
		if update := s.Updates[name]; update != nil {
			answers = append(answers, &pb.SessionResponse{Message: &pb.SessionResponse_Update{Update: update}})
		}
	}
	return answers
}

func (s *Service) answer(request *pb.AcquireRequest) *pb.AcquireResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, request)
	if s.Answer != nil {
		return s.Answer(request)
	}
	return Granted(0)
}

// Report takes outcomes.
func (s *Service) Report(_ context.Context, report *pb.ReportRequest) (*pb.ReportResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, report.GetEntries()...)
	taken := &pb.ReportResponse{}
	for range report.GetEntries() {
		taken.Results = append(taken.Results, &pb.ReportResult{Applied: true, Reason: pb.ReportReason_REPORT_REASON_OK})
	}
	return taken, nil
}

// PlanCheck plans by Plan.
func (s *Service) PlanCheck(_ context.Context, request *pb.PlanCheckRequest) (*pb.PlanCheckResponse, error) {
	if s.Plan == nil {
		return nil, status.Error(codes.FailedPrecondition, "the policy has no check")
	}
	return s.Plan(request), nil
}

// Granted after a delay.
func Granted(delay time.Duration) *pb.AcquireResponse {
	return &pb.AcquireResponse{
		State: pb.BreakerState_BREAKER_STATE_CLOSED, Epoch: 1,
		Verdict: &pb.AcquireResponse_Grant{Grant: &pb.Grant{
			Delay: durationpb.New(delay), Permit: []byte("permit"), PermitTtl: durationpb.New(time.Minute),
		}},
	}
}

// Denied for a reason; a negative wait is final.
func Denied(reason pb.DenialReason, retryAfter time.Duration) *pb.AcquireResponse {
	denial := &pb.Denial{Reason: reason, Detail: "scripted"}
	if retryAfter >= 0 {
		denial.RetryAfter = durationpb.New(retryAfter)
	}
	return &pb.AcquireResponse{
		State: pb.BreakerState_BREAKER_STATE_CLOSED, Epoch: 1,
		Verdict: &pb.AcquireResponse_Denial{Denial: denial},
	}
}

// Go lets first attempts of a dependency go.
func Go(dependency string) map[string]*pb.Update {
	return map[string]*pb.Update{dependency: {
		Dependency: dependency, State: pb.BreakerState_BREAKER_STATE_CLOSED, Epoch: 1,
		FirstAttempts: pb.FirstAttempts_FIRST_ATTEMPTS_GO, ValidFor: durationpb.New(5 * time.Minute),
	}}
}
