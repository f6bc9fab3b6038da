#!/usr/bin/env python3
"""Translates a file of lines with Ray Data.

    ray_translate.py MODEL INPUT OUTPUT [--actors N] [--gpus N] [--block LINES] [--options JSON]

MODEL and INPUT must be readable on every node; OUTPUT is written by this process, whole or not at all. --options are
those of tril.Translator.translate_batch, as in '{"beam_size": 4}' or '{"sampling": true, "seed": 7}'.

Each actor loads the model once, and has one core (--gpus 1: and one GPU). An actor that dies is started again by Ray,
and so is the block it was at, which gives the same lines: a translation depends on the model, the line, its number in
the file and the options alone. Text must be UTF-8.
"""
import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy
import ray


def blocks_of(path: str, lines: int) -> Iterator[dict[str, int]]:
    """Where each block of so many lines lies in a file: from which byte on, how many bytes, the number of its first
    line from 0."""
    with open(path, 'rb') as file:
        begin = offset = number = first = 0
        for line in file:
            offset += len(line)
            number += 1
            if number - first == lines:
                yield {'begin': begin, 'bytes': offset - begin, 'first': first}
                begin, first = offset, number
        if offset > begin:
            yield {'begin': begin, 'bytes': offset - begin, 'first': first}


def lines_in(path: str, begin: int, count: int) -> list[str]:
    """Lines as tril reads them: they end with LF, or CR LF; a byte order mark is not part of the first."""
    with open(path, 'rb') as file:
        file.seek(begin)
        data = file.read(count)
    if begin == 0:
        data = data.removeprefix(b'\xef\xbb\xbf')
    lines = data.split(b'\n')
    if lines[-1] == b'':
        lines.pop()
    return [line.removesuffix(b'\r').decode() for line in lines]


class Translate:
    """An actor: a translator of one thread."""

    def __init__(self, model: str, path: str, device: str, options: dict[str, Any]):
        import tril

        self.translator = tril.Translator(model, device=device, intra_threads=1)
        self.path = path
        self.options = options

    def __call__(self, blocks: dict[str, numpy.ndarray]) -> dict[str, Any]:
        texts = []
        for begin, count, first in zip(blocks['begin'], blocks['bytes'], blocks['first']):
            results = self.translator.translate_batch(
                lines_in(self.path, int(begin), int(count)), first_number=int(first), bad_lines='skip', **self.options)
            for result in results:
                if result.skipped:
                    print(f'line {result.number + 1} skipped: {result.skipped}', file=sys.stderr)
            texts.append(''.join(result.text + '\n' for result in results))
        return {'first': blocks['first'], 'text': texts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ('model', 'input', 'output'):
        parser.add_argument(name, type=os.path.abspath)
    parser.add_argument('--actors', type=int, default=0, help='0: as many as there are cores, or GPUs with --gpus')
    parser.add_argument('--gpus', type=float, default=0.0, help='of each actor')
    parser.add_argument('--block', type=int, default=1000, help='lines that are translated together')
    parser.add_argument('--options', type=json.loads, default={}, help='of translate_batch, as JSON')
    flags = parser.parse_args()
    with open(flags.input, 'rb') as file:
        if file.read(2) == b'\x1f\x8b':
            parser.error(f'{flags.input} is packed, and blocks of it can only be found in plain text: unpack it first')
    if os.path.exists(flags.output) and os.path.samefile(flags.input, flags.output):
        parser.error('OUTPUT is INPUT')

    ray.init(ignore_reinit_error=True)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    resources = ray.cluster_resources()
    actors = flags.actors or int(resources.get('GPU', 0) / flags.gpus if flags.gpus else resources['CPU'])
    blocks = list(blocks_of(flags.input, flags.block))
    translated = ray.data.from_items(blocks, override_num_blocks=max(1, len(blocks))).map_batches(
        Translate, fn_constructor_args=(flags.model, flags.input, 'cuda' if flags.gpus else 'cpu', flags.options),
        batch_size=1, compute=ray.data.ActorPoolStrategy(size=max(1, actors)), num_cpus=1, num_gpus=flags.gpus)
    partial = flags.output + '.tmp'
    expected = (block['first'] for block in blocks)
    with open(partial, 'w', encoding='utf-8', newline='') as output:
        for row in translated.iter_rows() if blocks else ():
            if row['first'] != next(expected):
                raise RuntimeError('the blocks do not come in their order')
            output.write(row['text'])
    os.replace(partial, flags.output)


if __name__ == '__main__':
    main()
