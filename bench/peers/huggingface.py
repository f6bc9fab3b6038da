"""Hugging Face transformers on the same translation: a Marian model of base shape, random weights, fp32."""

import time

import torch
import transformers

import translators
import work


class Marian:
    def __init__(self):
        transformers.logging.set_verbosity_error()
        torch.manual_seed(1)
        config = transformers.MarianConfig(
            vocab_size=work.TRANSLATION_VOCAB, d_model=translators.MODEL, encoder_layers=translators.LAYERS,
            decoder_layers=translators.LAYERS, encoder_attention_heads=translators.HEADS,
            decoder_attention_heads=translators.HEADS, encoder_ffn_dim=translators.INNER,
            decoder_ffn_dim=translators.INNER, activation_function="swish", max_position_embeddings=512,
            scale_embedding=True, pad_token_id=0, eos_token_id=3, decoder_start_token_id=2, forced_eos_token_id=None)
        self.model = transformers.MarianMTModel(config).eval()

    @torch.inference_mode()
    def translate(self, lines, beam):
        longest = max(map(len, lines))
        ids = torch.tensor([line + [0] * (longest - len(line)) for line in lines])
        out = self.model.generate(input_ids=ids, attention_mask=(ids != 0).long(), num_beams=beam, do_sample=False,
                                  min_new_tokens=work.TOKENS_OUT, max_new_tokens=work.TOKENS_OUT)
        assert out.shape == (len(lines), work.TOKENS_OUT + 1)

    def tokens_per_second(self, batch, beam):
        """All sentences once, sorted by length; one at a time only the first quarter of them, whose
        lengths are as mixed, because it takes minutes. After one to warm up."""
        lines = translators.token_ids()
        lines = lines[:len(lines) // 4] if batch == 1 else sorted(lines, key=len)
        self.translate(lines[:1], beam)
        started = time.perf_counter()
        for first in range(0, len(lines), batch):
            self.translate(lines[first:first + batch], beam)
        return len(lines) * work.TOKENS_OUT / (time.perf_counter() - started)
