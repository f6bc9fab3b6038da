"""Memory stays flat: a hundred thousand calls, or a million with TRIL_SOAK in the environment."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import Callable

import pytest

import tril

CALLS = 1_000_000 if os.environ.get("TRIL_SOAK") else 100_000
# What glibc's allocator and Python's may keep for themselves between two looks.
SLACK_KIB = 6_000


def resident_kib() -> int:
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def check_flat(calls: int, some: Callable[[], int]) -> None:
    """Repeats some calls, which say how many they are."""
    done = 0
    while done < calls // 5:
        done += some()
    before = resident_kib()
    while done < calls:
        done += some()
    grown = resident_kib() - before
    assert grown < SLACK_KIB, f"{grown} KiB more after {calls} calls"


def test_calls_of_every_kind(translator: tril.Translator) -> None:
    """Most of these need no model, so that the calls themselves are what is repeated."""

    async def tasks() -> None:
        await asyncio.gather(*[translator.translate_async("") for _ in range(50)])

    def call() -> int:
        for _ in range(50):
            translator.translate("")
            translator.submit("").result()
        translator.translate_batch([""] * 50)
        list(translator.translate_iterable(iter([""] * 50)))
        asyncio.run(tasks())
        with pytest.raises(tril.InvalidArgument):
            translator.translate("", beam_size=0)
        return 153

    check_flat(CALLS, call)


def test_translations_and_their_parts(translator: tril.Translator) -> None:
    def call() -> int:
        for result in translator.translate_batch(["tea"] * 40, beam_size=2, num_hypotheses=2, max_decoding_length=2,
                                                 return_alignments=True):
            assert result.details[0].attention.shape and result.details[0].pieces and result.scores
        pending = [translator.submit("tea", beam_size=1, max_decoding_length=2) for _ in range(10)]
        for line in pending[:5]:
            line.cancel()
        del pending
        for step in translator.stream("tea", beam_size=1, max_decoding_length=2):
            break
        return 12

    check_flat(CALLS // 50, call)  # 41 lines each


def test_arrays_that_share_their_memory(translator: tril.Translator) -> None:
    def call() -> int:
        numbers = translator.forward([5, 3], [2, 5], attention=True)
        assert numbers.logits.shape[0] == 2 and numbers.attention().shape[1] == 2
        return 1

    check_flat(CALLS // 50, call)
