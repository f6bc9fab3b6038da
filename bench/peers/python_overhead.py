#!/usr/bin/env python3
"""What Python costs: the wheel beside the program, beside C++ and beside CTranslate2's package, the sides taking turns.

    python_overhead.py TRIL MODEL [--one-sentence PROGRAM] [--rounds N] [--lines N]
    python_overhead.py TRIL --ctranslate2 CACHE TEXT [--match 'int8 greedy'] [--rounds N] [--lines N]

TRIL is the program of preset release, MODEL a small model such as `tril demo` makes: the smaller, the more overhead counts.
The program is timed as a process, less the time of a process with one line; Python within a process that has translated
before. --one-sentence is the program of one_sentence.cpp (a build of python/ with -D TRIL_PYTHON_BENCH=ON makes it).
The second form makes the models of imported.py in CACHE, from TEXT, and translates with both packages from Python: text
for tril, tokens for CTranslate2, whose every configuration of threads is tried, the fastest counting. It needs what
imported.py needs. Run on a quiet machine: what ran beside it is printed as the load.
"""

import argparse
import asyncio
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CALLERS = 64


def seconds_of(call):
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def told(what, here, there, name, unit="lines per second"):
    """Prints medians and the median of the ratios of rounds."""
    ratio = statistics.median(a / b for a, b in zip(here, there))
    print(f"{what}: {statistics.median(here):,.0f} {unit}, {name} {statistics.median(there):,.0f}: {ratio:.3f} of it "
          f"(rounds {min(a / b for a, b in zip(here, there)):.3f} to {max(a / b for a, b in zip(here, there)):.3f})",
          flush=True)


def process_seconds(tril, model, lines):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        command = [tril, "translate", model, "--device", "cpu", "--input", file.name]
        return seconds_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def by_threads(translator, lines):
    waiting = queue.SimpleQueue()
    for line in lines:
        waiting.put(line)

    def work():
        while True:
            try:
                line = waiting.get_nowait()
            except queue.Empty:
                return
            translator.translate(line)

    threads = [threading.Thread(target=work) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_tasks(translator, lines):
    async def main():
        waiting = iter(lines)

        async def work():
            for line in waiting:
                await translator.translate_async(line)

        await asyncio.gather(*[work() for _ in range(CALLERS)])

    asyncio.run(main())


def overhead(arguments):
    import tril

    translator = tril.Translator(arguments.model, device="cpu")
    book = [english for english, _ in tril.phrasebook()[0]]
    lines = (book * (arguments.lines // len(book) + 1))[:arguments.lines]
    translator.translate_batch(lines[:200])
    program, batch, threads, tasks = [], [], [], []
    for _ in range(arguments.rounds):
        alone = process_seconds(arguments.tril, arguments.model, lines[:1])
        program.append(len(lines) / (process_seconds(arguments.tril, arguments.model, lines) - alone))
        batch.append(len(lines) / seconds_of(lambda: translator.translate_batch(lines)))
        threads.append(len(lines) / seconds_of(lambda: by_threads(translator, lines)))
        tasks.append(len(lines) / seconds_of(lambda: by_tasks(translator, lines)))
    told(f"translate_batch of {len(lines)} lines", batch, program, "tril translate")
    told(f"{CALLERS} threads that call translate()", threads, batch, "one batch call")
    told(f"{CALLERS} tasks that await translate_async()", tasks, batch, "one batch call")
    if arguments.one_sentence:
        sentence, calls = "Where is the hospital?", 500
        for _ in range(arguments.rounds):
            there = float(subprocess.run([arguments.one_sentence, arguments.model, sentence, str(calls)], check=True,
                                         capture_output=True, text=True).stdout)
            here = statistics.median(seconds_of(lambda: translator.translate(sentence)) for _ in range(calls)) * 1e6
            print(f"one short sentence: Python {here:.0f} µs, C++ {there:.0f} µs: {here - there:+.0f} µs", flush=True)


def beside_ctranslate2(arguments):
    import ctranslate2
    import sentencepiece

    import imported
    import tril
    import work

    cache, text = arguments.ctranslate2
    imported.make_models(arguments.tril, pathlib.Path(cache), text)
    pieces = sentencepiece.SentencePieceProcessor(os.path.join(cache, "opus/source.spm"))
    with open(text, encoding="utf-8") as file:
        every = [line.strip() for line in file if line.strip()]
    all_lines = every[::max(1, len(every) // arguments.lines)][:arguments.lines]
    for batch, beam, compute in imported.WORK:
        what = f"{compute} {'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
        if arguments.match not in what:
            continue
        lines = all_lines[:max(4, len(all_lines) // 8)] if batch == 1 else all_lines
        tokens = [pieces.encode(line, out_type=str) + ["</s>"] for line in lines]
        ours = tril.Translator(os.path.join(cache, "tril"), device="cpu", compute_type="int8" if compute == "int8" else "float32",
                               intra_threads=2)
        options = dict(beam_size=beam, max_decoding_length=work.TOKENS_OUT, max_ratio=0.0)
        theirs = {threads: ctranslate2.Translator(os.path.join(cache, f"ct2-{compute}"), device="cpu",
                                                  compute_type="int8" if compute == "int8" else "float32",
                                                  inter_threads=threads[0], intra_threads=threads[1])
                  for threads in imported.THREADS[batch]}
        limits = dict(beam_size=beam, max_decoding_length=work.TOKENS_OUT, min_decoding_length=work.TOKENS_OUT)

        def here():
            if batch == 1:
                return [ours.translate_batch([line], **options)[0] for line in lines]
            return ours.translate_batch(lines, max_batch_size=batch, **options)

        def there(translator):
            if batch == 1:
                return [translator.translate_batch([line], **limits)[0] for line in tokens]
            return translator.translate_batch(tokens, max_batch_size=batch, **limits)

        assert all(len(result.details[0].tokens) == work.TOKENS_OUT for result in here()[:4])
        mine, others = [], {threads: [] for threads in theirs}
        for translator in theirs.values():
            there(translator)
        for _ in range(arguments.rounds):
            mine.append(len(lines) * work.TOKENS_OUT / seconds_of(here))
            for threads, translator in theirs.items():
                others[threads].append(len(lines) * work.TOKENS_OUT / seconds_of(lambda: there(translator)))
        best = max(others, key=lambda threads: statistics.median(others[threads]))
        told(what, mine, others[best], f"CTranslate2 {best}", "tokens per second")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tril")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--one-sentence")
    parser.add_argument("--ctranslate2", nargs=2, metavar=("CACHE", "TEXT"))
    parser.add_argument("--match", default="", help="with --ctranslate2: only work whose name has this in it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int)
    arguments = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}", flush=True)
    if arguments.ctranslate2:
        arguments.lines = arguments.lines or 256
        beside_ctranslate2(arguments)
    elif arguments.model:
        arguments.lines = arguments.lines or 10_000
        overhead(arguments)
    else:
        parser.error("a model, or --ctranslate2")
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
