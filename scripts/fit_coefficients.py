#!/usr/bin/env python3
"""Fits the polynomials of src/tril/kernels/cpu/simd-inl.h. Needs numpy and mpmath.

Each is a least-squares fit on Chebyshev nodes, reweighted towards the largest error until the
error is level (Lawson's iteration), then rounded to fp32. The errors printed are those of the
polynomial with rounded coefficients, evaluated exactly.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 40


def fit(function, low, high, degree, weight=lambda t: 1.0, nodes=400, iterations=200):
    t = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    y = np.array([float(function(mp.mpf(float(v)))) for v in t])
    w = np.array([weight(v) for v in t])
    lawson = np.ones(nodes) / nodes
    powers = np.vander(t, degree + 1, increasing=True)
    for _ in range(iterations):
        scale = w * np.sqrt(lawson)
        c, *_ = np.linalg.lstsq(powers * scale[:, None], y * scale, rcond=None)
        error = np.abs((powers @ c - y) * w)
        lawson = lawson * error
        lawson /= lawson.sum()
    rounded = np.float32(c).astype(np.float64)
    return rounded, np.abs((powers @ rounded - y) * w).max()


def show(name, result):
    coefficients, error = result
    print(f"{name}: largest weighted error {error:.3g}")
    print("  " + ", ".join(float.hex(float(c)).replace("0000000p", "p") + "f" for c in coefficients))


half_ln2 = float(mp.log(2)) / 2
# e^r = 1 + r + r^2 q(r)
show("exp q(r)", fit(lambda r: (mp.exp(r) - 1 - r) / r**2 if abs(r) > 1e-12 else mp.mpf(0.5),
                     -half_ln2, half_ln2, 4, weight=lambda r: r * r))
# erf(x) = x + x p(x^2), |x| < 1
show("erf p(x^2)", fit(lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1 if s > 1e-12
                       else 2 / mp.sqrt(mp.pi) - 1, 0.0, 1.0, 6))
# erf(x) = 1 - e^g(x), 1 <= x <= 4, weighted by what an error in g does to the result
show("erf g(x)", fit(lambda x: mp.log(mp.erfc(x)), 0.999, 4.0, 8,
                     weight=lambda x: float(mp.erfc(x))))
