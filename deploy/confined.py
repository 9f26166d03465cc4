"""Runs the program as its image does, without an engine: in a root that has nothing but the
program and the libraries of its base, read-only, as a user without any right; and looks at what it
does there.

    python3 deploy/confined.py HOLDOFF FOLDER      as root; needs strace, unshare, systemd-analyze

What is checked: it starts, answers, keeps what it acknowledged over a restart, stops in time
whatever its peers do, writes nothing but its data, and makes no system call that the systemd unit
forbids.
"""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

USER = 65532
DATA = "/var/lib/holdoff"
PROGRAM = "/usr/local/bin/holdoff"
UNIT = pathlib.Path(__file__).parent / "systemd/holdoff.service"
# What gcr.io/distroless/cc-debian12 has of what a Rust program may link.
BASE_HAS = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0",
            "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
STOP_WITHIN = 15
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_READ, PR_CAPBSET_DROP = 38, 23, 24


def held(law, what):
    if not law:
        raise SystemExit(f"not held: {what}")


def build_root(program, root):
    shutil.rmtree(root, ignore_errors=True)
    for folder in (PROGRAM, DATA + "/x", "/proc/x"):
        (root / folder[1:]).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(program, root / PROGRAM[1:])
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+) \(0x", linked):
        held(os.path.basename(path) in BASE_HAS, f"the base of the image has no {path}")
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, root / path[1:])


def mount(root, data):
    """In a namespace of our own: gone with it."""
    def do(*arguments):
        subprocess.run(["mount", *arguments], check=True)
    do("--bind", root, root)
    do("--bind", data, str(root) + DATA)
    do("--bind", "/proc", str(root) + "/proc")
    do("-o", "remount,bind,ro", root)
    held(os.statvfs(root).f_flag & os.ST_RDONLY, "the root is read-only")


def become_nobody(root, arguments):
    """Ends in the program: no right, none to be had, nothing else in sight."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    os.chroot(root)
    os.chdir("/")
    capability = 0
    while prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        capability += 1
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    os.execve(PROGRAM, [PROGRAM, *arguments], dict(os.environ))


class Service:
    def __init__(self, root, trace, **environment):
        inside = [sys.executable, "-B", __file__, "--inside", root, "serve", "--data-dir", DATA,
                  "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workers", "2"]
        traced = ["strace", "-f", "-qq", "-s", "4096", "-o", trace, *inside]
        self.process = subprocess.Popen(
            traced, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"], **environment})
        said = [self.process.stdout.readline() for _ in range(2)]
        held(all(said), "it starts")
        self.grpc = "http://" + said[0].split()[-1]
        self.http = "http://" + said[1].split()[-1]
        self.pid = self.find()

    def find(self):
        for child in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            return int(child)
        raise SystemExit("strace has no child")

    def status(self):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    def stop(self):
        begun = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        code = self.process.wait(timeout=60)
        took = time.monotonic() - begun
        held(code == 0, f"an orderly end, not {code}")
        held(took <= STOP_WITHIN, f"an end within {STOP_WITHIN} s, not {took:.1f} s")
        return took


def run(program, *arguments):
    return subprocess.run([program, *arguments], stdout=subprocess.DEVNULL).returncode


def smoke(program, root, folder):
    ask = lambda service: run(program, "ask", "payments", "--server", service.grpc)
    first = Service(root, folder / "first.trace")
    status = first.status()
    held(status["Uid"].split() == [str(USER)] * 4, "the user")
    held({status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}, "no right")
    held(status["NoNewPrivs"] == "1", "and none to be had")
    held(ask(first) == 0, "it answers")
    held(run(program, "open", "payments", "--reason", "a test", "--server", first.grpc) == 0, "an order")
    held(ask(first) == 1, "is heeded")
    for path in ("/healthz", "/readyz", "/metrics"):
        with urllib.request.urlopen(first.http + path, timeout=10) as answer:
            held(answer.status == 200, path)
    inside = [sys.executable, "-B", __file__, "--inside", root, "healthcheck", "--server", first.grpc]
    held(subprocess.run(inside).returncode == 0, "the image's own health check")
    # A stream that its client does not end, and a connection that says nothing.
    follower = subprocess.Popen([program, "events", "--follow", "--server", first.grpc],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    host, port = first.grpc.removeprefix("http://").rsplit(":", 1)
    silent = socket.create_connection((host, int(port)))
    took = [first.stop()]
    silent.close()
    follower.kill()
    follower.wait()
    held(subprocess.run(inside, stderr=subprocess.DEVNULL).returncode == 3, "no service, no health")

    # A collector that takes connections and never answers.
    with socket.create_server(("127.0.0.1", 0)) as mute:
        second = Service(root, folder / "second.trace", OTEL_TRACES_SAMPLER="always_on",
                         OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{mute.getsockname()[1]}")
        held(ask(second) == 1, "what was acknowledged holds after a restart")
        took.append(second.stop())
    return took


def calls_of(trace):
    """The program's own system calls: name and line; ours before it are left out."""
    begun = False
    for line in trace.read_text(errors="replace").splitlines():
        begun = begun or f'execve("{PROGRAM}"' in line
        call = re.match(r"\d+ +(?:<\.\.\. )?([a-z0-9_]+)(?:\(| resumed)", line)
        if begun and call:
            yield call.group(1), line


def check_writes(trace):
    changing = {"mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "link",
                "linkat", "symlink", "symlinkat", "truncate", "chmod", "fchmodat", "mknod", "mknodat", "creat"}
    wrote = set()
    for name, line in calls_of(trace):
        opens = name in ("open", "openat") and re.search(r"O_WRONLY|O_RDWR|O_CREAT", line)
        if opens or name in changing:
            wrote |= set(re.findall(r'"([^"]*)"', line)[:2])
    held(wrote, "it writes its data")
    beyond = sorted(path for path in wrote if not path.startswith(DATA + "/") and path != DATA)
    held(not beyond, f"it writes beyond its data: {beyond}")


def filter_of(unit):
    """The system calls that the unit lets through, as systemd itself lists its groups."""
    def members(name, seen):
        if not name.startswith("@"):
            return {name}
        listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name],
                                capture_output=True, text=True, check=True).stdout
        inner = [word for line in listed.splitlines()[1:] for word in line.split("#")[0].split()]
        return set().union(*(members(word, seen) for word in inner))
    allowed = set()
    for value in re.findall(r"^SystemCallFilter=(.*)$", unit.read_text(), re.M):
        names = set().union(*(members(name, set()) for name in value.lstrip("~").split()))
        allowed = allowed - names if value.startswith("~") else allowed | names
    return allowed


def check_calls(trace, allowed):
    # execve is what became the program; the manager's filter lets it through once.
    made = {name for name, _ in calls_of(trace)} - {"execve"}
    held(made <= allowed, f"the systemd unit forbids {sorted(made - allowed)}")
    return made


def inside_namespace(program, folder):
    folder = pathlib.Path(folder).resolve()
    root, data = folder / "root", folder / "data"
    build_root(program, root)
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    os.chown(data, USER, USER)
    data.chmod(0o700)
    mount(root, data)
    took = smoke(program, root, folder)
    allowed = filter_of(UNIT)
    made = set()
    for trace in (folder / "first.trace", folder / "second.trace"):
        check_writes(trace)
        made |= check_calls(trace, allowed)
    # What finds nothing may look at nothing.
    held({"socket", "openat", "futex"} <= made, f"the trace is whole: {sorted(made)}")
    print(f"confined: {len(made)} kinds of system calls, all allowed; wrote under {DATA} alone; "
          f"stopped in {' and '.join(f'{it:.1f}' for it in took)} s")


def main(arguments):
    if arguments[0] == "--inside":
        become_nobody(arguments[1], arguments[2:])
    elif arguments[0] == "--namespace":
        inside_namespace(*arguments[1:])
    else:
        held(os.geteuid() == 0, "this needs root, to give up what root has")
        held(shutil.which("strace"), "strace is there")
        again = [sys.executable, __file__, "--namespace", *arguments]
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *again])


main(sys.argv[1:])
