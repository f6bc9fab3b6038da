"""Starts the servers that serve.py compares, asks them with tril_load, and knows what they cost."""

import contextlib
import json
import os
import pathlib
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def whole_path(path):
    return pathlib.Path(path).resolve()


def cpu_seconds(process):
    """Of a process and the children it has waited for."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server that runs, and how to ask it. Stopped in between, so that only one of several works at a time."""

    def __init__(self, name, command, address_of, ask, environment=()):
        self.name, self.ask = name, ask
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env={**os.environ, **dict(environment)})
        self.address = address_of(self.process.stdout.readline())
        if not self.address:
            self.process.wait()
            self.errors.seek(0)
            sys.exit(f"serve: {' '.join(map(str, command))} does not start: {self.errors.read().strip()}")

    @contextlib.contextmanager
    def awake(self):
        self.process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGSTOP)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            print(f"serve: {self.name} does not end", file=sys.stderr)
            self.process.kill()
            self.process.wait()

    def memory(self):
        """The most it had, MiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def tril_server(program, folder, beam, batch, flags):
    def address(line):
        return line.split(" at ")[-1].strip() if " at " in line else ""

    # Without its cache of answers: the lines come again and again.
    command = [program, "serve", f"model={folder}", "--listen", "127.0.0.1:0", "--device", "cpu", "--compute", "int8",
               "--threads", os.cpu_count(), "--batch", batch, "--cache", "0", *shlex.split(flags)]
    return Server("tril", command, address, ["--target", "tril", "--options", json.dumps({"beam": beam})])


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ctranslate2_server(folder, beam, flags, environment=""):
    """`environment`: such as "CT2_FORCE_CPU_ISA=AVX2"."""
    def address(line):
        return line.split(": ")[-1].strip() if line.startswith("ctranslate2_server") else ""

    command = [sys.executable, HERE / "ctranslate2_server.py", folder, "--listen", f"127.0.0.1:{free_port()}",
               "--beam", beam, *shlex.split(flags)]
    ask = ["--target", "json", "--path", "/translate", "--template", '{"text": "@"}']
    return Server("CTranslate2", command, address, ask, dict(word.split("=", 1) for word in environment.split()))


def first_in_line():
    """A generator that comes late measures itself. It needs a hundredth of a core."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -10)


def busy_seconds():
    """Of all cores together, what the machine's host took included."""
    with open("/proc/stat") as file:
        user, nice, system, idle, waiting, *rest = (int(field) for field in file.readline().split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def wait_for_calm(quiet, patience=60):
    """Until others take no more than this share of all cores for a second, or patience ends."""
    until = time.monotonic() + patience
    while quiet < 1 and time.monotonic() < until:
        busy, started = busy_seconds(), time.monotonic()
        time.sleep(1)
        if busy_seconds() - busy <= quiet * (time.monotonic() - started) * os.cpu_count():
            break


def calmest(action, quiet, tries=3):
    """What `action` returns: a figure, and the share of all cores that others took meanwhile. Repeated while that is
    above `quiet`; the calmest counts."""
    best = None
    for _ in range(tries):
        wait_for_calm(quiet)
        found = action()
        if best is None or found[1] < best[1]:
            best = found
        if best[1] <= quiet:
            break
    return best


def measure(load, server, lines, how, quiet=1.0):
    """A run of tril_load: its report, and what the server and others took of all cores. In "rc" its exit code."""
    def once():
        with server.awake(), tempfile.NamedTemporaryFile("r", suffix=".json") as report:
            command = [str(load), server.address, str(lines), *server.ask, *[str(word) for word in how], "--report",
                       report.name]
            before, busy, started = cpu_seconds(server.process.pid), busy_seconds(), time.monotonic()
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=first_in_line)
            if done.returncode == 2 or server.process.poll() is not None:
                sys.exit(f"serve: {' '.join(command)}: {done.stderr.strip() or 'the server has ended'}")
            cores = (time.monotonic() - started) * os.cpu_count()
            used, busy = cpu_seconds(server.process.pid) - before, busy_seconds() - busy
            told = json.load(report)
            others = max(0.0, busy - used - told["own_cpu_seconds"]) / cores
            return {**told, "rc": done.returncode, "server_cpu_share": used / cores, "others_cpu_share": others}, others
    return calmest(once, quiet)[0]


def translate_command(program, folder, beam, batch):
    return [str(word) for word in (program, "translate", folder, "--device", "cpu", "--compute", "int8", "--threads",
                                   os.cpu_count(), "--beam", beam, "--batch", batch)]


def batch_rate(program, folder, beam, batch, lines, quiet=1.0):
    """Lines a second of `tril translate` over a file, without its start: the time of a process less that of one with a
    single line. And the share of all cores that others took."""
    def seconds(text):
        started = time.perf_counter()
        subprocess.run(translate_command(program, folder, beam, batch), input=text, check=True, capture_output=True)
        return time.perf_counter() - started

    def once():
        used, busy, started = resource.getrusage(resource.RUSAGE_CHILDREN), busy_seconds(), time.perf_counter()
        rate = (len(some) - 1) / (seconds(b"".join(some)) - seconds(some[0]))
        after, cores = resource.getrusage(resource.RUSAGE_CHILDREN), (time.perf_counter() - started) * os.cpu_count()
        ours = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        return rate, max(0.0, busy_seconds() - busy - ours) / cores

    some = lines.read_bytes().splitlines(keepends=True)
    return calmest(once, quiet)


def golden(program, folder, beam, batch, lines, path):
    with open(lines, "rb") as text, open(path, "wb") as out:
        subprocess.run(translate_command(program, folder, beam, batch), stdin=text, stdout=out, check=True)
