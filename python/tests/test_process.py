"""What happens to a process: fork, spawn, Ctrl-C, and the end of the interpreter while requests run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import tril


def run(script: str, *arguments: str, interrupt: float | None = None, timeout: float = 120) -> tuple[int, str, str]:
    """Runs a script in a process of its own, and interrupts it a while after it printed a line."""
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), *arguments], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    try:
        first = ""
        if interrupt is not None:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(interrupt)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, first + out, err
    finally:
        process.kill()


FORKS = """
    import os, sys, tril
    translator = tril.Translator(sys.argv[1], device="cpu")
    expected = translator.translate(["I want tea"] * 100)
    def child():
        for attempt in (lambda: translator.translate("I want tea"), lambda: tril.Translator(sys.argv[1]),
                        lambda: translator.submit("tea"), lambda: list(translator.translate_iterable(["tea"]))):
            try:
                attempt()
            except tril.Unsupported as error:
                assert "forked" in str(error), error
            else:
                raise SystemExit("no error")
    child_process = os.fork()
    if child_process == 0:
        child()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child_process, 0)[1]) == 7
    assert translator.translate(["I want tea"] * 100) == expected
    print("ok")
"""


def test_fork_after_use_is_an_error_and_no_hang(model_path: str) -> None:
    assert run(FORKS, model_path) == (0, "ok\n", "")


def test_fork_before_use(model_path: str) -> None:
    code, out, err = run("""
        import os, sys, tril
        child = os.fork()
        translator = tril.Translator(sys.argv[1], device="cpu")
        text = translator.translate("I want tea")
        if child == 0:
            sys.exit(0 if text else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(text)
    """, model_path)
    assert (code, err) == (0, "") and out.strip()


@pytest.mark.parametrize("work", [
    "line = translator.submit('I want tea', min_decoding_length=100, max_ratio=0.0)",
    "line = translator.submit('I want tea'); line.add_done_callback(lambda line: None); line.result()",
])
def test_a_forked_child_ends_as_usual(model_path: str, work: str) -> None:
    code, out, err = run(f"""
        import os, sys, tril
        translator = tril.Translator(sys.argv[1], device="cpu")
        {work}
        child = os.fork()
        if child == 0:
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        print(line.result().text != "")
    """, model_path)
    assert (code, out, err) == (0, "True\n", "")


def translated(translator: tril.Translator) -> str:
    return translator.translate("I want tea")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_started_afresh(method: str, translator: tril.Translator) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(translated, [translator] * 3) == [translator.translate("I want tea")] * 3


LONG = """
    import sys, threading, time, tril
    translator = tril.Translator(sys.argv[1], device="cpu")
    lines = ["I want tea"] * 20000
    options = dict(min_decoding_length=60, max_ratio=0.0)
"""


@pytest.mark.parametrize("call", [
    "translator.translate(lines, **options)",
    "list(translator.translate_iterable(lines, **options))",
    "[line.result() for line in [translator.submit(line, **options) for line in lines]]",
    "translator.translate_text('\\n'.join(lines), **options)",
    "translator.score_batch(lines * 3, lines * 3)",
    "translator.prove(['I want tea'] * 12, full=True)",
])
def test_interrupted(model_path: str, call: str) -> None:
    begin = time.monotonic()
    code, out, err = run(f"""{LONG}
    print("begun", flush=True)
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(translator.translate("I want tea") != "")
    """, model_path, interrupt=0.5)
    assert (code, out, err) == (0, "begun\ninterrupted\nTrue\n", "")
    assert time.monotonic() - begin < 60


def test_interrupted_training_resumes(tmp_path: object) -> None:
    code, out, err = run("""
        import sys, tril
        options = dict(vocab=400, model=32, heads=2, feed_forward=64, encoder_layers=1, decoder_layers=1,
                       updates=100000, batch_tokens=512, warm_up=20, device="cpu", progress=False)
        pairs = tril.phrasebook()[0][:500]
        try:
            tril.train(sys.argv[1], pairs=pairs, callback=lambda status: print("begun", flush=True), **options)
        except KeyboardInterrupt:
            print("interrupted")
        try:
            tril.train(sys.argv[1], pairs=pairs, resume=True, device="cpu", progress=False,
                       callback=lambda status: True)
        except tril.TrilError as error:
            print(error)
    """, str(tmp_path), interrupt=0.3)
    assert code == 0 and err == "" and out.splitlines()[-1] == "interrupted"


@pytest.mark.parametrize("work", [
    "threading.Thread(target=lambda: translator.translate(lines, **options), daemon=True).start()",
    "pending = [translator.submit(line, **options) for line in lines]",
    "stream = iter(translator.translate_iterable(lines, **options)); next(stream)",
    "stream = iter(translator.stream(lines[0], beam_size=1, **options)); next(stream)",
    "pending = translator.submit(lines[0], **options); pending.add_done_callback(print)",
    "threading.Thread(target=lambda: translator.score_batch(lines, lines), daemon=True).start()",
    "threading.Thread(target=lambda: [line for line in translator.translate_iterable(lines)], daemon=True).start()",
    "threading.Thread(target=lambda: translator.prove(['I want tea']), daemon=True).start()",
])
@pytest.mark.parametrize("end", ["", "del translator; sys.exit(0)"])
def test_the_interpreter_ends_while_requests_run(model_path: str, work: str, end: str) -> None:
    code, out, err = run(f"""{LONG}
    {work}
    time.sleep(0.05)
    {end}
    """, model_path)
    assert (code, err) == (0, "") and "Fatal" not in out


def test_the_loop_is_left_while_requests_run(model_path: str) -> None:
    assert run(f"""{LONG}
    import asyncio
    async def main():
        tasks = [asyncio.ensure_future(translator.translate_async(line, **options)) for line in lines[:2000]]
        await asyncio.sleep(0.05)
    asyncio.run(main())
    print("left")
    """, model_path)[:2] == (0, "left\n")


def test_nothing_is_left_at_an_ordinary_end(model_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """nanobind says what objects and functions are left when the interpreter has ended."""
    monkeypatch.setenv("TRIL_LEAK_WARNINGS", "1")
    assert run("""
        import asyncio, sys, tril
        translator = tril.Translator(sys.argv[1], device="cpu")
        translator.translate_batch(["I want tea"] * 100, num_hypotheses=2, return_alignments=True)
        pending = translator.submit("I want tea")
        asyncio.run(translator.translate_async("I want tea"))
        list(translator.stream("I want tea"))
        numbers = translator.forward("I want tea", "a").logits
        try:
            translator.translate("tea " * 200)
        except tril.TrilError:
            print("ok")
    """, model_path) == (0, "ok\n", "")


def test_a_processor_that_will_not_do_is_told_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for cannot be had here, as on a processor without AVX2."""
    monkeypatch.setenv("TRIL_TARGET", "neon")
    code, _, err = run("import tril")
    assert code == 1 and err.splitlines()[-1].startswith("tril.errors.") and "neon" in err.splitlines()[-1]


def test_no_stack_is_executable() -> None:
    """CTranslate2's was, and glibc 2.41 refuses to load such a library."""
    import tril._tril

    with open(tril._tril.__file__, "rb") as file:
        header = file.read(1 << 16)
    offset = int.from_bytes(header[32:40], "little")
    size = int.from_bytes(header[54:56], "little")
    stacks = []
    for i in range(int.from_bytes(header[56:58], "little")):
        entry = header[offset + i * size:offset + (i + 1) * size]
        if int.from_bytes(entry[:4], "little") == 0x6474E551:  # PT_GNU_STACK
            stacks.append(int.from_bytes(entry[4:8], "little"))
    assert stacks and not any(flags & 1 for flags in stacks)
