#!/usr/bin/env python3
"""CTranslate2 behind HTTP, with dynamic batching, as somebody would serve it who knows both.

    ctranslate2_server.py FOLDER [--listen HOST:PORT] [--beam N] [--compute int8] [--inter N] [--intra N]
                          [--collect N] [--wait MS] [--batch TOKENS]

POST /translate {"text": "..."} -> {"text": "...", "usage": {"target_tokens": N}}. FOLDER is a converted model with
source.spm and target.spm. Prints a line once it listens.

CTranslate2 translates whole batches: a sentence that arrives cannot join a batch that runs. So requests wait in a
queue; a batch takes what is there, up to --collect requests, once a translator is free or, after the first request
came, once --wait milliseconds have passed (0: at once). At most --inter batches run at the same time and one more is
ready, so that no translator waits for Python. translate_batch gets tokens, runs outside the interpreter's lock
(asynchronous=True), sorts by length and splits by --batch, counted in tokens with padding; each part is answered when
it is done. uvloop and httptools are used; there is no access log; texts are tokenized on the event loop, which takes
some ten microseconds a sentence.
"""

import argparse
import asyncio
import collections
import json
import pathlib
import sys

# CTranslate2 loads these where they are installed, without using them here.
for unused in ("torch", "transformers"):
    sys.modules[unused] = None

import ctranslate2
import sentencepiece
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Batcher:
    """Translates what is waiting, many requests at a time."""

    def __init__(self, arguments):
        folder = pathlib.Path(arguments.folder)
        self.pieces = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))
        self.words = sentencepiece.SentencePieceProcessor(str(folder / "target.spm"))
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=arguments.compute, inter_threads=arguments.inter,
            intra_threads=arguments.intra)
        self.options = dict(beam_size=arguments.beam, max_decoding_length=arguments.max_tokens,
                            max_input_length=0, length_penalty=arguments.length_penalty,
                            max_batch_size=arguments.batch, batch_type="tokens", asynchronous=True)
        self.collect, self.wait = arguments.collect, arguments.wait / 1000
        self.waiting = collections.deque()
        self.arrived = asyncio.Event()
        self.free = asyncio.Semaphore(arguments.inter + arguments.ahead)
        self.running = set()

    async def translate(self, text):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((self.pieces.encode(text, out_type=str) + ["</s>"], future))
        self.arrived.set()
        return await future

    async def serve(self):
        loop = asyncio.get_running_loop()
        while True:
            await self.free.acquire()
            while not self.waiting:
                self.arrived.clear()
                await self.arrived.wait()
            until = loop.time() + self.wait
            while len(self.waiting) < self.collect and (left := until - loop.time()) > 0:
                self.arrived.clear()
                try:
                    await asyncio.wait_for(self.arrived.wait(), left)
                except asyncio.TimeoutError:
                    break
            batch = [self.waiting.popleft() for _ in range(min(self.collect, len(self.waiting)))]
            # Clients that have left meanwhile.
            batch = [(tokens, future) for tokens, future in batch if not future.done()]
            if batch:
                task = asyncio.create_task(self.run(batch))
                self.running.add(task)
                task.add_done_callback(self.running.discard)
            else:
                self.free.release()

    async def run(self, batch):
        """Answers each request as soon as its part of the batch is translated."""
        loop = asyncio.get_running_loop()
        # As CTranslate2 does, the longest first, so that they end in this order.
        batch.sort(key=lambda item: -len(item[0]))
        try:
            results = self.translator.translate_batch([tokens for tokens, _ in batch], **self.options)
            futures = [future for _, future in batch]
            await loop.run_in_executor(None, hand_out, loop, results, futures)
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        finally:
            self.free.release()


def hand_out(loop, results, futures):
    """In a thread of its own: waits outside the interpreter's lock and wakes the loop once for all that are ready."""
    def answer(ready):
        for future, tokens in ready:
            if not future.done():
                future.set_result(tokens)

    ready = []
    for i, (result, future) in enumerate(zip(results, futures)):
        ready.append((future, result.result().hypotheses[0]))
        if i + 1 == len(results) or not results[i + 1].done():
            loop.call_soon_threadsafe(answer, ready)
            ready = []


def application(batcher):
    async def translate(request: Request):
        try:
            text = json.loads(await request.body())["text"]
        except (ValueError, KeyError, TypeError):
            return Response('{"error": "expected {\\"text\\": ...}"}', 400, media_type="application/json")
        tokens = await batcher.translate(text)
        # END counts, as it does for tril.
        body = {"text": batcher.words.decode(tokens), "usage": {"target_tokens": len(tokens) + 1}}
        return Response(json.dumps(body, ensure_ascii=False), media_type="application/json")

    return Starlette(routes=[Route("/translate", translate, methods=["POST"])])


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--listen", default="127.0.0.1:8090")
    parser.add_argument("--compute", default="int8")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--length-penalty", type=float, default=1)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--inter", type=int, default=2)
    parser.add_argument("--intra", type=int, default=1)
    parser.add_argument("--ahead", type=int, default=1, help="batches that may be ready beside those that run")
    parser.add_argument("--collect", type=int, default=32)
    parser.add_argument("--wait", type=float, default=0)
    parser.add_argument("--batch", type=int, default=4096)
    arguments = parser.parse_args()
    host, port = arguments.listen.rsplit(":", 1)
    batcher = Batcher(arguments)
    server = uvicorn.Server(uvicorn.Config(
        application(batcher), host=host, port=int(port), log_level="warning", access_log=False, loop="uvloop",
        http="httptools", timeout_graceful_shutdown=5))
    serving = asyncio.create_task(batcher.serve())
    listening = asyncio.create_task(server.serve())
    while not server.started and not listening.done():
        await asyncio.sleep(0.01)
    print(f"ctranslate2_server: {arguments.listen}", flush=True)
    await listening
    serving.cancel()


if __name__ == "__main__":
    import uvloop
    uvloop.run(main())
