#!/usr/bin/env python3
"""Reads the log of a training run with TensorBoard's own reader, and with a TensorBoard that looks on meanwhile.

    check_tensorboard.py TRIL

The run is killed twice and resumed. In the end every value of log.jsonl is shown once, at its update, and nothing else:
by a new reader, by one that has followed the file from the start, and by the server, which has too. Exits with 77 where
TensorBoard is not installed.
"""
import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f'skipped: {error}', file=sys.stderr)
    sys.exit(77)

TAGS = {'loss': 'train/loss', 'gradient_norm': 'train/gradient_norm', 'rate': 'train/learning_rate',
        'tokens_per_second': 'train/tokens_per_second', 'valid_loss': 'valid/loss', 'valid_bleu': 'valid/bleu'}
UPDATES = 2000


def write_text(folder: pathlib.Path) -> None:
    """Four hundred pairs of a made-up language."""
    state = 12345
    source, target = [], []
    for _ in range(400):
        words = []
        for _ in range(state % 6 + 1):
            state = (state * 1103 + 12345) % 65536
            words.append(state // 7 % 40)
        state = (state * 1103 + 12345) % 65536
        source.append(' '.join(f'w{word}' for word in words))
        target.append(' '.join(f'W{word * 3 % 40}' for word in words))
    for name, lines in (('source', source), ('target', target)):
        (folder / name).write_text('\n'.join(lines) + '\n')
        (folder / f'valid_{name}').write_text('\n'.join(lines[:30]) + '\n')


def float32(value: float) -> float:
    return float(struct.unpack('f', struct.pack('f', value))[0])


def logged(training: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    values: dict[str, list[tuple[int, float]]] = {tag: [] for tag in TAGS.values()}
    for line in (training / 'log.jsonl').read_text().splitlines():
        record = json.loads(line)
        for name, tag in TAGS.items():
            if name in record:
                values[tag].append((record['update'], float32(record[name])))
    return values


def shown(reader: EventAccumulator) -> dict[str, list[tuple[int, float]]]:
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()['scalars']}


def but_speeds(values: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    tag = TAGS['tokens_per_second']
    return values | {tag: [(step, 0.0) for step, _ in values.get(tag, [])]}


def difference(found: dict[str, list[tuple[int, float]]], expected: dict[str, list[tuple[int, float]]]) -> str:
    for tag, points in expected.items():
        there = found.get(tag, [])
        if there != points:
            other = [pair for pair in zip(there, points) if pair[0] != pair[1]]
            return f'{tag}: {len(there)} points instead of {len(points)}, first {other[:3]}'
    return f'the tags {sorted(found)}'


class Server:
    """TensorBoard itself."""

    def __init__(self, training: pathlib.Path, log: pathlib.Path):
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'tensorboard.main', '--logdir', training, '--port', '0', '--reload_interval', '1',
             '--samples_per_plugin', 'scalars=100000'],
            stdout=log.open('w'), stderr=subprocess.STDOUT)
        self.url = ''
        for _ in range(300):
            for line in log.read_text().splitlines():
                if 'http://' in line:
                    self.url = line[line.index('http://'):].split()[0].rstrip('/')
            if self.url:
                return
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.2)
        raise TimeoutError(log.read_text())

    def shown(self) -> dict[str, list[tuple[int, float]]]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f'{self.url}/data/plugin/scalars/tags') as answer:
            runs = json.load(answer)
        values = {}
        for run, tags in runs.items():
            for tag in tags:
                query = urllib.parse.urlencode({'run': run, 'tag': tag})
                with opener.open(f'{self.url}/data/plugin/scalars/scalars?{query}') as answer:
                    values[tag] = [(step, value) for _, step, value in json.load(answer)]
        return values

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def main() -> None:
    tril = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_text(folder)
        model, training = folder / 'model', folder / 'model/training'
        start: list[str | pathlib.Path] = [
            tril, 'train', '--source', folder / 'source', '--target', folder / 'target', '--valid-source',
            folder / 'valid_source', '--valid-target', folder / 'valid_target', '--vocab', '360', '--model', '32',
            '--heads', '2', '--feed-forward', '64', '--encoder-layers', '1', '--decoder-layers', '1',
            '--batch-tokens', '512', '--updates', str(UPDATES), '--evaluate-every', '200', '--log-every', '5',
            '--patience', '1000', '--threads', '1', '-o', model]
        resume: list[str | pathlib.Path] = [tril, 'train', '--resume', '-o', model, '--threads', '1']
        events = training / 'events.out.tfevents.tril'
        follower: EventAccumulator | None = None
        server: Server | None = None
        kills = 0
        try:
            for enough in (10000, 40000, None):
                with (folder / 'err').open('w') as errors:
                    run = subprocess.Popen(resume if kills else start, stderr=errors)
                while run.poll() is None:
                    size = events.stat().st_size if events.exists() else 0
                    if size > 0 and follower is None:
                        follower = EventAccumulator(str(training), size_guidance={'scalars': 0})
                        server = Server(training, folder / 'server')
                    if enough is not None and size > enough and server is not None and server.shown():
                        run.send_signal(signal.SIGKILL)
                    if follower is not None:
                        follower.Reload()
                    time.sleep(0.02)
                kills += run.returncode == -signal.SIGKILL
                assert run.returncode in (0, -signal.SIGKILL), (folder / 'err').read_text()
            assert kills >= 1, 'the run was over before it could be killed'
            expected = logged(training)
            lines = len(expected['train/loss'])
            assert lines == UPDATES // 5 and len(expected['valid/bleu']) == UPDATES // 200, lines
            assert shown(EventAccumulator(str(training), size_guidance={'scalars': 0})) == expected
            assert follower is not None and server is not None
            # What was learnt again after a kill has another speed, and they have seen the first.
            expected = but_speeds(expected)
            by_follower = but_speeds(shown(follower))
            assert by_follower == expected, f'one that followed the file shows {difference(by_follower, expected)}'
            for _ in range(100):  # it looks once a second
                if (by_server := but_speeds(server.shown())) == expected:
                    break
                time.sleep(0.2)
            assert by_server == expected, f'a server that followed the file shows {difference(by_server, expected)}'
        finally:
            if server is not None:
                server.stop()
        print(f'TensorBoard shows {len(expected)} curves as log.jsonl has them, after {kills} kills')


if __name__ == '__main__':
    main()
