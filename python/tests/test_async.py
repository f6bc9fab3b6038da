"""Translating from an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

import tril


def test_gather(translator: tril.Translator, lines: list[str]) -> None:
    async def main() -> list[str]:
        return await asyncio.gather(*[translator.translate_async(line) for line in lines])

    assert asyncio.run(main()) == translator.translate(lines)


def test_await_twice_and_from_two_tasks(translator: tril.Translator) -> None:
    async def main() -> tuple[str, str, str]:
        pending = translator.submit("I want tea")

        async def wait() -> str:
            return (await pending).text

        first, second = await asyncio.gather(wait(), wait())
        return first, second, (await pending).text

    assert set(asyncio.run(main())) == {translator.translate("I want tea")}


def test_one_waits_when_another_has_given_up(translator: tril.Translator) -> None:
    """A task that is cancelled forgets its own number alone; a callback and a line of another task have others."""
    called = threading.Event()

    async def main() -> str:
        pending = translator.submit("I want tea", min_decoding_length=40, max_ratio=0.0)
        pending.add_done_callback(lambda line: called.set())
        loop = asyncio.get_running_loop()
        elsewhere = loop.run_in_executor(None, lambda: asyncio.run(waits(pending)))
        await asyncio.sleep(0.001)
        bell = tril._courier.LoopBell(loop)
        pending._pending.listen(bell._bell, 1)
        pending._pending.forget(bell._bell, 1)
        return await asyncio.wait_for(elsewhere, 30)

    async def waits(pending: tril.PendingTranslation) -> str:
        return (await pending).text

    assert asyncio.run(main())
    assert called.wait(30)


def test_two_loops(translator: tril.Translator, lines: list[str]) -> None:
    expected = translator.translate(lines[:50])
    got: list[list[str]] = []

    async def main() -> list[str]:
        return await asyncio.gather(*[translator.translate_async(line) for line in lines[:50]])

    threads = [threading.Thread(target=lambda: got.append(asyncio.run(main()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [expected] * 3


def test_the_loop_stays_alive(translator: tril.Translator, lines: list[str]) -> None:
    async def main() -> int:
        ticks = 0
        done = asyncio.gather(*[translator.translate_async(line, min_decoding_length=50, max_ratio=0.0)
                                for line in lines])
        while not done.done():
            await asyncio.sleep(0.001)
            ticks += 1
        await done
        return ticks

    assert asyncio.run(main()) > 5


def test_stream(translator: tril.Translator) -> None:
    async def main() -> list[str]:
        return [step.text async for step in translator.stream("I want tea", beam_size=1)]

    steps = asyncio.run(main())
    assert len(steps) > 1 and steps[-1] == translator.translate("I want tea", beam_size=1)


def test_cancelled_task_cancels_its_line(translator: tril.Translator) -> None:
    async def main() -> None:
        pending = translator.submit("I want tea", min_decoding_length=60, max_ratio=0.0)

        async def wait() -> None:
            await pending

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(1000):
            if pending.done():
                break
            await asyncio.sleep(0.01)
        assert isinstance(pending.exception(), tril.Cancelled)

    asyncio.run(main())


def test_wait_for_and_errors(translator: tril.Translator) -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(translator.translate_async("I want tea", min_decoding_length=60, max_ratio=0.0), 0.0)
        with pytest.raises(tril.InvalidArgument):
            await translator.translate_async("tea " * 300)
        with pytest.raises(tril.TimedOut):
            await translator.translate_async("tea", timeout=0.0)

    asyncio.run(main())


def test_loop_that_was_closed(translator: tril.Translator, lines: list[str]) -> None:
    """Results that nobody waits for any more disturb nobody."""

    async def leave() -> None:
        for line in lines:
            asyncio.ensure_future(translator.translate_async(line))
        await asyncio.sleep(0)

    asyncio.run(leave())
    assert translator.translate("I want tea")


def test_generator(generator: tril.Generator) -> None:
    async def main() -> str:
        return await generator.generate_async("I want", max_decoding_length=4)

    assert asyncio.run(main()) == generator.generate("I want", max_decoding_length=4)
