"""Whether .dockerignore lets through what the build of the image reads.

    python3 deploy/container/check.py DEPINFO FOLDER

DEPINFO is what cargo wrote beside the program (target/debug/holdoff.d): every file that it was
built from. The context is laid out in FOLDER, and cargo reads the workspace there.
"""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def allowed():
    """The list is one of exceptions to `*`, so a prefix says it all."""
    lines = [line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if lines[0] != "*" or not all(line.startswith("!") for line in lines[1:]):
        raise SystemExit(".dockerignore: `*` and then what is let through; this check reads no more")
    return [line[1:] for line in lines[1:]]


def passes(path, prefixes):
    return any(path == prefix or path.startswith(prefix + "/") for prefix in prefixes)


def built_from(depinfo):
    text = pathlib.Path(depinfo).read_text().replace("\\ ", "\0")
    files = [pathlib.Path(word.replace("\0", " ")) for word in text.split(":", 1)[1].split()]
    # What a build script made is made again.
    inside = [file for file in files if file.is_relative_to(ROOT) and "target" not in file.parts]
    return sorted(str(file.relative_to(ROOT)) for file in inside)


def missing(files, prefixes):
    return [file for file in files if not passes(file, prefixes)]


def workspace_reads(prefixes, folder):
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True, check=True)
    for path in filter(None, listed.stdout.split("\0")):
        if passes(path, prefixes) and (ROOT / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path)
    # By itself, not as a part of the workspace around it.
    manifest = ["--manifest-path", folder / "Cargo.toml"]
    metadata = ["cargo", "metadata", "--locked", "--offline", "--format-version=1", *manifest]
    return subprocess.run(metadata, stdout=subprocess.DEVNULL).returncode == 0


def main(depinfo, folder):
    prefixes, files = allowed(), built_from(depinfo)
    if len(files) < 100:
        raise SystemExit(f"{depinfo} names {len(files)} files: it is not what cargo wrote")
    lost = missing(files, prefixes)
    if lost:
        raise SystemExit(f".dockerignore keeps these from the build: {', '.join(lost)}")
    if not missing(files, [prefix for prefix in prefixes if prefix != "scenarios"]):
        raise SystemExit("nothing would be missed without scenarios: this check is blind")
    if not workspace_reads(prefixes, pathlib.Path(folder).resolve()):
        raise SystemExit("cargo cannot read the workspace as the image's build sees it")
    print(f"container: all of {len(files)} files reach the build")


main(*sys.argv[1:])
