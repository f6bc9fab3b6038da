"""A process that does nothing but load a CTranslate2 model and translate; compare.py starts it.

    python ctranslate2_process.py '{"folder": ..., "compute": "int8", "batch": 32, "beam": 1, "tokens": 30,
                                    "inter": 1, "intra": 2, "lines": [0, 1], "timed": false}'

Prints the most memory it had once its library was loaded ("idle") and at the end ("peak"), in MiB. Timed, it
translates all lines twice and prints the seconds of the second time.
"""

import json
import sys
import time

# CTranslate2 loads these where they are installed, without using them here: its leanest process counts.
for unused in ("torch", "transformers"):
    sys.modules[unused] = None

import ctranslate2

import work


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def sentence(number):
    """As long as the others' in tokens; which tokens they are does not matter."""
    return [f"t{4 + (7919 * (number + 1) * (i + 1)) % (work.TRANSLATION_VOCAB - 4)}" for i in range(work.LENGTHS[number])]


def main():
    task = json.loads(sys.argv[1])
    idle = peak()
    translator = ctranslate2.Translator(task["folder"], device="cpu", compute_type=task["compute"],
                                        inter_threads=task["inter"], intra_threads=task["intra"])
    lines = [sentence(number) for number in task["lines"]]
    options = dict(beam_size=task["beam"], max_decoding_length=task["tokens"], min_decoding_length=task["tokens"])
    seconds = 0.0
    for _ in range(2 if task["timed"] else 1):
        started = time.perf_counter()
        if task["batch"] == 1:
            results = [translator.translate_batch([line], **options)[0] for line in lines]
        else:
            results = translator.translate_batch(lines, max_batch_size=task["batch"], **options)
        seconds = time.perf_counter() - started
        assert all(len(result.hypotheses[0]) == task["tokens"] for result in results)
    print(json.dumps({"idle": idle, "peak": peak(), "seconds": seconds}))


if __name__ == "__main__":
    main()
