// Command pack publishes the module into a folder, as a module proxy serves it, so that a test can
// install it as its users will.
//
//	go run ./pack -module .. -version v0.1.0 -proxy FOLDER
package main

import (
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	folder := flag.String("module", "..", "the module's folder")
	version := flag.String("version", "v0.1.0", "the version to publish")
	proxy := flag.String("proxy", "", "where to publish")
	flag.Parse()
	if err := pack(*folder, *version, *proxy); err != nil {
		log.Fatal(err)
	}
}

func pack(folder, version, proxy string) error {
	definition, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	path := modfile.ModulePath(definition)
	if err := module.Check(path, version); err != nil {
		return err
	}
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": version})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": definition} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		return err
	}
	// It leaves out the modules in folders below, and refuses what a proxy would.
	if err := zip.CreateFromDir(archive, module.Version{Path: path, Version: version}, folder); err != nil {
		return err
	}
	return archive.Close()
}
