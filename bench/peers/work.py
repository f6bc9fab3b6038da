"""The work that every system is given; src/tril/measure/work.h has the same."""

from statistics import NormalDist

QUANTILES = 64
_normal = NormalDist(28, 12)
_sorted = [min(100, max(4, round(_normal.inv_cdf((i + 0.5) / QUANTILES)))) for i in range(QUANTILES)]
LENGTHS = [_sorted[39 * i % QUANTILES] for i in range(QUANTILES)]

GEMM = [(1, 512, 512), (6, 512, 512), (32, 512, 512), (128, 512, 512), (512, 512, 512), (1, 58101, 512),
        (32, 58101, 512), (128, 58101, 512), (2048, 128, 128), (2048, 256, 128), (2048, 128, 256),
        (2048, 8000, 128), (2048, 256, 256), (2048, 1024, 256), (2048, 256, 1024), (2048, 8000, 256),
        (1024, 512, 512), (1024, 2048, 512), (1024, 512, 2048), (1024, 32000, 512)]
ATTENTION = [(16, 8, 32, 64), (16, 8, 300, 64), (1, 8, 2048, 64), (1, 8, 8192, 64)]

# name, width, heads, feed-forward, layers, dropout, vocabulary, target tokens per batch
TRAINING = {"tiny": (128, 4, 256, 4, 0.3, 8000, 2048),
            "small": (256, 4, 1024, 3, 0.3, 8000, 2048),
            "base": (512, 8, 2048, 6, 0.1, 32000, 1024)}

# Translation: base shape, SiLU, post-norm, random weights.
TRANSLATION_VOCAB = 58101
TOKENS_OUT = 30
