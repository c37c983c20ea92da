"""What the tests share."""
import numpy as np

DTYPES = ["float32", "float64", "complex64", "complex128"]


class Random:
    """Small random problems; the same for a seed on every machine."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def chance(self, p):
        return self.rng.random() < p

    def values(self, shape, dtype):
        x = self.rng.uniform(-1, 1, shape)
        if np.dtype(dtype).kind == "c":
            x = x + 1j * self.rng.uniform(-1, 1, shape)
        return np.asarray(x).astype(dtype)

    def strided(self, shape, dtype):
        """An array of this shape over memory of any strides: padded, permuted, reversed, repeated."""
        order = self.rng.permutation(len(shape))
        steps = [self.integer(1, 2) for _ in shape]
        base = self.values([shape[d] * s for d, s in zip(order, (steps[d] for d in order))], dtype)
        x = base[tuple(slice(None, None, steps[d]) for d in order)].transpose(np.argsort(order))
        x = x[tuple(slice(None, None, -1 if self.chance(0.3) else 1) for _ in shape)]
        for d in range(len(shape)):
            if shape[d] > 0 and self.chance(0.1):
                x = np.broadcast_to(x.take([0], axis=d), shape)
        return x
