#!/usr/bin/env python3
"""A Hugging Face folder of OPUS-MT's shape in tril and in CTranslate2, on the same text, alternating.

    imported.py TRIL CACHE TEXT [--rounds N] [--lines N]

TRIL is the program of preset release; CACHE a folder for the models, made the first time; TEXT real lines (as many as
SentencePiece needs to learn 8,000 pieces, say 50,000). The model is transformers' MarianMTModel of the base shape with
random weights and no END before the limit. `tril import` and CTranslate2's own converter read the same folder.
tril is timed as a process (start, loading and text included), less the time of a process with one line; CTranslate2
within a process that has translated before, on tokens. Every configuration of CTranslate2's threads is tried, and the
fastest counts. Needs torch, transformers, sentencepiece, protobuf and ctranslate2.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import work

PIECES = 8000
WORK = [(batch, beam, compute) for compute in ("fp32", "int8") for beam in (1, 4) for batch in (1, 32)]
THREADS = {1: ((1, 2), (1, 1)), 32: ((2, 1), (1, 2))}


def make_folder(folder, text):
    import sentencepiece
    import torch
    import transformers

    print(f"making {folder} (once)", flush=True)
    folder.mkdir(parents=True)
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=str(folder / "both"), vocab_size=PIECES,
                                             minloglevel=1, input_sentence_size=100_000)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes((folder / "both.model").read_bytes())
    (folder / "both.model").unlink()
    (folder / "both.vocab").unlink()
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))
    words = ["</s>", "<unk>"] + [pieces.id_to_piece(i) for i in range(3, PIECES)]
    words += [f"\u2581t{i}" for i in range(len(words), work.TRANSLATION_VOCAB - 1)] + ["<pad>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "xx", "target_lang": "yy"}))
    pad = work.TRANSLATION_VOCAB - 1
    torch.manual_seed(1)
    model = transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=work.TRANSLATION_VOCAB, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
        activation_function="swish", scale_embedding=True, pad_token_id=pad, eos_token_id=0,
        decoder_start_token_id=pad, forced_eos_token_id=None))
    model.final_logits_bias[0, 0] = -1000.0  # no END
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)


def make_models(tril, cache, text):
    theirs = cache / "opus"
    if not (theirs / "config.json").exists():
        make_folder(theirs, text)
    if not (cache / "tril/config.json").exists():
        subprocess.run([tril, "import", theirs, "-o", cache / "tril"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([tril, "quantize", cache / "tril", "--to", "int8"], check=True, stdout=subprocess.DEVNULL)
    for compute in ("fp32", "int8"):
        folder = cache / f"ct2-{compute}"
        if not folder.exists():
            from ctranslate2.converters import TransformersConverter
            TransformersConverter(str(theirs)).convert(str(folder), quantization=None if compute == "fp32" else "int8")


def tril_seconds(tril, cache, lines, batch, beam, compute):
    def process(some):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(line + "\n" for line in some))
            file.flush()
            command = [tril, "translate", cache / "tril", "--compute", compute, "--beam", str(beam), "--batch",
                       str(batch * beam), "--max-tokens", str(work.TOKENS_OUT), "--max-ratio", "0", "--threads", "2",
                       "--device", "cpu", "--ids", "--input", file.name]
            started = time.perf_counter()
            done = subprocess.run([str(a) for a in command], check=True, capture_output=True, text=True)
            seconds = time.perf_counter() - started
        assert all(len(line.split()) == work.TOKENS_OUT for line in done.stdout.splitlines()), "not the tokens wanted"
        return seconds
    return process(lines) - process(lines[:1])


CTRANSLATE2 = """
import json, sys, time
import ctranslate2
task = json.loads(sys.stdin.read())
translator = ctranslate2.Translator(task["folder"], device="cpu", compute_type=task["compute"],
                                    inter_threads=task["inter"], intra_threads=task["intra"])
options = dict(beam_size=task["beam"], max_decoding_length=task["tokens"], min_decoding_length=task["tokens"])
for _ in range(2):
    started = time.perf_counter()
    if task["batch"] == 1:
        results = [translator.translate_batch([line], **options)[0] for line in task["lines"]]
    else:
        results = translator.translate_batch(task["lines"], max_batch_size=task["batch"], **options)
    seconds = time.perf_counter() - started
assert all(len(result.hypotheses[0]) == task["tokens"] for result in results)
print(seconds)
"""


def ctranslate2_seconds(cache, tokens, batch, beam, compute, threads):
    task = {"folder": str(cache / f"ct2-{compute}"), "compute": "float32" if compute == "fp32" else "int8",
            "batch": batch, "beam": beam, "tokens": work.TOKENS_OUT, "inter": threads[0], "intra": threads[1],
            "lines": tokens}
    done = subprocess.run([sys.executable, "-c", CTRANSLATE2], input=json.dumps(task), check=True, capture_output=True,
                          text=True)
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tril", type=pathlib.Path)
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=256)
    arguments = parser.parse_args()
    make_models(arguments.tril, arguments.cache, arguments.text)
    import sentencepiece
    pieces = sentencepiece.SentencePieceProcessor(str(arguments.cache / "opus/source.spm"))
    with open(arguments.text, encoding="utf-8") as file:
        every = [line.strip() for line in file if line.strip()]
    all_lines = every[::len(every) // arguments.lines][:arguments.lines]
    for batch, beam, compute in WORK:
        lines = all_lines[:len(all_lines) // 8] if batch == 1 else all_lines
        tokens = [pieces.encode(line, out_type=str) + ["</s>"] for line in lines]
        ours, theirs = [], {threads: [] for threads in THREADS[batch]}
        for _ in range(arguments.rounds):
            ours.append(tril_seconds(arguments.tril, arguments.cache, lines, batch, beam, compute))
            for threads in THREADS[batch]:
                theirs[threads].append(ctranslate2_seconds(arguments.cache, tokens, batch, beam, compute, threads))
        written = len(lines) * work.TOKENS_OUT
        # tril's difference of two processes leaves one line out.
        here = (written - work.TOKENS_OUT) / statistics.median(ours)
        threads, there = max(((t, written / statistics.median(s)) for t, s in theirs.items()), key=lambda item: item[1])
        print(f"{compute} {'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}: tril {here:,.0f} tokens/s, "
              f"CTranslate2 {threads} {there:,.0f}: {here / there:.2f}", flush=True)


if __name__ == "__main__":
    main()
