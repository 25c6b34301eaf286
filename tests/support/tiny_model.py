#!/usr/bin/env python3
"""What the model of `quern doctor --try` (cli/src/tiny_model.cpp) must compute: a llama step by step in f64, with nothing of Quern's.

Prints the negative log-likelihood of each token behind the first.
"""

import math

WIDTH, FFN, LAYERS, HEADS, KV_HEADS, HEAD, VOCABULARY, TOKENS = 64, 96, 2, 4, 2, 16, 64, 16
EPSILON, BASE, MASK = 2.0**-17, 10000.0, 2**64 - 1


def made_up(tensor, place):
    x = ((tensor << 32 | place) + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    x ^= x >> 31
    return (x >> 40) * 2.0**-23 - 1


class Weights:
    """Tensors in the order of the file, numbered from 1."""

    def __init__(self):
        self.count = 0

    def matrix(self, columns, rows, scale):
        self.count += 1
        return [[made_up(self.count, r * columns + c) * scale for c in range(columns)] for r in range(rows)]

    def norm(self):
        self.count += 1
        return [1 + made_up(self.count, i) * 0.25 for i in range(WIDTH)]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def normed(x, weight):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + EPSILON)
    return [v * scale * w for v, w in zip(x, weight)]


def rotated(head, position):
    """Pairs of neighbours, as llama files have them."""
    out = list(head)
    for i in range(0, HEAD, 2):
        angle = position * BASE ** (-i / HEAD)
        cosine, sine = math.cos(angle), math.sin(angle)
        out[i], out[i + 1] = head[i] * cosine - head[i + 1] * sine, head[i] * sine + head[i + 1] * cosine
    return out


def heads_of(vector):
    return [vector[i : i + HEAD] for i in range(0, len(vector), HEAD)]


def attend(query, keys, values):
    scores = [sum(a * b for a, b in zip(query, key)) / math.sqrt(HEAD) for key in keys]
    top = max(scores)
    shares = [math.exp(score - top) for score in scores]
    return [sum(s * v[i] for s, v in zip(shares, values)) / sum(shares) for i in range(HEAD)]


def expected():
    weights = Weights()
    table, last = weights.matrix(WIDTH, VOCABULARY, 0.5), weights.norm()
    layers = []
    for _ in range(LAYERS):
        layers.append((weights.norm(), weights.matrix(WIDTH, HEADS * HEAD, 0.25), weights.matrix(WIDTH, KV_HEADS * HEAD, 0.25),
                       weights.matrix(WIDTH, KV_HEADS * HEAD, 0.25), weights.matrix(HEADS * HEAD, WIDTH, 0.25), weights.norm(),
                       weights.matrix(WIDTH, FFN, 0.25), weights.matrix(WIDTH, FFN, 0.25), weights.matrix(FFN, WIDTH, 0.25)))
    ids = [3 + (7 * i + 5) % 61 for i in range(TOKENS)]
    cache = [([], []) for _ in range(LAYERS)]
    found = []
    for position, token in enumerate(ids[:-1]):
        x = table[token]
        for (keys, values), (norm, q, k, v, out, ffn_norm, gate, up, down) in zip(cache, layers):
            y = normed(x, norm)
            keys.append([rotated(head, position) for head in heads_of(times(k, y))])
            values.append(heads_of(times(v, y)))
            queries = [rotated(head, position) for head in heads_of(times(q, y))]
            group = HEADS // KV_HEADS
            mixed = [n for h, query in enumerate(queries)
                     for n in attend(query, [key[h // group] for key in keys], [value[h // group] for value in values])]
            x = [a + b for a, b in zip(x, times(out, mixed))]
            y = normed(x, ffn_norm)
            x = [a + b for a, b in zip(x, times(down, [g / (1 + math.exp(-g)) * u for g, u in zip(times(gate, y), times(up, y))]))]
        logits = times(table, normed(x, last))
        top = max(logits)
        found.append(top + math.log(sum(math.exp(logit - top) for logit in logits)) - logits[ids[position + 1]])
    return found


if __name__ == "__main__":
    print(", ".join(f"{value:.9f}" for value in expected()))
