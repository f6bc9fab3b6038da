#!/usr/bin/env python3
"""Makes tests/tokenizers/fixtures: one small folder per kind, and cases.json with what transformers makes of a
few lines; and seeds for the fuzz targets. Run it again when kinds.py or the sentences change (packages: see kinds.py):

    /tmp/tokenizers/bin/python tests/tokenizers/make_fixtures.py
"""

import json
import os
import shutil

import kinds

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")

CHOSEN = ["marian", "marian_separate", "m2m100", "nllb", "mbart25", "mbart50_spm", "t5", "t5_spm", "llama", "llama3",
          "gpt2_files", "bart"]

# Written for this purpose.
SENTENCES = [
    "the theory that they themselves gathered is the theory of the other gatherers",
    "how are you today? I am fine, thank you. Where are they going? They're going there, we'll see.",
    "def main(arguments): return 0 if arguments else 1  # the main function returns 0 or 1",
    "for (int i = 0; i < 10; ++i) { sum += values[i]; }",
    "मैं ठीक हूँ, धन्यवाद। आप कैसे हैं? वे आज कहाँ जा रहे हैं?",
    "naïve café, déjà vu, Ünïcödé, straße, łódź, ĉirkaŭ",
    "日本語のテキストと中国語の文字",
    "Привет, как дела? Сегодня хорошая погода.",
    "1234567890 3.14159 2026-11-18 42% $100",
]
LINES = [
    "", " ", "how are you", "  the  theory of\tthat ", "They'll SEE, they'S 12345!", "मैं ठीक हूँ <s> </s>", "theorys theory <tool> x",
    "ﬁne ﬁ\u0301 １２ e\u0301 \u3000x", "日本\u2581 <mask> 👍🏽\U0001f468\u200d\U0001f469", ">>fra<< straße\r\n\n x  <0x41>",
    "    return sum[0]\n", "don'ſ <unk> Привет\u0301, 한국",
]
# In place of the large maps of SentencePiece: a few of their rules.
RULES = "FB01\t66 69\nFF11\t31\nFF12\t32\n3000\t20\n65 301\tE9\n9\t20\nA\t20\nD\t20\n"


def minify(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not name.endswith(".json"):
            continue
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False, separators=(",", ":"))


def write_seeds():
    """For the fuzz targets of tokenizers."""
    corpus = os.path.join(FOLDER, "..", "..", "fuzz", "corpus")
    for target in ("json", "files", "spm"):
        os.makedirs(os.path.join(corpus, "tokenizer_" + target), exist_ok=True)
    for name in ("llama3", "nllb", "t5"):
        shutil.copyfile(f"{FOLDER}/{name}/tokenizer.json", f"{corpus}/tokenizer_json/{name}.json")
    shutil.copyfile(f"{FOLDER}/t5_spm/spiece.model", f"{corpus}/tokenizer_spm/t5.model")
    shutil.copyfile(f"{FOLDER}/m2m100/sentencepiece.bpe.model", f"{corpus}/tokenizer_spm/bpe.model")
    for name, family in (("marian", "marian"), ("gpt2_files", "gpt2"), ("m2m100", "m2m_100")):
        with open(f"{corpus}/tokenizer_files/{name}", "wb") as seed:
            seed.write(family.encode())
            for file in sorted(set(os.listdir(f"{FOLDER}/{name}")) - {"cases.json"}):
                with open(f"{FOLDER}/{name}/{file}", "rb") as content:
                    seed.write(f"\n=== {file}\n".encode() + content.read())


def main():
    os.makedirs(FOLDER, exist_ok=True)
    rules = os.path.join(FOLDER, "rules.tsv")
    with open(rules, "w", encoding="ascii") as file:
        file.write(RULES)
    kinds.use_small_rules(rules)
    for name in CHOSEN:
        folder = os.path.join(FOLDER, name)
        size = {"llama": 400, "llama3": 330, "gpt2_files": 330, "bart": 330}.get(name, 190)
        kind = kinds.make(name, folder, SENTENCES, size)
        cases = [list(case) for case in zip(LINES, kind.source(LINES), kind.target(LINES), kind.decode(LINES))]
        minify(folder)
        with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
            json.dump({"family": kind.family, "languages": kind.languages, "cases": cases}, file, ensure_ascii=False,
                      separators=(",", ":"))
    os.remove(rules)
    write_seeds()


if __name__ == "__main__":
    main()
