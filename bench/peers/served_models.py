"""The model that both servers serve: OPUS-MT's shape, random weights, translations that end (ending.py).

    served_models.py TRIL CACHE TEXT

makes CACHE/served/{opus,tril,ct2-int8} where they are missing. TRIL is the program; TEXT real lines, as many as
SentencePiece needs to learn 8,000 pieces, say 50,000. Needs torch, transformers, sentencepiece, protobuf, ctranslate2.
"""

import pathlib
import shutil
import subprocess
import sys

import imported


def make_folder(theirs, source):
    import torch
    import transformers

    import ending

    model = transformers.MarianMTModel.from_pretrained(source)
    torch.manual_seed(1)
    ending.end_with_the_source(model, end=0)
    model.save_pretrained(theirs)
    for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        shutil.copy(source / name, theirs / name)


def make(tril, cache, text):
    """The folder that holds the three."""
    served = cache / "served"
    if not (served / "opus/config.json").exists():
        if not (cache / "opus/config.json").exists():
            imported.make_folder(cache / "opus", text)
        make_folder(served / "opus", cache / "opus")
    if not (served / "tril/config.json").exists():
        subprocess.run([tril, "import", served / "opus", "-o", served / "tril"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([tril, "quantize", served / "tril", "--to", "int8"], check=True, stdout=subprocess.DEVNULL)
    if not (served / "ct2-int8").exists():
        from ctranslate2.converters import TransformersConverter
        TransformersConverter(str(served / "opus")).convert(str(served / "ct2-int8"), quantization="int8")
        for name in ("source.spm", "target.spm"):
            shutil.copy(served / "opus" / name, served / "ct2-int8" / name)
    return served


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]))
