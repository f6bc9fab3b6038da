#!/usr/bin/env python3
"""Writes what generate() of transformers gives with every rule that tril has too.

    python3 tests/hub/make_generation.py                   # tests/hub/generation.json, a few inputs
    python3 tests/hub/make_generation.py all.json 100      # as many inputs per setting, all families

The models are those of make_models.py. A setting is a dictionary as in generation_config.json; the
test reads it as the importer does. `decoder_input_ids` are what a target must begin with. Needs
torch and transformers (written with transformers 5.23).
"""
import collections
import json
import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).parent
LENGTHS = [2, 3, 5, 8, 12]
LIMIT = 18


def settings(common):
    """Name to setting; `common` holds tokens and sequences that plain search likes to write."""
    token, other = common['tokens'][0], common['tokens'][1]
    yield 'greedy', {}
    for beams in (2, 4, 5):
        yield f'beam {beams}', dict(num_beams=beams)
    for early in (True, False, 'never'):
        for penalty in (0.6, 1.0, 2.0):
            beams = {0.6: 2, 1.0: 4, 2.0: 5}[penalty]
            yield f'early {early} {penalty}', dict(num_beams=beams, early_stopping=early, length_penalty=penalty)
    for penalty in (0.0, -0.5):
        yield f'never {penalty}', dict(num_beams=4, early_stopping='never', length_penalty=penalty)
    for beams in (1, 4):
        with_beams = dict(num_beams=beams)
        yield f'min_new_tokens {beams}', dict(min_new_tokens=9, **with_beams)
        yield f'min_length {beams}', dict(min_length=12, **with_beams)
        for size in (1, 2, 3):
            yield f'ngram {size} {beams}', dict(no_repeat_ngram_size=size, **with_beams)
        yield f'bad tokens {beams}', dict(bad_words_ids=[[token], [other]], **with_beams)
        yield f'bad words {beams}', dict(bad_words_ids=common['sequences'], **with_beams)
        for penalty in (1.3, 2.0, 0.8):
            yield f'repetition {penalty} {beams}', dict(repetition_penalty=penalty, **with_beams)
        yield f'forced first {beams}', dict(forced_bos_token_id=token, **with_beams)
        yield f'forced last {beams}', dict(forced_eos_token_id=common['end'], **with_beams)
        yield f'several ends {beams}', dict(eos_token_id=[common['end'], token, other], **with_beams)
        yield f'prompt {beams}', dict(decoder_input_ids=[other, token], **with_beams)
    for early in (True, False):
        yield f'renormalize {early}', dict(
            num_beams=4, early_stopping=early, renormalize_logits=True, bad_words_ids=[[token], [other]], min_length=6)
        yield f'renormalize penalty {early}', dict(
            num_beams=4, early_stopping=early, renormalize_logits=True, repetition_penalty=1.3, no_repeat_ngram_size=2,
            forced_bos_token_id=other)
    for early in (True, False, 'never'):
        yield f'forced both {early}', dict(
            num_beams=5, early_stopping=early, forced_bos_token_id=other, forced_eos_token_id=common['end'],
            length_penalty=0.6)
        yield f'several ends {early}', dict(
            num_beams=5, early_stopping=early, eos_token_id=[common['end'], token], length_penalty=2.0)
    yield 'all greedy', dict(
        no_repeat_ngram_size=3, repetition_penalty=1.2, min_new_tokens=6, bad_words_ids=[[token]] + common['sequences'],
        forced_bos_token_id=other, forced_eos_token_id=common['end'])
    for early in (True, False, 'never'):
        yield f'all {early}', dict(
            num_beams=4, early_stopping=early, length_penalty=2.0, no_repeat_ngram_size=2, repetition_penalty=1.3,
            min_length=7, bad_words_ids=[[token]] + common['sequences'], eos_token_id=[common['end'], common['tokens'][2]])


class Model:
    def __init__(self, family):
        folder = HERE / 'models' / family
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float64).eval()
        self.config = self.model.config
        self.start, self.end = self.config.decoder_start_token_id, self.config.eos_token_id

    def sources(self, count):
        torch.manual_seed(7)
        per_length = -(-count // len(LENGTHS))
        for length in LENGTHS:
            ids = torch.randint(3, self.config.vocab_size - 5, (per_length, length))
            yield torch.cat([ids, torch.full((per_length, 1), self.end)], dim=1)

    def generate(self, batch, setting):
        how = dict(setting)
        prompt = [self.start] + how.pop('decoder_input_ids', [])
        with torch.no_grad():
            out = self.model.generate(
                input_ids=batch, attention_mask=torch.ones_like(batch), do_sample=False, max_new_tokens=LIMIT,
                decoder_input_ids=torch.tensor([prompt] * len(batch)), **how)
        ends = how.get('eos_token_id', self.end)
        ends = ends if isinstance(ends, list) else [ends]
        for row in out[:, 1:].tolist():
            first = next((i for i in range(len(prompt) - 1, len(row)) if row[i] in ends), len(row))
            yield row[: first + 1]

    def common(self):
        tokens, pairs, triples = (collections.Counter() for _ in range(3))
        for batch in self.sources(50):
            for row in self.generate(batch, dict(num_beams=2)):
                row = [t for t in row if t != self.end]
                tokens.update(set(row))
                pairs.update(set(zip(row, row[1:])))
                triples.update(set(zip(row, row[1:], row[2:])))
        for token in range(3, 6):  # a small model may have nothing else to say
            tokens[token] += 0
        best = lambda counter, count: [list(k) if isinstance(k, tuple) else k for k, _ in counter.most_common(count)]
        return dict(tokens=best(tokens, 3), sequences=best(pairs, 3) + best(triples, 2), end=self.end)


def translators():
    """Models with an encoder; decoder-only ones have no source to translate."""
    for folder in sorted((HERE / 'models').iterdir()):
        if json.loads((folder / 'config.json').read_text()).get('is_encoder_decoder', True):
            yield folder.name


def main():
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / 'generation.json'
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    transformers.logging.set_verbosity_error()
    families = sys.argv[3:] or (translators() if len(sys.argv) > 1 else ['bart', 'marian'])
    everything = {}
    for family in families:
        model = Model(family)
        batches = list(model.sources(count))
        cases = []
        for name, setting in settings(model.common()):
            written = [row for batch in batches for row in model.generate(batch, setting)]
            cases.append(dict(name=name, setting=dict(max_new_tokens=LIMIT, **setting), written=written))
            print(family, name, sum(row[-1] == model.end for row in written), len(written), flush=True)
        everything[family] = dict(
            start=model.start, end=model.end, sources=[row for batch in batches for row in batch.tolist()], cases=cases)
    text = json.dumps(everything, separators=(',', ':'))
    to.write_text(text.replace('{"name"', '\n{"name"') + '\n')


if __name__ == '__main__':
    main()
