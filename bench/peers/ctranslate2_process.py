"""A process that does nothing but load a CTranslate2 model and translate; compare.py starts it.

    python ctranslate2_process.py '{"folder": ..., "beam": 1, "tokens": 30, "inter": 1, "intra": 2, "lines": [0, 1]}'

Prints the most memory it had once its library was loaded ("idle") and at the end ("peak"), in MiB.
"""

import json
import sys

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
    translator = ctranslate2.Translator(task["folder"], device="cpu", compute_type="int8",
                                        inter_threads=task["inter"], intra_threads=task["intra"])
    results = translator.translate_batch([sentence(number) for number in task["lines"]], max_batch_size=32,
                                         beam_size=task["beam"], max_decoding_length=task["tokens"],
                                         min_decoding_length=task["tokens"])
    assert all(len(result.hypotheses[0]) == task["tokens"] for result in results)
    print(json.dumps({"idle": idle, "peak": peak()}))


if __name__ == "__main__":
    main()
