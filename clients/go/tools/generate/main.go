// Command generate makes the stubs in holdoffpb from the repository's proto/ folder.
//
// It compiles the definitions in Go and hands them to the plugins that tools/go.mod pins, so
// that a contributor needs the Go tool chain and nothing else, and everybody gets the same
// bytes.
//
//	go run ./generate -proto ../../../proto -out ../holdoffpb
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const module = "github.com/holdoff/holdoff/clients/go/holdoffpb"

var files = []string{"holdoff/v1/coordinator.proto", "holdoff/v1/operator.proto"}

// The packages that the generated code imports.
var packages = map[string]string{
	"google/rpc/status.proto":      "google.golang.org/genproto/googleapis/rpc/status",
	"holdoff/v1/coordinator.proto": module,
	"holdoff/v1/operator.proto":    module,
}

func main() {
	log.SetFlags(0)
	from := flag.String("proto", "../../../proto", "the folder with the definitions")
	out := flag.String("out", "../holdoffpb", "the folder for the stubs")
	flag.Parse()
	if err := generate(*from, *out); err != nil {
		log.Fatal(err)
	}
}

func generate(from, out string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{from}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: files,
		ProtoFile:      withImports(compiled),
		Parameter:      proto.String(parameter()),
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(plugin, request, out); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// withImports lists each file behind those it imports, as plugins want them.
func withImports(compiled linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var visit func(protoreflect.FileDescriptor)
	visit = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			visit(file.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protodesc.ToFileDescriptorProto(file))
	}
	for _, file := range compiled {
		visit(file)
	}
	return all
}

func parameter() string {
	options := []string{"paths=source_relative"}
	for _, file := range append([]string{"google/rpc/status.proto"}, files...) {
		options = append(options, "M"+file+"="+packages[file])
	}
	return strings.Join(options, ",")
}

func run(plugin string, request *pluginpb.CodeGeneratorRequest, out string) error {
	input, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return err
	}
	var output bytes.Buffer
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &output, os.Stderr
	if err := command.Run(); err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output.Bytes(), &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, file := range response.GetFile() {
		name := filepath.Join(out, path.Base(file.GetName()))
		if err := os.WriteFile(name, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
