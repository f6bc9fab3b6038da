"""Starts the servers that serve.py compares, asks them with tril_load, and knows what they cost."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


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
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


def measure(load, server, lines, how, **figures):
    """A run of tril_load, awake: its report, and the server's share of all cores. Faults of a verified run: an exit
    code in "rc", which is tril_load's."""
    with server.awake(), tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        command = [str(load), server.address, str(lines), *server.ask, *[str(word) for word in how], "--report",
                   report.name]
        before, started = cpu_seconds(server.process.pid), time.monotonic()
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=first_in_line)
        if done.returncode == 2 or server.process.poll() is not None:
            sys.exit(f"serve: {' '.join(command)}: {done.stderr.strip() or 'the server has ended'}")
        used = cpu_seconds(server.process.pid) - before
        share = used / (time.monotonic() - started) / os.cpu_count()
        return {**figures, **json.load(report), "rc": done.returncode, "server_cpu_share": share}


def translate_command(program, folder, beam, batch):
    return [str(word) for word in (program, "translate", folder, "--device", "cpu", "--compute", "int8", "--threads",
                                   os.cpu_count(), "--beam", beam, "--batch", batch)]


def batch_rate(program, folder, beam, batch, lines):
    """Lines a second of `tril translate` over a file, without its start: the time of a process less that of one with a
    single line."""
    def seconds(text):
        started = time.perf_counter()
        subprocess.run(translate_command(program, folder, beam, batch), input=text, check=True, capture_output=True)
        return time.perf_counter() - started

    some = lines.read_bytes().splitlines(keepends=True)
    return (len(some) - 1) / (seconds(b"".join(some)) - seconds(some[0]))


def golden(program, folder, beam, batch, lines, path):
    with open(lines, "rb") as text, open(path, "wb") as out:
        subprocess.run(translate_command(program, folder, beam, batch), stdin=text, stdout=out, check=True)
